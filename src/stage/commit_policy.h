// How the commits of a file are made safe, and when the log may give segments back. A file has one policy at a time:
// `Lifecycle` chooses it at the open, and `GroupMembership` when the file is shared.
//   ProcessCommits     a commit survives the processes: a record in the log suffices
//   PowerLossCommits   durability=node, one process writes: a commit and a release wait for the devices
//   GroupCommits       durability=node, several processes write: the drainer also states on the board which commit and
//                      which segments count
// After a commit's return, the file can go back to it, or to a newer one, for as long as the policy promises. No
// segment leaves the log before the target has all that recovery would need of it. With durability=node, drained
// bytes count as in the target only after a successful sync of the target, whatever a sync of the log says. The file's
// state owns the policy, which refers to the state and to the log; both outlive it. Comments name the locks that the
// caller holds: the writer's, the file's (`FileState::mutex`), or none. All calls but `recycle` and the questions may
// block.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/mutex.h"
#include "base/status.h"
#include "group/group.h"
#include "stage/file_state.h"
#include "stage/staging_log.h"

namespace forebay::stage {

class CommitPolicy {
  public:
    CommitPolicy(FileState& file, StagingLog& log) noexcept : file_(file), log_(log) {}
    virtual ~CommitPolicy() = default;
    CommitPolicy(const CommitPolicy&) = delete;
    CommitPolicy& operator=(const CommitPolicy&) = delete;

    // Commits the file. Reports the kept error, of this call or of the background. After a failure, a `closing` commit
    // is still made: bytes that can drain do, and recovery can use the state in the log. The writer's lock.
    Status commit(bool closing);
    // The log, or else the target, tells of the last commit. The writer's lock.
    [[nodiscard]] bool recorded() const noexcept {
        file_.writer.assert_held();
        return recorded_;
    }

    // Gives back idle segments, but waits for no device. With `newest_too`, the newest segment may go as well. Returns
    // true if any segment went. The file's lock. Call `StagingLog::recycle`, which knows when nothing may go.
    virtual bool recycle(bool newest_too) = 0;
    enum class Recycled : std::uint8_t {
        kNothing,   // no segment can go, or a device gives no answer
        kSome,      // segments were released, or the policy keeps an error that later calls report: look for room again
        kNoMemory,   // nothing has changed, and no error is kept: the caller fails, or waits for an event
    };
    // Recycles, for a policy whose releases wait for devices. Invariant: a caller that repeats the call while it
    // returns kSome gets another result in the end. The file's lock; drops it.
    virtual Recycled recycle_durably(bool newest_too);
    // `recycle_durably` or `release_all` is at work in some thread. The file's lock.
    [[nodiscard]] bool recycling() const noexcept {
        file_.mutex().assert_held();
        return recycling_;
    }
    // The target has everything, and the log goes: no loss of power may bring it back. The file's lock; drops it.
    virtual Status release_all() { return Status::ok(); }
    // The segments went back to the pool for good. No lock.
    virtual Status log_given_back() { return Status::ok(); }
    // Syncs a durable log that has just begun: its open record shows recovery how the file was before anything drained.
    // The next commit reports a failure. The writer's lock.
    void sync_opening();

    // For a shared file: brings this process's log to its device as it is now. The drainer commits after that. No lock.
    virtual Status sync_own_log() { return Status::ok(); }
    // For a shared file: the drainer calls this once all have joined, and before the first write. No lock.
    virtual Status begin_statements() { return Status::ok(); }

  protected:
    // Returns what a release has done that ended with `outcome`. `released`: segments went.
    [[nodiscard]] static Recycled recycled(const Status& outcome, bool released) noexcept;
    // Makes a commit's record, and returns its number. A closing commit keeps its failure in `failure`, if that is ok.
    virtual Result<std::uint64_t> append(bool closing, Status& failure) REQUIRES(file_.writer) = 0;

    // Gives back this many of the oldest segments of a shared file's log. Returns true if there are any.
    bool release_oldest(std::size_t count) REQUIRES(file_.mutex());
    Status sync_log() REQUIRES(file_.mutex());
    Status keep_sync_error(const Status& failed) noexcept REQUIRES(file_.mutex());
    // How many of the oldest segments are idle; the newest is never one.
    [[nodiscard]] std::size_t idle_segments() const noexcept REQUIRES(file_.mutex());
    // Tells the threads that want room that `recycle_durably` can give some. Returns false.
    bool announce_idle() noexcept REQUIRES(file_.mutex());

    FileState& file_;
    StagingLog& log_;
    bool recorded_ GUARDED_BY(file_.writer) = true;
    bool recycling_ GUARDED_BY(file_.mutex()) = false;
    // The first failure of a sync of the log. After that the log keeps no promise. It says nothing of the target.
    Status sync_error_ GUARDED_BY(file_.mutex());
};

class ProcessCommits final : public CommitPolicy {
  public:
    using CommitPolicy::CommitPolicy;
    bool recycle(bool newest_too) override;

  private:
    Result<std::uint64_t> append(bool closing, Status& failure) override REQUIRES(file_.writer);
};

// docs/log-format.md, "A durable log", tells what recovery does with such a log.
class PowerLossCommits final : public CommitPolicy {
  public:
    using CommitPolicy::CommitPolicy;
    bool recycle(bool newest_too) override;
    Recycled recycle_durably(bool newest_too) override;
    Status release_all() override;

  private:
    Result<std::uint64_t> append(bool closing, Status& failure) override REQUIRES(file_.writer);
    Status append_record(bool closing, std::uint64_t& sequence, bool& recorded) REQUIRES(file_.writer);
    // Syncs the target and the log, so that the `count` oldest segments may go. `sent`: the target's sync may make more
    // of them idle. `target_synced`: the target has all that drained, also if the log's sync then fails.
    Status prepare_release(bool sent, std::size_t& count, bool& target_synced) REQUIRES(file_.mutex());
    Status empty_log() REQUIRES(file_.mutex());
};

// The drainer makes a statement once all that it says is on the devices. A step that relies on it waits until it is on
// its device. Each statement is complete; the last one counts. docs/log-format.md, "Durable logs of several processes".
class GroupCommits final : public CommitPolicy {
  public:
    using CommitPolicy::CommitPolicy;
    bool recycle(bool newest_too) override;
    Recycled recycle_durably(bool newest_too) override;
    Status release_all() override;
    Status log_given_back() override;
    Status sync_own_log() override;
    Status begin_statements() override;

  private:
    Result<std::uint64_t> append(bool closing, Status& failure) override REQUIRES(file_.writer);
    Status append_record(bool closing, std::uint64_t& sequence) REQUIRES(file_.writer);
    [[nodiscard]] group::Statement survey() const REQUIRES(file_.mutex());
    // As `survey`, with the end of the own log. EIO: its mapping faults, which counts as a failed sync.
    Status survey_to_end(group::Statement& statement) REQUIRES(file_.mutex());
    Status state(group::Statement& statement) REQUIRES(stating_) EXCLUDES(file_.mutex());
    Status state_release(group::Statement& plan, bool& target_synced) EXCLUDES(stating_, file_.mutex());

    Mutex stating_;   // a statement is being made; after the writer's lock, before the file's
    // The last one; changed under `stating_` and the file's lock. Without a log in it, none was made.
    group::Statement stated_;
};

}   // namespace forebay::stage
