// durability=node: what a commit promises is on the device before it returns, and nothing leaves the log before the
// target has it for good. docs/log-format.md, "A durable log", tells what recovery makes of it.
#include <cerrno>

#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

Status StagedFile::sync_target() {
    const LockGuard lock(mutex());
    return outflow_.sync();
}

Status StagedFile::sync_log() {
    Status synced;
    {
        const Unlocked meanwhile(mutex());
        synced = log_->sync();
    }
    add(slot_->syncs, 1);
    return synced ? synced : keep_sync_error(synced);
}

Status StagedFile::keep_sync_error(const Status& failed) {
    const Status failure = failed.with_context("the staged bytes of " + path_ +
                                               " survive the process, but not a loss of power");
    if (sync_error_.is_ok()) sync_error_ = failure;
    return failure;
}

// A log begins with its open record, from which recovery knows how the file was: before anything drains. A failure is
// told by the next commit.
void StagedFile::sync_opening() {
    if (!durable_) return;
    const LockGuard lock(mutex());   // segments may be given back meanwhile
    if (log_->segments() == 1) (void)sync_log();
}

// Everything that the commit promises is on the device before its record is made, and then the record. If the log is
// empty after that there is no record: the caller makes the target tell. `recorded`: recovery would find the record,
// even if it is not known to be on the device.
Status StagedFile::append_durable_commit(bool closing, bool& recorded) {
    if (!log_->empty() && !log_->marker_fits()) {
        const auto room = make_room(log::kRecordHeaderBytes, log::SegmentPool::Take::kAny);
        if (!room) return room.status();
        if (room.value() == 0) FOREBAY_TRY(leave_log());
    }
    // Its number is above that of the segment's open record: an older commit in this place is one from another use.
    durable_commit_ = next_sequence();
    if (log_->empty()) return Status::ok();
    // Bytes that went beside the log since the last commit: nothing in the log tells of them.
    // If a device fails, a closing commit is made all the same, for the death of the process.
    const LockGuard lock(mutex());
    Status before = outflow_.facts().unsynced() ? outflow_.sync() : Status::ok();
    if (before || closing)
        if (const Status synced = sync_log(); before) before = synced;
    if (!before && !closing) return before;
    const bool appended = log_->append_marker(log::RecordKind::kCommit, logical_size_, durable_commit_);
    recorded = appended;
    const Status synced = appended ? sync_log() : keep_sync_error(log_->fault());
    return before ? synced : before;
}

// How many of the oldest segments nobody needs; not the newest.
std::size_t StagedFile::segments_to_give_back() const noexcept {
    if (!log_ || bytes_.index().zero_bytes() > 0 || outflow_.target().cut_due()) return 0;
    return log_->idle_segments();
}

// Gives back what is not needed, so that no loss of power brings part of it back. True if there was anything.
// Blocks on the device, without the lock; only one at a time.
bool StagedFile::recycle_durably() {
    if (group_) return recycle_group_durably(false);
    if (!durable_ || state_ != State::kStaged || recycling_ || outflow_.failures().halted()) return false;
    const std::size_t count = segments_to_give_back();
    if (count == 0) return false;
    recycling_ = true;
    Status outcome = outflow_.sync();
    // What made them idle, a newer record or a copy, first; then that they are gone; then they may go.
    if (outcome) outcome = sync_log();
    if (outcome) {
        const bool declared = log_->declare_needed_from(log_->oldest_order() + count);
        outcome = declared ? sync_log() : keep_sync_error(log_->fault());
    }
    recycling_ = false;
    // Without the device's word there is no promise left to keep, and the room is needed: see sync_error_.
    if (outcome || !sync_error_.is_ok())
        for (std::size_t i = 0; i < count; ++i) log_->release_oldest();
    outflow_.arrivals().announce();
    context_.pool()->announce_change();
    return outcome.sys_errno() != ETIMEDOUT;
}

// The target has everything. Afterwards the log is empty, also for whoever looks after a loss of power.
Status StagedFile::release_all_durably() {
    recycling_ = true;
    Status outcome = outflow_.facts().unsynced() || !log_->empty() ? outflow_.sync() : Status::ok();
    const bool several = log_->segments() > 1;
    if (outcome && several) {
        const bool declared = log_->declare_needed_from(log_->oldest_order() + log_->segments() - 1);
        outcome = declared ? sync_log() : keep_sync_error(log_->fault());
    }
    const auto may_release = [&]() NO_THREAD_SAFETY_ANALYSIS { return outcome || !sync_error_.is_ok(); };
    if (may_release())
        while (log_->segments() > 1) log_->release_oldest();
    if (outcome && several) outcome = sync_log();
    if (may_release() && !log_->empty()) {
        log_->release_oldest();
        if (outcome) outcome = sync_log();
    }
    recycling_ = false;
    outflow_.arrivals().announce_unpinned();
    return outcome;
}

}   // namespace forebay::stage
