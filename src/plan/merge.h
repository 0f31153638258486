// The merge plan: many staged extents in, few good target writes out (collective buffering for one file).
//
// Extents that adjoin in the file become one write, however they lie in the log; a run longer than
// `write_max` is cut at stripe boundaries. The input is disjoint (the extent map has already let the
// last writer win), so the order of the writes does not matter. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "extent/range.h"

namespace forebay::plan {

// What keeps the bytes of a piece where they are: a word of whoever gives the piece. The planner only passes it on.
enum class Keeper : std::uintptr_t { kNone = 0 };

// A staged extent: where it goes, and its bytes (null: zeros).
struct Piece {
    ByteRange range;
    const std::byte* bytes = nullptr;
    std::uint64_t sequence = 0;   // which record it came from
    Keeper keeper = Keeper::kNone;
};

struct Policy {
    std::uint64_t stripe = 1;         // bytes, at least 1
    std::uint64_t write_max = 1;      // bytes, at least 1
    std::size_t pieces_max = 65536;   // per write, at least 1
    // Leave runs shorter than this for later, and as much behind the last stripe boundary of longer ones:
    // neighbours may come. At most a stripe. 0 or 1: leave none.
    std::uint64_t run_min = 0;
    // Leave what follows the last stripe boundary of a run for later, if the run ends at this offset:
    // it is still growing there. `kOffsetMax`: leave nothing.
    std::uint64_t growing_at = kOffsetMax;
};

struct TargetWrite {
    ByteRange range;
    std::vector<Piece> pieces;   // ascending, adjoining, covering range
};

// `pieces` are disjoint and ascending.
[[nodiscard]] std::vector<TargetWrite> merge(std::span<const Piece> pieces, const Policy& policy);

}   // namespace forebay::plan
