// durability=node: what a commit promises is on the device before it returns, and nothing leaves the log before the
// target has it for good. docs/log-format.md, "A durable log", tells what recovery makes of it.
#include <cerrno>
#include <new>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "stage/counting.h"
#include "stage/patience.h"
#include "stage/staged_file.h"

namespace forebay::stage {

class StagedFile::SyncWork final : public drain::Work {
  public:
    SyncWork(std::shared_ptr<StagedFile> file, std::shared_ptr<io::File> target, std::shared_ptr<Syncing> syncing)
        : file_(std::move(file)), target_(std::move(target)), syncing_(std::move(syncing)) {}
    void run() noexcept override { file_->complete_sync(*syncing_, target_->sync()); }

  private:
    const std::shared_ptr<StagedFile> file_;
    const std::shared_ptr<io::File> target_;
    const std::shared_ptr<Syncing> syncing_;
};

void StagedFile::complete_sync(Syncing& syncing, const Status& outcome) noexcept {
    if (outcome) surroundings_.progressed();
    const std::lock_guard lock(mutex_);
    add(slot_->syncs, 1);
    if (outcome) {
        progress_ns_ = monotonic_ns();
    } else if (target_lost_.is_ok()) {
        try {
            target_lost_ = outcome.with_context("what was written to " + path_ + " may not have reached its device");
        } catch (const std::bad_alloc&) {
            target_lost_ = copy_of(outcome, kFailed);
        }
        keep_error_locked(target_lost_);
    }
    syncing.outcome = copy_of(target_lost_, kFailed);
    syncing.done = true;
    completed_.notify_all();
}

// By a drain thread. One that was given up may be under way still; it began before what this one has to make certain.
Status StagedFile::sync_within_patience(const std::shared_ptr<io::File>& target) {
    std::unique_lock lock(mutex_);
    FOREBAY_TRY(await_locked(lock, [this] { return !syncing_ || syncing_->done; }));
    const auto mine = std::make_shared<Syncing>();
    auto work = std::make_unique<SyncWork>(shared_from_this(), target, mine);
    syncing_ = mine;
    lock.unlock();
    surroundings_.scheduler().carry_out(std::move(work));
    lock.lock();
    const Status waited = await_locked(lock, [&mine] { return mine->done; });
    mine->given_up = !waited;
    return waited ? mine->outcome : waited;
}

bool StagedFile::sync_hangs_locked() const noexcept { return syncing_ && syncing_->given_up && !syncing_->done; }

// An error with ETIMEDOUT: given up, and nothing is known. Any other one is for good.
Status StagedFile::sync_target(const std::shared_ptr<io::File>& target) {
    {
        const std::lock_guard lock(mutex_);
        if (!target_lost_.is_ok()) return target_lost_;   // a second sync would know nothing of what the first one lost
    }
    target_unsynced_ = false;
    Status synced;
    try {
        if (may_hang_) {
            synced = sync_within_patience(target);
            if (!synced) target_unsynced_ = true;
            return synced;
        }
    } catch (const std::bad_alloc&) {
        // As without a thread: this one does it.
    }
    Syncing syncing;
    complete_sync(syncing, target->sync());
    return syncing.outcome;
}

Status StagedFile::sync_log() {
    const Status synced = log_->sync();
    add(slot_->syncs, 1);
    return synced ? synced : keep_sync_error(synced);
}

Status StagedFile::keep_sync_error(const Status& failed) {
    const Status failure = failed.with_context("what was staged of " + path_ + " outlives the process, but no loss of power");
    const std::lock_guard lock(mutex_);
    if (sync_error_.is_ok()) sync_error_ = failure;
    return failure;
}

// A log begins with its open record, from which recovery knows how the file was: before anything drains. A failure is
// told by the next commit.
void StagedFile::sync_opening_writer() {
    if (durable_ && log_->segments() == 1) (void)sync_log();
}

// Everything that the commit promises is on the device before its record is made, and then the record. If the log is
// empty after that there is no record: the caller makes the target tell. `recorded`: recovery would find the record, even if it is not
// known to be on the device.
Status StagedFile::append_durable_commit_writer(bool closing, bool& recorded) {
    if (!log_->empty() && !log_->marker_fits()) {
        const auto room = make_room_writer(log::kRecordHeaderBytes, log::SegmentPool::Take::kAny);
        if (!room) return room.status();
        if (room.value() == 0) FOREBAY_TRY(leave_log_writer());
    }
    // Its number is above that of the segment's open record: an older commit in this place is one from another use.
    durable_commit_ = next_sequence();
    if (log_->empty()) return Status::ok();
    // Bytes that went beside the log since the last commit: nothing in the log tells of them.
    // If a device fails, a closing commit is made all the same, for the death of the process.
    Status before = target_unsynced_ ? sync_target(target_) : Status::ok();
    if (before || closing)
        if (const Status synced = sync_log(); before) before = synced;
    if (!before && !closing) return before;
    const bool appended = log_->append_marker(log::RecordKind::kCommit, logical_size_, durable_commit_);
    recorded = appended;
    const Status synced = appended ? sync_log() : keep_sync_error(log_->fault());
    return before ? synced : before;
}

// How many of the oldest segments nobody needs; not the newest.
std::size_t StagedFile::segments_to_give_back_locked() const noexcept {
    if (!log_ || index_.zero_bytes() > 0 || shrink_to_) return 0;
    return log_->idle_segments();
}

// Gives back what is not needed, so that no loss of power brings part of it back. True if there was anything.
// Blocks on the device, without the lock; only one at a time.
bool StagedFile::recycle_durably(std::unique_lock<std::mutex>& lock) {
    if (share_) return recycle_group_durably(lock, false);
    if (!durable_ || state_ != State::kStaged || recycling_ || halted_) return false;
    const std::size_t count = segments_to_give_back_locked();
    if (count == 0) return false;
    recycling_ = true;
    const std::shared_ptr<io::File> target = target_;
    lock.unlock();
    Status outcome = sync_target(target);
    // What made them idle, a newer record or a copy, first; then that they are gone; then they may go.
    if (outcome) outcome = sync_log();
    if (outcome) {
        lock.lock();
        const bool declared = log_->declare_needed_from(log_->oldest_order() + count);
        lock.unlock();
        outcome = declared ? sync_log() : keep_sync_error(log_->fault());
    }
    lock.lock();
    recycling_ = false;
    // Without the device's word there is no promise left to keep, and the room is needed: see sync_error_.
    if (outcome || !sync_error_.is_ok())
        for (std::size_t i = 0; i < count; ++i) log_->release_oldest();
    ++completions_;
    completed_.notify_all();
    surroundings_.pool()->announce_change();
    return outcome.sys_errno() != ETIMEDOUT;
}

// The target has everything. Afterwards the log is empty, also for whoever looks after a loss of power.
Status StagedFile::release_all_durably(std::unique_lock<std::mutex>& lock) {
    const std::shared_ptr<io::File> target = target_;
    recycling_ = true;
    lock.unlock();
    Status outcome = target_unsynced_ || !log_->empty() ? sync_target(target) : Status::ok();
    const bool several = log_->segments() > 1;
    if (outcome && several) {
        const bool declared = log_->declare_needed_from(log_->oldest_order() + log_->segments() - 1);
        outcome = declared ? sync_log() : keep_sync_error(log_->fault());
    }
    lock.lock();
    if (outcome || !sync_error_.is_ok())
        while (log_->segments() > 1) log_->release_oldest();
    lock.unlock();
    if (outcome && several) outcome = sync_log();
    lock.lock();
    if ((outcome || !sync_error_.is_ok()) && !log_->empty()) {
        log_->release_oldest();
        lock.unlock();
        if (outcome) outcome = sync_log();
        lock.lock();
    }
    recycling_ = false;
    completed_.notify_all();
    return outcome;
}

}   // namespace forebay::stage
