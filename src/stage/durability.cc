// durability=node: what a commit promises is on the device before it returns, and nothing leaves the log before the
// target has it for good. docs/log-format.md, "A durable log", tells what recovery makes of it.
#include <utility>

#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

Status StagedFile::sync_target(const std::shared_ptr<io::File>& target) {
    {
        const std::lock_guard lock(mutex_);
        if (!target_lost_.is_ok()) return target_lost_;   // a second sync would know nothing of what the first one lost
    }
    target_unsynced_ = false;
    const Status synced = target->sync();
    add(slot_->syncs, 1);
    if (synced) return synced;
    const std::lock_guard lock(mutex_);
    target_lost_ = synced.with_context("what was written to " + path_ + " may not have reached its device");
    keep_error_locked(target_lost_);
    return target_lost_;
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
    return true;
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
