// What was read of another node's presence map: whether some blocks are there, and whether bytes are those blocks.
//
// The map is read by the network, not under any lock, in this order: `first`, the bytes, `second`. A unit's generation
// that is the same in both says that nothing was taken away meanwhile, as for a reader of the node itself (presence.h).
// Each block is compared with its checksum too: bytes that a failed device or network has changed do not count. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/presence.h"
#include "io/file.h"

namespace forebay::cache {

// A UnitEntry as bytes that were copied.
struct PeerEntry {
    std::uint64_t present = 0;
    std::uint32_t generation = 0, owner = 0;
    std::uint64_t doubtful = 0;
};
static_assert(sizeof(PeerEntry) == sizeof(UnitEntry));

struct PeerView {
    explicit PeerView(ByteRange blocks)
        : range(blocks), entries((blocks.end - 1) / kUnitBytes - blocks.begin / kUnitBytes + 1) {}

    ByteRange range;   // whole blocks, but for the last one of the file
    MapState state = MapState::kBeingMade;
    std::vector<PeerEntry> entries;   // of the units that `range` touches

    [[nodiscard]] std::uint64_t first_unit() const noexcept { return range.begin / kUnitBytes; }
    [[nodiscard]] std::uint64_t blocks() const noexcept { return (range.size() + kBlockBytes - 1) / kBlockBytes; }

    [[nodiscard]] bool all_present() const noexcept {
        for (std::size_t i = 0; i < entries.size(); ++i) {
            const std::uint64_t wanted = touched_blocks(first_unit() + i, range);
            if ((entries[i].present & wanted) != wanted) return false;
        }
        return true;
    }
    // Nothing that was there in `first` has gone since.
    [[nodiscard]] bool still(const PeerView& first) const noexcept {
        if (state != MapState::kValid || !all_present()) return false;
        for (std::size_t i = 0; i < entries.size(); ++i)
            if (entries[i].generation != first.entries[i].generation) return false;
        return true;
    }
};

// `checksums`: one for each block of `bytes`, as in the map.
[[nodiscard]] bool fit(io::Bytes bytes, std::span<const std::uint32_t> checksums) noexcept;

}   // namespace forebay::cache
