// A copy of another node's presence map: tells whether blocks are present, and whether bytes are those blocks.
// The network reads the map without a lock: `first`, the bytes, `second`. If a unit's generations are equal, no block
// was removed in between (presence.h). Checksums also detect changes by a failing device or network. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/presence.h"
#include "io/file.h"

namespace forebay::cache {

struct PeerEntry {
    std::uint64_t present = 0;
    std::uint32_t generation = 0, owner = 0;
    std::uint64_t doubtful = 0;
};
static_assert(sizeof(PeerEntry) == sizeof(UnitEntry));

struct PeerView {
    explicit PeerView(ByteRange blocks)
        : range(blocks), entries((blocks.end - 1) / kUnitBytes - blocks.begin / kUnitBytes + 1) {}

    ByteRange range;   // whole blocks; the last one ends with the file
    MapState state = MapState::kBeingMade;
    std::vector<PeerEntry> entries;   // of the units in `range`

    [[nodiscard]] std::uint64_t first_unit() const noexcept { return range.begin / kUnitBytes; }
    [[nodiscard]] std::uint64_t blocks() const noexcept { return (range.size() + kBlockBytes - 1) / kBlockBytes; }

    [[nodiscard]] bool all_present() const noexcept {
        for (std::size_t i = 0; i < entries.size(); ++i) {
            const std::uint64_t wanted = touched_blocks(first_unit() + i, range);
            if ((entries[i].present & wanted) != wanted) return false;
        }
        return true;
    }
    [[nodiscard]] bool still(const PeerView& first) const noexcept {
        if (state != MapState::kValid || !all_present()) return false;
        for (std::size_t i = 0; i < entries.size(); ++i)
            if (entries[i].generation != first.entries[i].generation) return false;
        return true;
    }
};

[[nodiscard]] bool fit(io::Bytes bytes, std::span<const std::uint32_t> checksums) noexcept;

}   // namespace forebay::cache
