// Follows the log of one participant from outside, and finds the records that were appended since the last call.
// A follower maps the participant's pool, segment by segment, and reads records below the published tails with a
// log::RecordCursor. The participant may reuse a released segment at any time, and `read` reports it. Ownership: the
// follower owns the views. Not thread-safe. Blocks on page faults only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "group/board.h"
#include "io/file.h"
#include "log/record_cursor.h"
#include "log/segment_pool.h"

namespace forebay::group {

class LogFollower {
  public:
    // `pool` is the participant's pool file, or null for this process's own log, which is not read.
    LogFollower(const Board& board, std::uint64_t participant, std::unique_ptr<io::File> pool,
                std::uint64_t segment_bytes);

    struct Record {
        log::RecordKind kind;
        log::DataClass data_class;
        std::uint64_t sequence = 0, argument = 0;
        std::vector<ByteRange> extents;
        log::Segment* segment = nullptr;   // a view that the follower owns; the participant may reuse its bytes
        std::uint64_t payload = 0;         // offset in the segment
        std::uint64_t generation = 0;      // of the segment at the time of the read
        std::uint64_t bytes = 0;           // of the payload
    };
    // Appends the new records to `records`. Each counts in its segment's `unindexed` until the caller subtracts it.
    // kNotFound: a segment was reused before the read. In the drainer, which releases segments, this is damage. EIO: a
    // page of the log is unreadable (io/guarded_access.h), which tells nothing about a reuse. Other errors: the pool
    // cannot be mapped, or is damaged.
    Status read(std::vector<Record>& records);

    // For participants that do not drain: begins again with the segments that are not released.
    void restart();

    // For the drainer: the lowest records that are still needed.
    [[nodiscard]] log::Frontier needed() const noexcept;

    // For the drainer: true if no byte of the oldest segment is live or pinned.
    [[nodiscard]] bool idle() const noexcept { return !open_.empty() && open_.front().segment->idle(); }
    // For the drainer: true if the oldest segment is idle and, unless its owner waits for room, not the newest.
    [[nodiscard]] bool waits_for_frontier() const noexcept {
        return idle() && (open_.size() > 1 || board_.row(participant_).wants_room.load() != 0);
    }
    // For the drainer: the lowest order of a segment that has to stay. Older segments have neither live bytes nor pins,
    // and may go (log::SegmentOrder::may_go); the newest may go only when its owner waits for room.
    [[nodiscard]] std::uint64_t needed_from(const log::Frontier& frontier,
                                            std::uint64_t drained_metadata) const noexcept;
    // For the drainer: releases the segments below `order` that may still go. Returns true if it released any.
    bool release_below(std::uint64_t order) noexcept;
    // The order of the oldest followed segment, and the end of the records read (log::log_position; 0: none followed).
    [[nodiscard]] std::uint64_t begin() const noexcept { return open_.empty() ? next_order_ : open_.front().order; }
    [[nodiscard]] std::uint64_t end() const noexcept;
    // Syncs the log to its device. Any thread may call it.
    [[nodiscard]] Status sync() const { return pool_ ? pool_->sync() : Status::ok(); }
    [[nodiscard]] bool readable() const noexcept { return pool_ != nullptr; }
    [[nodiscard]] std::uint64_t segment_bytes() const noexcept { return segment_bytes_; }

  private:
    struct Open {
        std::uint64_t order = 0;
        log::Segment* segment = nullptr;
        log::RecordCursor cursor;
    };
    Result<log::Segment*> view(std::uint64_t order);
    [[nodiscard]] Status reused(std::uint64_t order) const;
    [[nodiscard]] bool may_release(const Open& open) const noexcept;
    Status read_segment(Open& open, std::vector<Record>& records);

    const Board& board_;
    const std::uint64_t participant_;
    const std::unique_ptr<io::File> pool_;
    const std::uint64_t segment_bytes_;
    std::vector<std::unique_ptr<io::Mapping>> maps_;     // of many segments each; they outlive the views
    std::vector<std::unique_ptr<log::Segment>> views_;   // by place in the pool
    std::deque<Open> open_;                              // followed and not released, oldest first
    std::uint64_t next_order_ = 0;                       // the first segment that was not opened yet
};

}   // namespace forebay::group
