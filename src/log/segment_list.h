// The segments of one log, oldest first: which of them may go back to the pool, and which records they still need. The
// segments of a log have consecutive orders. The newest one takes the records (log/file_log.h); the oldest one goes
// back first. Invariant: recovery never finds two segments of one log with the same order. Ownership: the segments
// belong to the list until it gives them back to the pool, or abandons them for recovery. Thread-safety: the lock that
// guards the segments' accounts guards the list, with one exception: the thread that appends reads `newest` and `empty`
// without it, as only that thread adds segments. Nothing blocks but a release of a segment whose device fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/status.h"
#include "log/frontier.h"
#include "log/segment_pool.h"

namespace forebay::log {

class SegmentList {
  public:
    // `log`: the log's number in its process.
    SegmentList(SegmentPool& pool, std::uint64_t log) : pool_(pool), log_(log) {}
    ~SegmentList() { release_all(); }
    SegmentList(const SegmentList&) = delete;
    SegmentList& operator=(const SegmentList&) = delete;

    [[nodiscard]] bool empty() const noexcept { return newest_ == nullptr; }
    [[nodiscard]] std::size_t size() const noexcept { return segments_.size(); }
    [[nodiscard]] Segment* oldest() const noexcept { return segments_.front(); }
    [[nodiscard]] Segment* newest() const noexcept { return newest_; }   // null: the list is empty
    // The order of the oldest segment, or of the next one if the list is empty.
    [[nodiscard]] std::uint64_t oldest_order() const noexcept { return next_order_ - segments_.size(); }

    // Takes the next segment from the pool, without changing the list. kNoSpace: the pool has none.
    Result<Segment*> acquire(SegmentPool::Take take) { return pool_.acquire(log_, next_order_, take); }
    // Makes that segment the newest. Gives it back on std::bad_alloc.
    void add(Segment* segment);

    // The lowest records that a shared file still needs from this log.
    [[nodiscard]] Frontier needed() const noexcept;
    // The number of oldest segments that are idle, without the newest.
    [[nodiscard]] std::size_t idle_at_front() const noexcept;
    // The number of oldest segments of a shared file that may go while the newest `keep` stay.
    [[nodiscard]] std::size_t may_go(const Frontier& frontier, std::uint64_t drained_metadata,
                                     std::size_t keep) const noexcept;
    // Returns true if a reader or a target write still uses a segment.
    [[nodiscard]] bool pinned() const noexcept;
    // The end of the last complete record (log_position); 0 if the list is empty. EIO: the mapping faults.
    [[nodiscard]] Result<std::uint64_t> end_position() const;

    void release_oldest();
    void release_all();
    // Empties the list for its owner, and leaves the segments for recovery.
    void abandon() noexcept;

  private:
    SegmentPool& pool_;
    const std::uint64_t log_;
    std::uint64_t next_order_ = 0;
    std::deque<Segment*> segments_;   // oldest first
    Segment* newest_ = nullptr;       // segments_.back(); the appender reads it without the lock
};

}   // namespace forebay::log
