// durability=node for a file that several processes of the node share: what the drainer states on the board, and when.
// docs/log-format.md, "Durable logs of several processes", tells what recovery makes of it.
//
// One rule: a statement is made after everything is on the devices that it says, and what relies on it comes after the
// statement is there. It is whole in itself: nothing but the last one counts.
#include <utility>

#include "base/clock.h"
#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

bool StagedFile::durable() const {
    const std::lock_guard lock(mutex_);
    return durable_;
}

// What is here now; the commit is that of the last statement. mutex_ is held, and all that counts was followed.
log::Statement StagedFile::survey_locked() const {
    log::Statement statement = share_->survey();
    log::Statement::Log& own = statement.logs.at(share_->lane());
    own = {log_->oldest_order(), log_->end_position()};
    statement.commit_sequence = stated_.commit_sequence;
    statement.committed_size = stated_.committed_size;
    statement.commit_time_ns = stated_.commit_time_ns;
    return statement;
}

// stating_ is held.
Status StagedFile::state_group(log::Statement& statement) {
    {
        const std::lock_guard lock(mutex_);
        statement.certain = sync_error_.is_ok() && target_lost_.is_ok();
    }
    const Status stated = share_->state(statement);
    add(slot_->syncs, 1);
    const std::lock_guard lock(mutex_);
    if (stated) {
        stated_ = statement;
        return stated;
    }
    const Status failure = stated.with_context("what was staged of " + path_ + " outlives the processes, but no loss of power");
    if (sync_error_.is_ok()) sync_error_ = failure;
    return failure;
}

Status StagedFile::sync_own_log() {
    std::uint64_t end;
    std::shared_ptr<Share> share;
    {
        const std::lock_guard lock(mutex_);
        if (!durable_ || !share_ || state_ != State::kStaged) return Status::ok();
        if (!sync_error_.is_ok()) return sync_error_;   // a second sync would know nothing of what the first one lost
        end = log_->end_position();
        share = share_;
    }
    FOREBAY_TRY(sync_log());
    share->synced(end);
    return Status::ok();
}

Status StagedFile::begin_statements() {
    const std::lock_guard writer(writer_);
    const std::lock_guard stating(stating_);
    log::Statement statement;
    {
        const std::lock_guard lock(mutex_);
        if (!durable_ || follows()) return Status::ok();
        follow_locked();
        stated_ = {};
        stated_.committed_size = committed_size_;
        statement = survey_locked();
    }
    return state_group(statement);
}

// All have made their writes, and synced their logs. After a failure a closing commit is made all the same, for the
// death of the processes.
Status StagedFile::append_group_commit_writer(bool closing) {
    FOREBAY_TRY(make_marker_room_writer());
    const std::lock_guard stating(stating_);
    Status outcome = target_unsynced_ ? sync_target(target_) : Status::ok();
    if (!outcome && !closing) return outcome;
    durable_commit_ = next_sequence();
    log_->append_marker(log::RecordKind::kCommit, logical_size_, durable_commit_);
    share_->published();
    if (const Status synced = sync_log(); outcome) outcome = synced;
    if (!outcome && !closing) return outcome;
    log::Statement statement;
    {
        const std::lock_guard lock(mutex_);
        statement = survey_locked();
    }
    statement.commit_sequence = durable_commit_;
    statement.committed_size = logical_size_;
    statement.commit_time_ns = realtime_ns();
    const Status stated = state_group(statement);
    return outcome ? stated : outcome;
}

// Gives back what is not needed of all logs, so that no loss of power brings part of it back. True if there was anything.
// Blocks on the devices, without the lock; only one at a time.
bool StagedFile::recycle_group_durably(std::unique_lock<std::mutex>& lock, bool newest_too) {
    if (!durable_ || !share_ || follows() || state_ != State::kStaged || recycling_ || halted_) return false;
    follow_locked();
    if (index_.zero_bytes() > 0 || shrink_to_) return false;
    const std::size_t keep = newest_too ? 0 : 1;
    const bool waits = log_->segments() > keep && log_->oldest()->idle();
    log::Statement plan = survey_locked();
    const log::Statement before = plan;
    if (!share_->plan_release({log_->needed(), index_.drained_metadata(), waits, resize_sequence_}, plan)) return false;
    const std::size_t own = log_->segments_that_may_go(plan.frontier, index_.drained_metadata(), keep);
    plan.logs[share_->lane()].needed_from += own;
    bool any = false;
    for (std::size_t i = 0; i < plan.logs.size(); ++i) any = any || plan.logs[i].needed_from > before.logs[i].needed_from;
    if (!any) return false;
    recycling_ = true;
    const std::uint64_t cut = resize_sequence_;
    const std::shared_ptr<io::File> target = target_;
    const std::shared_ptr<Share> share = share_;
    lock.unlock();
    Status outcome;
    {
        const std::lock_guard stating(stating_);
        outcome = sync_target(target);
        if (outcome) {
            // Behind the last commit nothing counts: what the logs hold there need not be certain.
            for (std::size_t i = 0; i < plan.logs.size(); ++i) plan.logs[i].end = stated_.logs[i].end;
            plan.commit_sequence = stated_.commit_sequence;
            plan.committed_size = stated_.committed_size;
            plan.commit_time_ns = stated_.commit_time_ns;
            outcome = state_group(plan);
        }
    }
    lock.lock();
    recycling_ = false;
    // Without the device's word there is no promise left to keep, and the room is needed: see sync_error_.
    if (outcome || (!sync_error_.is_ok() && target_lost_.is_ok())) {
        share->release(plan);
        for (std::size_t i = 0; i < own; ++i) log_->release_oldest();
        share->set_released(log_->oldest_order());
        if (resize_sequence_ == cut) resize_sequence_ = 0;
    }
    ++completions_;
    completed_.notify_all();
    surroundings_.pool()->announce_change();
    return outcome.sys_errno() != ETIMEDOUT;
}

// The target has everything. Afterwards no log counts, also for whoever looks after a loss of power.
Status StagedFile::retire_group(std::unique_lock<std::mutex>& lock) {
    const std::shared_ptr<io::File> target = target_;
    const std::shared_ptr<Share> share = share_;
    recycling_ = true;
    lock.unlock();
    Status outcome = sync_target(target);
    if (outcome) {
        const std::lock_guard stating(stating_);
        outcome = share->retire();
        add(slot_->syncs, 1);
        if (!outcome) outcome = outcome.with_context("the log of " + path_ + " may come back after a loss of power");
    }
    lock.lock();
    recycling_ = false;
    completed_.notify_all();
    return outcome;
}

// The segments of a group's log were given back for good: so it must be on the device before the board goes.
Status StagedFile::sync_given_back() {
    add(slot_->syncs, 1);
    return surroundings_.pool()->sync().with_context("give back the log of " + path_);
}

}   // namespace forebay::stage
