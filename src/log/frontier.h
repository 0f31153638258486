// Decides when a log gives back a segment of a file that several processes write. A log gives its segments back oldest
// first, so within one log a record outlives those that it supersedes. Across logs the *frontier* ensures that. It has
// one sequence number for each class of records. A record is *dead* only once it is below its class's number. Its bytes
// are then in the target, or superseded. Readers of the logs do not use the bytes of a dead record, but let it
// supersede older ones. A segment without live bytes may go once no other log can reveal a record that this segment
// superseded. If the superseded records were
//   - raw data: all records up to this segment's last one must be dead;
//   - drained metadata: all metadata records drained so far must be dead;
//   - staged metadata: those records must be dead (`supersedes` has the last of them).
// Metadata may wait long for a commit. It has a number of its own so that it does not keep all later raw data.
// Pure. The lock that guards a segment guards its order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "log/format.h"

namespace forebay::log {

struct Frontier {
    static constexpr std::uint64_t kNothing = std::numeric_limits<std::uint64_t>::max();   // no record is needed
    std::uint64_t raw = kNothing, metadata = kNothing;

    [[nodiscard]] std::uint64_t of(DataClass data_class) const noexcept {
        return data_class == DataClass::kMetadata ? metadata : raw;
    }
    // Below this number no record is needed.
    [[nodiscard]] std::uint64_t lower() const noexcept { return std::min(raw, metadata); }
    void lower_to(const Frontier& other) noexcept {
        raw = std::min(raw, other.raw);
        metadata = std::min(metadata, other.metadata);
    }
};

// The sequence numbers of a segment's records.
struct SegmentOrder {
    Frontier first;                    // no live record has a lower number, by class
    std::uint64_t last = 0;            // the highest
    std::uint64_t live_metadata = 0;   // bytes of metadata records among the segment's live bytes
    std::uint64_t supersedes = 0;   // metadata records of other logs that were superseded here have at most this number

    // Notes a record before its bytes become live.
    void note(DataClass data_class, std::uint64_t sequence, std::uint64_t live_bytes) noexcept {
        const bool waits = data_class == DataClass::kMetadata;
        std::uint64_t& lowest = waits ? first.metadata : first.raw;
        const std::uint64_t live = waits ? live_metadata : live_bytes - live_metadata;
        lowest = live == 0 ? sequence : std::min(lowest, sequence);
        last = std::max(last, sequence);
    }
    // Notes a bypass record. With `anything` it may supersede any older record, of either class.
    void note_bypass(std::uint64_t sequence, bool anything = true) noexcept {
        last = std::max(last, sequence);
        if (anything) supersedes = std::max(supersedes, sequence);
    }
    // The lowest records that this segment still needs.
    [[nodiscard]] Frontier needed(std::uint64_t live_bytes) const noexcept {
        return {live_bytes > live_metadata ? first.raw : Frontier::kNothing,
                live_metadata > 0 ? first.metadata : Frontier::kNothing};
    }
    // `drained` is the highest number of a metadata record that was drained.
    [[nodiscard]] bool may_go(const Frontier& frontier, std::uint64_t drained) const noexcept {
        return last < frontier.raw && std::max(supersedes, std::min(last, drained)) < frontier.metadata;
    }
};

}   // namespace forebay::log
