// When a segment may go although other logs of the same file stay (a file that several processes write).
//
// A log gives its segments back oldest first, so within one log no record goes before one that it supersedes.
// Across logs the *frontier* sees to that. It is a sequence number for each class of records; a record with a
// lower number than its class's is dead: its bytes are in the target, or superseded by a later record. Whoever
// reads the logs from their beginning takes a dead record as saying only that what is older does not count.
//
// A segment without live bytes may go once nothing that its records supersede can come to light in another
// log. That could be
//   - a record that does not wait for a commit: all of them up to this segment's last one are dead;
//   - one that does, drained: all that were ever drained are dead;
//   - one that does, superseded while it was staged: those are dead (the segment has noted the last of them).
// The two classes have a number each because what waits for a commit may wait for long, and must not keep
// everything that was written after it.
//
// Pure. A segment's order is guarded as the segment itself is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "log/format.h"

namespace forebay::log {

struct Frontier {
    static constexpr std::uint64_t kNothing = std::numeric_limits<std::uint64_t>::max();   // no record counts
    std::uint64_t raw = kNothing, metadata = kNothing;

    [[nodiscard]] std::uint64_t of(DataClass data_class) const noexcept {
        return data_class == DataClass::kMetadata ? metadata : raw;
    }
    // Below it nothing counts at all.
    [[nodiscard]] std::uint64_t lower() const noexcept { return std::min(raw, metadata); }
    void lower_to(const Frontier& other) noexcept {
        raw = std::min(raw, other.raw);
        metadata = std::min(metadata, other.metadata);
    }
};

// What a segment knows of the order of its records.
struct SegmentOrder {
    Frontier first;                    // no live record has a lower number, by class
    std::uint64_t last = 0;            // the highest
    std::uint64_t live_metadata = 0;   // of the segment's live bytes, those of records that wait for a commit
    std::uint64_t supersedes = 0;   // no record of another log that waits for a commit and was superseded here is later

    // A record whose bytes are to become live.
    void note(DataClass data_class, std::uint64_t sequence, std::uint64_t live_bytes) noexcept {
        const bool waits = data_class == DataClass::kMetadata;
        std::uint64_t& lowest = waits ? first.metadata : first.raw;
        const std::uint64_t live = waits ? live_metadata : live_bytes - live_metadata;
        lowest = live == 0 ? sequence : std::min(lowest, sequence);
        last = std::max(last, sequence);
    }
    // A bypass record: whatever it supersedes, of either class, is older.
    void note_bypass(std::uint64_t sequence, bool anything = true) noexcept {
        last = std::max(last, sequence);
        if (anything) supersedes = std::max(supersedes, sequence);
    }
    // The lowest records that are still needed, as far as this segment goes.
    [[nodiscard]] Frontier needed(std::uint64_t live_bytes) const noexcept {
        return {live_bytes > live_metadata ? first.raw : Frontier::kNothing,
                live_metadata > 0 ? first.metadata : Frontier::kNothing};
    }
    // `drained` is the highest number of a record that waited for a commit and has been drained.
    [[nodiscard]] bool may_go(const Frontier& frontier, std::uint64_t drained) const noexcept {
        return last < frontier.raw && std::max(supersedes, std::min(last, drained)) < frontier.metadata;
    }
};

}   // namespace forebay::log
