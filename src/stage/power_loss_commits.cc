// durability=node: a commit returns with its bytes on the device; the log keeps them until the target is synced.
#include <cerrno>

#include "base/attempt.h"
#include "stage/commit_policy.h"

namespace forebay::stage {

Result<std::uint64_t> PowerLossCommits::append(bool closing, Status& failure) {
    std::uint64_t sequence = file_.sizes.commit_sequence;
    bool recorded = false;
    const Status durable = append_record(closing, sequence, recorded);
    // A recorded state is the one to go back to, also if this call fails: no later byte may drain into it.
    if (!durable && !closing && !recorded) return durable;
    if (failure) failure = durable;
    recorded_ = true;
    return sequence;
}

// Syncs what the commit promises, then the record. If the log is empty after that there is no record, and the caller
// brings the target up to date. `recorded`: recovery would find the record, even if it may not be on the device.
Status PowerLossCommits::append_record(bool closing, std::uint64_t& sequence, bool& recorded) {
    if (!file_.log->segments().empty() && !file_.log->marker_fits()) {
        const auto room = log_.make_room(log::kRecordHeaderBytes, log::SegmentPool::Take::kAny);
        if (!room) return room.status();
        if (room.value() == 0) FOREBAY_TRY(log_.drain_and_release());
    }
    // The number is above that of the segment's open record: an older commit in this place is from another use.
    sequence = file_.next_sequence();
    if (file_.log->segments().empty()) return Status::ok();
    // No record tells of the bytes that bypassed the log since the last commit.
    // If a device fails, a closing commit is made all the same: it protects from the death of the process.
    const LockGuard lock(file_.mutex());
    Status before = file_.outflow.state.facts.unsynced() ? file_.outflow.syncs.sync() : Status::ok();
    if (before || closing)
        if (const Status synced = sync_log(); before) before = synced;
    if (!before && !closing) return before;
    const bool appended = file_.log->append_marker(log::RecordKind::kCommit, file_.sizes.logical, sequence);
    recorded = appended;
    const Status synced = appended ? sync_log() : keep_sync_error(file_.log->fault());
    return before ? synced : before;
}

bool PowerLossCommits::recycle(bool /*newest_too*/) {
    file_.mutex().assert_held();
    return announce_idle();
}

// Releases nothing that the target may still lose, whatever became of the log.
CommitPolicy::Recycled PowerLossCommits::recycle_durably(bool /*newest_too*/) {
    file_.mutex().assert_held();
    if (file_.mode != FileMode::kStaged || recycling_ || file_.outflow.state.failures.halted())
        return Recycled::kNothing;
    const bool sent = file_.bytes.index().sent().any();
    std::size_t count = idle_segments();
    if (count == 0 && !sent) return Recycled::kNothing;
    recycling_ = true;
    bool target_synced = false;
    const Status outcome = attempt([&]() NO_THREAD_SAFETY_ANALYSIS {
        return prepare_release(sent, count, target_synced);
    });
    recycling_ = false;
    if (count == 0) {
        file_.outflow.state.arrivals.announce();
        if (outcome.sys_errno() == ENOMEM) return Recycled::kNoMemory;
        return outcome.sys_errno() == 0 && file_.outflow.state.queue.running() > 0 ? Recycled::kSome
                                                                                   : Recycled::kNothing;
    }
    // After a failed sync of the log no promise of the log is left to keep.
    const bool released = target_synced && (outcome || !sync_error_.is_ok());
    if (released)
        for (std::size_t i = 0; i < count; ++i) file_.log->segments().release_oldest();
    file_.outflow.state.arrivals.announce();
    file_.context.pool()->announce_change();
    return recycled(outcome, released);
}

Status PowerLossCommits::prepare_release(bool sent, std::size_t& count, bool& target_synced) {
    const Status synced = file_.outflow.syncs.sync();
    if (sent) count = idle_segments();   // the sync has confirmed all that they had
    target_synced = synced.is_ok();
    if (!synced || count == 0) return synced;
    // First the newer record or copy that made them idle reaches the device, then the note that they are gone.
    FOREBAY_TRY(sync_log());
    if (!file_.log->declare_needed_from(file_.log->segments().oldest_order() + count))
        return keep_sync_error(file_.log->fault());
    return sync_log();
}

// Afterwards the log is empty, also after a loss of power.
Status PowerLossCommits::release_all() {
    file_.mutex().assert_held();
    recycling_ = true;
    const Status outcome = attempt([this]() NO_THREAD_SAFETY_ANALYSIS { return empty_log(); });
    recycling_ = false;
    file_.outflow.state.arrivals.announce_unpinned();
    return outcome;
}

Status PowerLossCommits::empty_log() {
    if (file_.outflow.state.facts.unsynced() || !file_.log->segments().empty()) FOREBAY_TRY(file_.outflow.syncs.sync());
    Status outcome;   // of the log: the target has everything now
    const bool several = file_.log->segments().size() > 1;
    if (several) {
        const bool declared = file_.log->declare_needed_from(file_.log->segments().oldest_order() +
                                                             file_.log->segments().size() - 1);
        outcome = declared ? sync_log() : keep_sync_error(file_.log->fault());
    }
    if (!outcome && sync_error_.is_ok()) return outcome;
    while (file_.log->segments().size() > 1) file_.log->segments().release_oldest();
    if (outcome && several) outcome = sync_log();
    if (!file_.log->segments().empty()) {
        file_.log->segments().release_oldest();
        if (outcome) outcome = sync_log();
    }
    return outcome;
}

}   // namespace forebay::stage
