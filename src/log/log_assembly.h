// Joins the segments of one log that a scan has read (log/scan.h). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "log/record_cursor.h"
#include "log/scan.h"

namespace forebay::log {

// A segment, and its records below the tail up to the first damage.
struct ScannedSegment {
    std::uint64_t begin = 0;   // in the file
    SegmentHeader header;
    std::optional<TargetState> state;
    RecordCursor cursor{header.use};   // behind the valid records
    std::vector<ScannedRecord> records{};
    std::optional<Status> damage{};   // the error that ended it before its tail
    std::uint64_t unread_bytes = 0;
    bool hides_record = false;   // a record follows the damage
    bool hides_commit = false;   // a commit does

    // None: the segment was taken, but nothing written.
    [[nodiscard]] const std::optional<RecordCursor::Opening>& open() const noexcept { return cursor.opening(); }
};

// Both take the segments of one log in ascending order, at least one.

// Returns the order below which the tails of all segments must be right: that of the newest segment. In a durable log
// it is that of the last commit's segment, or 0 if there is none, or if a statement on the board decides.
[[nodiscard]] std::uint64_t tails_right_below(std::span<const ScannedSegment> segments);

// Takes the records that count, the last commit, and all damage.
[[nodiscard]] ScannedLog assemble(std::vector<ScannedSegment> segments);

}   // namespace forebay::log
