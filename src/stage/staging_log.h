// The log of one staged file: its segments, the room in them, and what happens when its mapping faults.
//
// The log takes segments from the pool of the process, waits for segments, moves a few held bytes out of old segments,
// and gives back segments that hold nothing more. It owns the segment that a file to be shared takes before it has a
// log (`take_first_segment`); `FileState::log` owns all others.
//
// Invariants under the file's lock:
//   - a segment that a target write or a reader uses is pinned, and is not released;
//   - segments are released oldest first, and never the newest while the file is staged.
//
// When the mapping of the log faults (log_fault.cc), the staged bytes drain and the file's mode becomes `kBypass`. If
// some of them cannot be read back, the file stays staged, and its log takes no more: writes bypass it.
//
// Locks: each comment names the locks that the caller holds: the writer's, the file's, or none.
// Blocking: all calls but the questions, `adopt` and `recycle` may wait for the target, for room, or for a device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

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

    // ---- opening and leaving ----------------------------------------------------------------------

    // Begins an empty log for the target that was made at `born`. Both locks.
    void open(const log::Birth& born);
    // The mapping of the log has faulted: it takes no more records.
    [[nodiscard]] bool failed() const noexcept { return failed_; }
    void note_failure() noexcept { failed_ = true; }
    void forget_failure() noexcept { failed_ = false; }
    // Why the log did not take a record.
    [[nodiscard]] Status failure() const;
    // A record could not be stored. Drains the staged bytes, and the target alone counts from then on. If that fails,
    // the file stays staged, but takes nothing more. Returns ok as long as the program loses nothing; flush and close
    // report what it loses. The writer's lock.
    Status give_up();
    // Drains everything and gives the log back, so that the target alone tells the file's state. The writer's lock.
    Status drain_and_release();
    // Nothing is staged, and from now on the target's size is the file's. Others may be making it longer already. Both
    // locks; drops the file's.
    Status stop_staging();
    // Until no segment is pinned, and no thread gives segments back durably. The file's lock; drops it.
    Status await_unpinned();

    // ---- room -----------------------------------------------------------------------------------

    // Returns how many payload bytes may be appended now. Returns 0 if none may, and waiting would not help or is not
    // wanted (option full, or `take` wants a warm segment): the caller then bypasses the log. The writer's lock.
    Result<std::uint64_t> make_room(std::uint64_t wanted_bytes, log::SegmentPool::Take take);
    // For a shared file: makes room for a record that tells the others of a change beside the log. If need be,
    // everything drains for it. The writer's lock.
    Status make_marker_room();
    // Appends a record that recovery needs. Nothing is recorded while nothing is staged, as the target has it all; but
    // a cut is, which the target does not have yet. The writer's lock.
    Status append_marker(log::RecordKind kind, std::uint64_t argument, std::uint64_t sequence);
    // Appends the segment to the log. Returns false if the log has failed. The writer's lock.
    bool adopt(log::Segment* segment);

    // The first segment of a file that is to be shared, so that there is always room to wait for. kNoSpace: there is
    // none. The writer's lock, for all three.
    Status take_first_segment();
    void give_back_first_segment();
    bool adopt_first_segment();

    // ---- draining ----------------------------------------------------------------------

    // Gives back the segments that nothing needs. The record of a truncation is needed until its zeros, or the cut,
    // have reached the target. Returns true if any went. The file's lock.
    bool recycle(bool newest_too = false);
    // Drains until nothing with a lower number than `below` is staged, then recycles. The file's lock; drops it.
    Status drain(std::uint64_t below = kOffsetMax);
    // Staged bytes stay in the log until `resume_drain`, until a write needs room, or until a call waits for the
    // target. The close ends the pause. Both do nothing in a process that does not drain, and with several nodes. No
    // lock.
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
    void compact() REQUIRES(file_.writer);

    const StagedFile& owner_;
    FileState& file_;
    log::Segment* first_segment_ GUARDED_BY(file_.writer) = nullptr;   // null: none, or the log has it
    std::atomic<bool> failed_{false};
};

}   // namespace forebay::stage
