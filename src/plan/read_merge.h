// Which pieces of a file are read with one request (data sieving): neighbours, with the little that lies between them.
//
// A request costs a target that is waited for about as much as some tens of KiB. So small pieces whose gaps are small
// are read together, by way of a buffer; large ones go straight to where they belong. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "extent/range.h"

namespace forebay::plan {

// A piece to be read, and where its bytes go.
struct ReadPiece {
    ByteRange range;
    std::byte* to = nullptr;
};

struct ReadPolicy {
    std::uint64_t gap_max = 0;        // bytes between two pieces that are read along
    std::uint64_t hull_max = 1;       // of a request for several pieces
    std::uint64_t straight_min = 1;   // a piece of so many bytes is a request of its own
    std::uint64_t waste_max = 4;      // a request for several reads at most so many times what is wanted, and one gap
};

// Reads `hull` for pieces [first, end).
struct ReadRequest {
    ByteRange hull;
    std::size_t first = 0, end = 0;
    friend bool operator==(const ReadRequest&, const ReadRequest&) = default;
};

// `pieces` ascend by where they begin; they may overlap.
[[nodiscard]] std::vector<ReadRequest> merge_reads(std::span<const ReadPiece> pieces, const ReadPolicy& policy);

}   // namespace forebay::plan
