// durability=node for a file that several processes of the node share: the statements of the drainer on the board.
#include <cerrno>

#include "base/attempt.h"
#include "base/clock.h"
#include "stage/commit_policy.h"
#include "stage/counting.h"

namespace forebay::stage {

// The state of all logs now but the end of the own one, with the commit of the last statement. All records that count
// were followed.
group::Statement GroupCommits::survey() const {
    group::Statement statement = file_.group->release().survey();
    statement.logs.at(file_.group->log().index()) = {file_.log->segments().oldest_order(), 0};
    statement.commit_sequence = stated_.commit_sequence;
    statement.committed_size = stated_.committed_size;
    statement.commit_time_ns = stated_.commit_time_ns;
    return statement;
}

Status GroupCommits::survey_to_end(group::Statement& statement) {
    const auto end = file_.log->segments().end_position();
    if (!end) return keep_sync_error(end.status());   // nothing can be promised of a log that cannot be read
    statement = survey();
    statement.logs.at(file_.group->log().index()).end = end.value();
    return Status::ok();
}

Status GroupCommits::state(group::Statement& statement) {
    {
        const LockGuard lock(file_.mutex());
        statement.certain = sync_error_.is_ok() && file_.outflow.state.failures.target_lost().is_ok();
    }
    group::Statement made = statement;   // before the devices are asked, as memory may be short
    const Status stated = drain::reported([&] { return file_.group->release().state(statement); });
    add(file_.counters->syncs, 1);
    const LockGuard lock(file_.mutex());
    if (!stated) return keep_sync_error(stated);
    std::swap(stated_, made);
    return stated;
}

Status GroupCommits::sync_own_log() {
    const LockGuard lock(file_.mutex());
    if (!file_.group || file_.mode != FileMode::kStaged) return Status::ok();
    if (!sync_error_.is_ok()) return sync_error_;   // a second sync would not report the bytes that the first one lost
    const auto end = file_.log->segments().end_position();
    if (!end) return keep_sync_error(end.status());
    const std::shared_ptr<group::Group> group = file_.group;
    FOREBAY_TRY(sync_log());
    group->log().synced(end.value());
    return Status::ok();
}

Status GroupCommits::begin_statements() {
    const LockGuard writer(file_.writer);
    const LockGuard stating(stating_);
    group::Statement statement;
    {
        const LockGuard lock(file_.mutex());
        if (file_.follows()) return Status::ok();
        file_.follow();
        stated_ = {};
        stated_.committed_size = file_.sizes.committed;
        FOREBAY_TRY(survey_to_end(statement));
    }
    return state(statement);
}

Result<std::uint64_t> GroupCommits::append(bool closing, Status& failure) {
    std::uint64_t sequence = file_.sizes.commit_sequence;
    const Status durable = append_record(closing, sequence);
    if (!durable && !closing) return durable;
    if (failure) failure = durable;
    group::DrawnNumber drawn(file_.order());
    if (file_.group && !closing) FOREBAY_TRY(file_.group->lost());
    recorded_ = true;
    return sequence;
}

// All processes have written and synced their logs. A closing commit after a failure protects from processes' death.
Status GroupCommits::append_record(bool closing, std::uint64_t& sequence) {
    FOREBAY_TRY(log_.make_marker_room());
    const LockGuard stating(stating_);
    group::Statement statement;
    Status outcome;
    {
        const LockGuard lock(file_.mutex());
        outcome = file_.outflow.state.facts.unsynced() ? file_.outflow.syncs.sync() : Status::ok();
        if (!outcome && !closing) return outcome;
        sequence = file_.next_sequence();
        const bool appended = file_.log->append_marker(log::RecordKind::kCommit, file_.sizes.logical, sequence);
        file_.group->order().published();
        const Status synced = appended ? sync_log() : keep_sync_error(file_.log->fault());
        if (outcome) outcome = synced;
        if (!outcome && !closing) return outcome;
        if (const Status surveyed = survey_to_end(statement); !surveyed) return outcome ? surveyed : outcome;
    }
    statement.commit_sequence = sequence;
    statement.committed_size = file_.sizes.logical;
    statement.commit_time_ns = realtime_ns();
    const Status stated = state(statement);
    return outcome ? stated : outcome;
}

bool GroupCommits::recycle(bool /*newest_too*/) {
    file_.mutex().assert_held();
    if (file_.group) file_.group->release().at_rest();
    return announce_idle();
}

// Gives back segments of all logs. Blocks on the devices, without the lock. One thread does this at a time.
CommitPolicy::Recycled GroupCommits::recycle_durably(bool newest_too) {
    file_.mutex().assert_held();
    if (!file_.group || file_.follows() || file_.mode != FileMode::kStaged || recycling_ ||
        file_.outflow.state.failures.halted())
        return Recycled::kNothing;
    file_.follow();
    if (file_.bytes.index().sent().any()) {
        recycling_ = true;
        const Status confirmed = file_.outflow.syncs.sync();
        recycling_ = false;
        file_.outflow.state.arrivals.announce();
        if (!confirmed) return recycled(confirmed, false);
    }
    if (file_.bytes.index().zero_bytes() > 0 || file_.outflow.state.target.cut_due()) return Recycled::kNothing;
    const std::size_t keep = newest_too ? 0 : 1;
    const bool waits = file_.log->segments().size() > keep && file_.log->segments().oldest()->idle();
    group::Statement plan = survey();
    const group::Statement before = plan;
    if (!file_.group->release().plan_release({file_.log->segments().needed(), file_.bytes.index().drained_metadata(),
                                              waits, file_.progress.resize_sequence},
                                             plan))
        return Recycled::kNothing;
    const std::size_t own = file_.log->segments().may_go(plan.frontier, file_.bytes.index().drained_metadata(), keep);
    plan.logs[file_.group->log().index()].needed_from += own;
    // A participant may wait for the frontier alone.
    bool any = plan.frontier.lower() > before.frontier.lower() && file_.group->release().frontier_wanted();
    for (std::size_t i = 0; i < plan.logs.size(); ++i)
        any = any || plan.logs[i].needed_from > before.logs[i].needed_from;
    if (!any) return Recycled::kNothing;
    recycling_ = true;
    const std::uint64_t cut = file_.progress.resize_sequence;
    const std::shared_ptr<group::Group> group = file_.group;
    bool target_synced = false;
    Status outcome;
    {
        const Unlocked meanwhile(file_.mutex());
        outcome = attempt([&] { return state_release(plan, target_synced); });
    }
    recycling_ = false;
    // After a failed sync of a log no promise is left to keep, and the room is needed. The target must have the bytes.
    const bool released = outcome || (target_synced && !sync_error_.is_ok());
    if (released) {
        group->release().release(plan);
        (void)release_oldest(own);
        if (file_.progress.resize_sequence == cut) file_.progress.resize_sequence = 0;
    }
    file_.outflow.state.arrivals.announce();
    file_.context.pool()->announce_change();
    return recycled(outcome, released);
}

Status GroupCommits::state_release(group::Statement& plan, bool& target_synced) {
    const LockGuard stating(stating_);
    FOREBAY_TRY(file_.sync_target());
    target_synced = true;
    // Records behind the last commit do not count, so they need not be on the devices. While no statement was made, as
    // the first one failed, no record counts.
    for (std::size_t i = 0; i < plan.logs.size(); ++i)
        plan.logs[i].end = i < stated_.logs.size() ? stated_.logs[i].end : 0;
    plan.commit_sequence = stated_.commit_sequence;
    plan.committed_size = stated_.committed_size;
    plan.commit_time_ns = stated_.commit_time_ns;
    return state(plan);
}

// Afterwards no log counts, also after a loss of power.
Status GroupCommits::release_all() {
    file_.mutex().assert_held();
    const std::shared_ptr<group::Group> group = file_.group;
    recycling_ = true;
    Status outcome;
    {
        const Unlocked meanwhile(file_.mutex());
        outcome = attempt([&]() -> Status {
            FOREBAY_TRY(file_.sync_target());
            const LockGuard stating(stating_);
            const Status retired = group->release().retire();
            add(file_.counters->syncs, 1);
            return retired
                       ? retired
                       : retired.with_context("the log of " + file_.name.path + " may come back after a loss of power");
        });
    }
    recycling_ = false;
    file_.outflow.state.arrivals.announce_unpinned();
    return outcome;
}

// The release must be on the device before the board goes.
Status GroupCommits::log_given_back() {
    add(file_.counters->syncs, 1);
    return file_.context.pool()->file().sync().with_context("give back the log of " + file_.name.path);
}

}   // namespace forebay::stage
