// The log of one staged file: its segments, the room in them, and the effects of a fault of its mapping. It takes
// segments from the process's pool, waits for them, moves a few held bytes out of old ones, and gives back those that
// hold nothing more. It owns the segment that a file to be shared takes before it has a log (`take_first_segment`);
// `FileState::log` owns all others. Under the file's lock: a segment that a target write or a reader uses is pinned,
// and is not released. A failed allocation ends a pin too, as a close waits for it. Segments
// are released oldest first, and never the newest while the file is staged. When the mapping faults (log_fault.cc), the
// staged bytes drain and the file's mode becomes `kBypass`. If some of them cannot be read back, the file stays staged,
// and writes bypass its log. Comments name the locks that the caller holds: the writer's, the file's, or none. All
// calls but the questions, `adopt` and `recycle` may block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/mutex.h"
#include "base/status.h"
#include "log/file_log.h"
#include "log/segment_pool.h"
#include "stage/file_state.h"

namespace forebay::stage {

class StagingLog {
  public:
    // `owner` is the file, as other files ask it for room; it contains this.
    StagingLog(const StagedFile& owner, FileState& file) noexcept : owner_(owner), file_(file) {}

    // Begins an empty log for the target that was made at `born`. Both locks.
    void open(const log::Birth& born);
    // The mapping of the log has faulted: it takes no more records.
    [[nodiscard]] bool failed() const noexcept { return failed_; }
    void note_failure() noexcept { failed_ = true; }
    void forget_failure() noexcept { failed_ = false; }
    // Why the log did not take a record.
    [[nodiscard]] Status failure() const;
    // A record could not be stored. Drains the staged bytes, and the target alone counts from then on. If that fails,
    // or the device has lost bytes of the log, the file stays staged, but takes no more. Ok if the caller may go on;
    // flush and close report losses. Writer's lock.
    Status give_up();
    // Drains everything and gives the log back, so that the target alone tells the file's state. The writer's lock.
    Status drain_and_release();
    // Nothing is staged: the target's size is the file's, which others may make longer. Both locks; drops the file's.
    Status stop_staging();
    // Until no segment is pinned, and no thread gives segments back durably. The file's lock; drops it.
    Status await_unpinned();

    // Returns how many payload bytes may be appended now. Returns 0 if none may, and waiting would not help or is not
    // wanted (option full, or `take` wants a warm segment): the caller then bypasses the log. The writer's lock.
    Result<std::uint64_t> make_room(std::uint64_t wanted_bytes, log::SegmentPool::Take take);
    // For a shared file: makes room for a record of a change beside the log, if need be by a drain. The writer's lock.
    Status make_marker_room();
    // Appends a record for recovery; while nothing is staged, only a cut, which the target lacks. The writer's lock.
    Status append_marker(log::RecordKind kind, std::uint64_t argument, std::uint64_t sequence);
    // Appends the segment to the log. Returns false if the log has failed. The writer's lock.
    bool adopt(log::Segment* segment);

    // A first segment for a file to be shared, so there is always room to wait for. kNoSpace: none. The writer's lock.
    Status take_first_segment();
    void give_back_first_segment();
    bool adopt_first_segment();

    // Gives back the segments that nothing needs. The record of a truncation is needed until its zeros, or the cut,
    // have reached the target. Returns true if any went. The file's lock.
    bool recycle(bool newest_too = false);
    // Drains until nothing with a lower number than `below` is staged, then recycles. The file's lock; drops it.
    Status drain(std::uint64_t below = kOffsetMax);
    // Staged bytes stay in the log until `resume_drain`, a write that needs room, a call that waits for the target, or
    // the close. Both do nothing in a process that does not drain, and with several nodes. No lock.
    void pause_drain();
    void resume_drain();
    [[nodiscard]] bool drain_paused() const;
    // Makes all that may drain drain now, for the sake of other files. Returns true if anything is under way. No lock.
    bool drain_for_room();
    // Held bytes may drain before their commit, for the sake of other files. Returns how many. No lock.
    std::uint64_t make_held_ready();

  private:
    Result<std::uint64_t> await_room(log::SegmentPool::Take take) REQUIRES(file_.writer);
    void await_deadline(log::SegmentPool::Take take) REQUIRES(file_.writer);
    void release_all();   // the file's lock
    void compact() REQUIRES(file_.writer);
    // Copies `held`, which the pinned `source` holds, to the newest segment. Stops at the first failure.
    Status move_held(std::span<const index::StagedExtents::Extent> held, const log::Segment& source)
        REQUIRES(file_.writer) EXCLUDES(file_.mutex());

    const StagedFile& owner_;
    FileState& file_;
    log::Segment* first_segment_ GUARDED_BY(file_.writer) = nullptr;   // null: none, or the log has it
    std::atomic<bool> failed_{false};
};

}   // namespace forebay::stage
