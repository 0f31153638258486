// The merge plan: turns many staged extents into few large target writes (collective buffering for one file). Extents
// that adjoin in the file become one write, wherever they lie in the log. A run longer than `write_max` is cut at
// stripe boundaries. The input is disjoint (the newest bytes of the extent map), so the order of writes is free. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "extent/range.h"

namespace forebay::plan {

// A token of the caller for the owner of a piece's bytes. The planner only copies it.
enum class Keeper : std::uintptr_t { kNone = 0 };

// A staged extent: its place in the file, and its bytes (null: zeros).
struct Piece {
    ByteRange range;
    const std::byte* bytes = nullptr;
    std::uint64_t sequence = 0;   // sequence number of its record
    Keeper keeper = Keeper::kNone;
};

struct Policy {
    std::uint64_t stripe = 1;         // bytes, at least 1
    std::uint64_t write_max = 1;      // bytes, at least 1
    std::size_t pieces_max = 65536;   // per write, at least 1
    // Runs shorter than this stay for later, and so does as much behind the last stripe boundary of longer runs:
    // neighbours may follow. At most a stripe. 0 or 1: none stays.
    std::uint64_t run_min = 0;
    // A run that ends here still grows, so its bytes behind the last stripe boundary stay. `kOffsetMax`: none.
    std::uint64_t growing_at = kOffsetMax;
};

struct TargetWrite {
    ByteRange range;
    std::vector<Piece> pieces;   // ascending, adjoining, covering range
};

// `pieces` are disjoint and ascending.
[[nodiscard]] std::vector<TargetWrite> merge(std::span<const Piece> pieces, const Policy& policy);

}   // namespace forebay::plan
