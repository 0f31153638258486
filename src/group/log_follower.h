// The log of one participant, followed from outside: which records have appeared since the last look.
//
// A follower maps the participant's pool, segment by segment, and reads records below the published tails. The
// participant may use a released segment again at any time, so what was read counts only if the segment's
// generation is the same afterwards; `read` reports when it is not.
// Ownership: the views are the follower's and live as long as it. Not thread-safe. Blocks on page faults only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "group/board.h"
#include "io/file.h"
#include "log/segment_pool.h"

namespace forebay::group {

class LogFollower {
  public:
    // `pool` is the participant's pool file; null: nothing can be read (this process's own log).
    LogFollower(const Board& board, std::uint64_t participant, std::unique_ptr<io::File> pool,
                std::uint64_t segment_bytes);

    struct Record {
        log::RecordKind kind;
        log::DataClass data_class;
        std::uint64_t sequence = 0, argument = 0;
        std::vector<ByteRange> extents;
        log::Segment* segment = nullptr;
        std::uint64_t payload = 0, generation = 0;
        std::uint64_t bytes = 0;   // of the payload
    };
    // Appends the new records to `records`; each counts in its segment's `unindexed` until the caller takes it off.
    // kNotFound: a segment was reused before it was read (never in the drainer, which releases segments). EIO: a page
    // of the log cannot be had (io/guarded_access.h). Other errors: the pool cannot be mapped, or is damaged.
    Status read(std::vector<Record>& records);

    // Begins again with the oldest segment that is not released.
    void restart();

    // For the drainer: the lowest records that are still needed.
    [[nodiscard]] log::Frontier needed() const noexcept;

    // For the drainer: nothing in the oldest segment is live or pinned.
    [[nodiscard]] bool idle() const noexcept { return !open_.empty() && open_.front().segment->idle(); }
    // For the drainer: the same, and it might be released. The newest one never is but for an owner that waits.
    [[nodiscard]] bool waits_for_frontier() const noexcept {
        return idle() && (open_.size() > 1 || board_.row(participant_).wants_room.load() != 0);
    }
    // For the drainer: the lowest order of a segment that has to stay. Older segments have neither live bytes nor pins,
    // and may go (log::SegmentOrder::may_go); the newest may go only when its owner waits for room.
    [[nodiscard]] std::uint64_t needed_from(const log::Frontier& frontier,
                                            std::uint64_t drained_metadata) const noexcept;
    // For the drainer: releases the segments below `order` that may still go. True if any was released.
    bool release_below(std::uint64_t order) noexcept;
    // The order of the oldest followed segment, and the end of the records read (log::log_position; 0: none followed).
    [[nodiscard]] std::uint64_t begin() const noexcept { return open_.empty() ? next_order_ : open_.front().order; }
    [[nodiscard]] std::uint64_t end() const noexcept;
    // Waits until the log is on its device. From any thread.
    [[nodiscard]] Status sync() const { return pool_ ? pool_->sync() : Status::ok(); }
    [[nodiscard]] bool readable() const noexcept { return pool_ != nullptr; }
    [[nodiscard]] std::uint64_t segment_bytes() const noexcept { return segment_bytes_; }

  private:
    // A segment that is being followed.
    struct Open {
        std::uint64_t order = 0;
        log::Segment* segment = nullptr;
        std::uint64_t read_to = 0;
        std::uint64_t generation = 0;
    };
    Result<log::Segment*> view(std::uint64_t order);
    [[nodiscard]] bool may_release(const Open& open) const noexcept;
    Status read_segment(Open& open, std::uint64_t tail, std::vector<Record>& records);

    const Board& board_;
    const std::uint64_t participant_;
    const std::unique_ptr<io::File> pool_;
    const std::uint64_t segment_bytes_;
    std::vector<std::unique_ptr<io::Mapping>> maps_;     // of many segments each; they outlive the views
    std::vector<std::unique_ptr<log::Segment>> views_;   // by place in the pool
    std::deque<Open> open_;                              // oldest first: being followed and not released
    std::uint64_t next_order_ = 0;                       // the first segment that has not been looked at
};

}   // namespace forebay::group
