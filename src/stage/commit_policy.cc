// The parts of a commit that all policies share, and the commits that outlive the processes only.
#include "stage/commit_policy.h"

#include <cerrno>
#include <new>
#include <optional>

#include "base/attempt.h"
#include "base/clock.h"
#include "stage/counting.h"

namespace forebay::stage {

Status CommitPolicy::commit(bool closing) {
    file_.writer.assert_held();
    Status failure;
    {
        const LockGuard lock(file_.mutex());
        file_.follow();
        if (!file_.group) file_.outflow.make_good();
        failure = file_.outflow.state.failures.error();
        if (failure) failure = sync_error_;
        if (failure && file_.log) failure = file_.log->lost();
        if (!failure && !closing) return failure;
        if (!file_.progress.dirty && (recorded_ || closing)) return failure;
    }
    const auto sequence = append(closing, failure);
    if (!sequence) return sequence.status();
    bool drain_now = false, target_tells = false;
    {
        const LockGuard lock(file_.mutex());
        file_.bytes.index().commit(file_.sizes.logical);
        file_.sizes.committed = file_.sizes.logical;
        if (file_.group) file_.group->target().set_committed_size(file_.sizes.committed);
        file_.sizes.commit_sequence = sequence.value();
        file_.sizes.commit_time_ns = realtime_ns();
        file_.progress.dirty = false;
        add(file_.counters->commits, 1);
        drain_now = file_.outflow.committed();
        target_tells = !file_.outflow.state.planner.urgent() &&
                       file_.outflow.state.target.size() >= file_.sizes.committed;
        log_.recycle();
        file_.update_ledger();
    }
    if (drain_now) file_.outflow.wake();
    if (!failure || !file_.log->segments().empty() || (!file_.durable && (target_tells || file_.group))) return failure;
    // No record tells of this commit, of its size or of a cut, so the target has to show them. A caller that gives up
    // may repeat the call.
    const LockGuard lock(file_.mutex());
    recorded_ = false;
    FOREBAY_TRY(log_.drain());
    if (file_.durable) FOREBAY_TRY(file_.outflow.syncs.sync());
    recorded_ = true;
    return Status::ok();
}

CommitPolicy::Recycled CommitPolicy::recycle_durably(bool /*newest_too*/) { return Recycled::kNothing; }

CommitPolicy::Recycled CommitPolicy::recycled(const Status& outcome, bool released) noexcept {
    if (released) return Recycled::kSome;
    switch (outcome.sys_errno()) {
        case ENOMEM: return Recycled::kNoMemory;
        case ETIMEDOUT: return Recycled::kNothing;
        default: return Recycled::kSome;
    }
}

// Segments may be given back meanwhile, hence the lock.
void CommitPolicy::sync_opening() {
    if (!file_.durable) return;
    const LockGuard lock(file_.mutex());
    if (file_.log->segments().size() == 1) (void)sync_log();
}

Status CommitPolicy::sync_log() {
    Status synced;
    {
        const Unlocked meanwhile(file_.mutex());
        synced = drain::reported([this] { return file_.log->sync(); });
    }
    add(file_.counters->syncs, 1);
    return synced ? synced : keep_sync_error(synced);
}

// A device reports lost bytes only once, so a shortage of memory must not lose the report.
Status CommitPolicy::keep_sync_error(const Status& failed) noexcept {
    Status failure;
    try {
        failure = failed.with_context("the staged bytes of " + file_.name.path + " survive the " +
                                      (file_.group ? "processes" : "process") + ", but not a loss of power");
    } catch (const std::bad_alloc&) {
        failure = copy_of(failed, drain::Failures::kFailed);
    }
    if (sync_error_.is_ok()) sync_error_ = copy_of(failure, drain::Failures::kFailed);
    return failure;
}

std::size_t CommitPolicy::idle_segments() const noexcept {
    if (!file_.log || file_.bytes.index().zero_bytes() > 0 || file_.outflow.state.target.cut_due()) return 0;
    return file_.log->segments().idle_at_front();
}

// A release takes the device's time, so the thread that wants the room does it.
bool CommitPolicy::announce_idle() noexcept {
    if (!recycling_ && idle_segments() > 0) file_.context.pool()->announce_change();
    return false;
}

Result<std::uint64_t> ProcessCommits::append(bool closing, Status& failure) {
    const std::uint64_t sequence = file_.next_sequence();
    group::DrawnNumber drawn(file_.order());
    if (file_.group && !closing) FOREBAY_TRY(file_.group->lost());
    const std::uint64_t size = file_.sizes.logical;
    bool recorded = true;
    if (failure && log_.failed()) {
        // Recovery would go back to an older commit, as the log takes no record of this one. So the log has to go.
        if (!closing || !file_.group) FOREBAY_TRY(log_.give_up());
        recorded = file_.log->segments().empty();
    } else if (failure) {
        FOREBAY_TRY(log_.append_marker(log::RecordKind::kCommit, size, sequence));
    } else if (!file_.log->marker_fits() || !file_.log->append_marker(log::RecordKind::kCommit, size, sequence)) {
        const LockGuard lock(file_.mutex());
        add(file_.counters->guarantee_given_up, file_.bytes.index().held().bytes());
        recorded = false;
    }
    recorded_ = recorded;
    return sequence;
}

bool ProcessCommits::recycle(bool newest_too) {
    file_.mutex().assert_held();
    std::optional<log::Frontier> frontier;
    if (file_.group) {
        if (file_.bytes.index().empty() && file_.outflow.state.queue.none_in_flight()) {
            // The frontier would say that the file is complete, while its size is still to be set.
            if (file_.outflow.state.target.size() < file_.sizes.committed) return false;
            file_.group->release().all_drained();
        }
        const bool waits = file_.log->segments().size() > (newest_too ? 0 : 1) &&
                           file_.log->segments().oldest()->idle();
        frontier = file_.group->release().recycle({file_.log->segments().needed(),
                                                   file_.bytes.index().drained_metadata(), waits,
                                                   file_.progress.resize_sequence});
        if (!frontier) return false;
        file_.progress.resize_sequence = 0;
    }
    log::SegmentList& segments = file_.log->segments();
    const std::size_t keep = newest_too ? 0 : 1;
    if (file_.group) return release_oldest(segments.may_go(*frontier, file_.bytes.index().drained_metadata(), keep));
    bool any = false;
    for (; segments.size() > keep && segments.oldest()->idle(); any = true) segments.release_oldest();
    return any;
}

// First `released`: as soon as the pool has a segment, another file may use it, and a follower must not read it then.
bool CommitPolicy::release_oldest(std::size_t count) {
    log::SegmentList& segments = file_.log->segments();
    file_.group->log().set_released(segments.oldest_order() + count);
    for (std::size_t i = 0; i < count; ++i) segments.release_oldest();
    return count > 0;
}

}   // namespace forebay::stage
