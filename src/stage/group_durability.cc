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
    const LockGuard lock(mutex());
    return durable_;
}

// What is here now; the commit is that of the last statement. mutex_ is held, and all that counts was followed.
group::Statement StagedFile::survey() const {
    group::Statement statement = group_->release().survey();
    group::Statement::Log& own = statement.logs.at(group_->log().index());
    own = {log_->oldest_order(), log_->end_position()};
    statement.commit_sequence = stated_.commit_sequence;
    statement.committed_size = stated_.committed_size;
    statement.commit_time_ns = stated_.commit_time_ns;
    return statement;
}

// stating_ is held.
Status StagedFile::state_group(group::Statement& statement) {
    {
        const LockGuard lock(mutex());
        statement.certain = sync_error_.is_ok() && outflow_.failures().target_lost().is_ok();
    }
    const Status stated = group_->release().state(statement);
    add(slot_->syncs, 1);
    const LockGuard lock(mutex());
    if (stated) {
        stated_ = statement;
        return stated;
    }
    const Status failure = stated.with_context("the staged bytes of " + path_ +
                                               " survive the processes, but not a loss of power");
    if (sync_error_.is_ok()) sync_error_ = failure;
    return failure;
}

Status StagedFile::sync_own_log() {
    const LockGuard lock(mutex());
    if (!durable_ || !group_ || state_ != State::kStaged) return Status::ok();
    if (!sync_error_.is_ok()) return sync_error_;   // a second sync would know nothing of what the first one lost
    const std::uint64_t end = log_->end_position();
    const std::shared_ptr<group::Group> group = group_;
    FOREBAY_TRY(sync_log());
    group->log().synced(end);
    return Status::ok();
}

Status StagedFile::begin_statements() {
    const LockGuard writer(writer_);
    const LockGuard stating(stating_);
    group::Statement statement;
    {
        const LockGuard lock(mutex());
        if (!durable_ || follows()) return Status::ok();
        follow();
        stated_ = {};
        stated_.committed_size = committed_size_;
        statement = survey();
    }
    return state_group(statement);
}

// All have made their writes, and synced their logs. After a failure a closing commit is made all the same, for the
// death of the processes.
Status StagedFile::append_group_commit(bool closing) {
    FOREBAY_TRY(make_marker_room());
    const LockGuard stating(stating_);
    group::Statement statement;
    Status outcome;
    {
        const LockGuard lock(mutex());
        outcome = outflow_.facts().unsynced() ? outflow_.sync() : Status::ok();
        if (!outcome && !closing) return outcome;
        durable_commit_ = next_sequence();
        log_->append_marker(log::RecordKind::kCommit, logical_size_, durable_commit_);
        group_->order().published();
        if (const Status synced = sync_log(); outcome) outcome = synced;
        if (!outcome && !closing) return outcome;
        statement = survey();
    }
    statement.commit_sequence = durable_commit_;
    statement.committed_size = logical_size_;
    statement.commit_time_ns = realtime_ns();
    const Status stated = state_group(statement);
    return outcome ? stated : outcome;
}

// Gives back what is not needed of all logs, so that no loss of power brings part of it back. True if there was
// anything. Blocks on the devices, without the lock; only one at a time.
bool StagedFile::recycle_group_durably(bool newest_too) {
    if (!durable_ || !group_ || follows() || state_ != State::kStaged || recycling_ || outflow_.failures().halted())
        return false;
    follow();
    if (bytes_.index().zero_bytes() > 0 || outflow_.target().cut_due()) return false;
    const std::size_t keep = newest_too ? 0 : 1;
    const bool waits = log_->segments() > keep && log_->oldest()->idle();
    group::Statement plan = survey();
    const group::Statement before = plan;
    if (!group_->release().plan_release({log_->needed(), bytes_.index().drained_metadata(), waits, resize_sequence_},
                                        plan))
        return false;
    const std::size_t own = log_->segments_that_may_go(plan.frontier, bytes_.index().drained_metadata(), keep);
    plan.logs[group_->log().index()].needed_from += own;
    bool any = false;
    for (std::size_t i = 0; i < plan.logs.size(); ++i)
        any = any || plan.logs[i].needed_from > before.logs[i].needed_from;
    if (!any) return false;
    recycling_ = true;
    const std::uint64_t cut = resize_sequence_;
    const std::shared_ptr<group::Group> group = group_;
    Status outcome;
    {
        const Unlocked meanwhile(mutex());
        outcome = state_release(plan);
    }
    recycling_ = false;
    // Without the device's word there is no promise left to keep, and the room is needed: see sync_error_.
    if (outcome || (!sync_error_.is_ok() && outflow_.failures().target_lost().is_ok())) {
        group->release().release(plan);
        for (std::size_t i = 0; i < own; ++i) log_->release_oldest();
        group->log().set_released(log_->oldest_order());
        if (resize_sequence_ == cut) resize_sequence_ = 0;
    }
    outflow_.arrivals().announce();
    context_.pool()->announce_change();
    return outcome.sys_errno() != ETIMEDOUT;
}

Status StagedFile::state_release(group::Statement& plan) {
    const LockGuard stating(stating_);
    FOREBAY_TRY(sync_target());
    // Behind the last commit nothing counts: what the logs hold there need not be certain.
    for (std::size_t i = 0; i < plan.logs.size(); ++i) plan.logs[i].end = stated_.logs[i].end;
    plan.commit_sequence = stated_.commit_sequence;
    plan.committed_size = stated_.committed_size;
    plan.commit_time_ns = stated_.commit_time_ns;
    return state_group(plan);
}

// The target has everything. Afterwards no log counts, also for whoever looks after a loss of power.
Status StagedFile::retire_group() {
    const std::shared_ptr<group::Group> group = group_;
    recycling_ = true;
    Status outcome;
    {
        const Unlocked meanwhile(mutex());
        outcome = sync_target();
        if (outcome) {
            const LockGuard stating(stating_);
            outcome = group->release().retire();
            add(slot_->syncs, 1);
            if (!outcome)
                outcome = outcome.with_context("the log of " + path_ + " may come back after a loss of power");
        }
    }
    recycling_ = false;
    outflow_.arrivals().announce_unpinned();
    return outcome;
}

// The segments of a group's log were given back for good: so it must be on the device before the board goes.
Status StagedFile::sync_given_back() {
    add(slot_->syncs, 1);
    return context_.pool()->sync().with_context("give back the log of " + path_);
}

}   // namespace forebay::stage
