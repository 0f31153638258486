// Selects pieces of a file that one request reads together (data sieving): neighbours with small gaps.
// A request to a slow target costs about as much as some tens of KiB. So small pieces with small gaps share one request
// through a buffer. Large pieces go directly to their destination. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "extent/range.h"

namespace forebay::plan {

struct ReadPiece {
    ByteRange range;
    std::byte* to = nullptr;
};

struct ReadPolicy {
    std::uint64_t gap_max = 0;        // longest gap between two pieces of one request, in bytes
    std::uint64_t hull_max = 1;       // longest request for several pieces, in bytes
    std::uint64_t straight_min = 1;   // a piece of at least this many bytes is a request of its own
    // A request for several pieces reads at most this multiple of the wanted bytes, plus one gap.
    std::uint64_t waste_max = 4;
};

// One read of `hull`, for pieces [first, end).
struct ReadRequest {
    ByteRange hull;
    std::size_t first = 0, end = 0;
    friend bool operator==(const ReadRequest&, const ReadRequest&) = default;
};

// `pieces` ascend by begin offset, and may overlap.
[[nodiscard]] std::vector<ReadRequest> merge_reads(std::span<const ReadPiece> pieces, const ReadPolicy& policy);

}   // namespace forebay::plan
