#include "stage/group_membership.h"

#include <algorithm>
#include <memory>
#include <new>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "stage/commit_policy.h"
#include "stage/counting.h"

namespace forebay::stage {

namespace {

// At most so many drain threads serve the other processes.
constexpr std::size_t kDrainThreadsMax = 64;
// The time after which `poll` is called again for want of memory. No event tells that there is some.
constexpr std::chrono::milliseconds kMemoryPause{500};

}   // namespace

Status GroupMembership::take_first_segment() {
    const LockGuard writer(file_.writer);
    return log_.take_first_segment();
}

Status GroupMembership::join(std::shared_ptr<group::Group> group, bool several_nodes) {
    const LockGuard writer(file_.writer);
    FOREBAY_TRY(log_.take_first_segment());
    const bool durable = group->release().durable();
    std::unique_ptr<CommitPolicy> commits;
    if (durable) commits = std::make_unique<GroupCommits>(file_, log_);
    else commits = std::make_unique<ProcessCommits>(file_, log_);
    {
        const LockGuard lock(file_.mutex());
        file_.group = std::move(group);
        file_.commits = std::move(commits);
        file_.unstaged.withdraw();
        file_.durable = durable;
        file_.log->share(file_.group->log().sharing(), file_.durable);
        file_.several_nodes = several_nodes;
        if (several_nodes) {
            file_.sizes.committed = 0;   // all raw data lies beyond, and drains at once
            // Other nodes may have written the range since, so a byte is never written again.
            file_.outflow.state.facts.take_writes_for_final();
        }
        if (file_.group->drains()) {
            file_.group->target().set_committed_size(file_.sizes.committed);
            file_.outflow.state.share(file_.group->order(),
                                      std::min<std::size_t>(file_.group->participants(), kDrainThreadsMax),
                                      several_nodes);
        } else {
            file_.follower = std::make_unique<index::FollowedBytes>(file_.group->order());
        }
        if (several_nodes && file_.group->drains()) file_.outflow.state.target.note_external_writers();
        file_.bytes.index().clear();   // numbers begin afresh
    }
    if (!log_.adopt_first_segment())
        return log_.failure().with_context("share " + file_.name.path + " with the other processes of the node");
    return file_.commits->sync_own_log();
}

std::optional<std::chrono::milliseconds> GroupMembership::poll(bool room_wanted) {
    bool drain_now = false, complete = true;
    std::optional<std::chrono::milliseconds> next;
    {
        const LockGuard lock(file_.mutex());
        try {
            drain_now = find_work(room_wanted);
        } catch (const std::bad_alloc&) {
            // Nothing is lost: the next call finds the records again.
            complete = false;
            drain_now = file_.drains() && file_.outflow.state.planner.wants_thread();
        }
        file_.outflow.state.arrivals.announce();   // a thread may wait for incomplete records
        next = next_poll();   // before `wake`: a thread that finds the pause not over takes nothing
        if (!complete) next = std::min(next.value_or(kMemoryPause), kMemoryPause);
    }
    if (drain_now) file_.outflow.wake();
    if (room_wanted) (void)file_.outflow.confirms.ask();
    return next;
}

// Another node may wait for staged bytes while no call of this node waits for the target.
std::optional<std::chrono::milliseconds> GroupMembership::next_poll() {
    if (!file_.drains() || !file_.group || !file_.outflow.state.pausing()) return std::nullopt;
    WaitClock& clock = file_.outflow.state.clock();
    const std::uint64_t now_ns = clock.now_ns(), until_ns = file_.outflow.state.failures.retry_at_ns();
    return clock.sleep_max(until_ns - std::min(until_ns, now_ns));
}

// Returns true if a drain thread is wanted.
bool GroupMembership::find_work(bool room_wanted) {
    if (file_.mode != FileMode::kStaged || file_.follows()) return false;
    file_.follow(!room_wanted);
    if (room_wanted)
        file_.outflow.state.arrivals.wait_out_pause(
            file_.mutex(),
            file_.outflow.state.failures);   // this thread has nothing else to do
    if (file_.mode != FileMode::kStaged || !file_.group) return false;
    if (room_wanted) {
        (void)file_.commits->recycle_durably(false);   // without memory: the participant rings again
        if (file_.mode != FileMode::kStaged || !file_.group) return false;
    }
    if (room_wanted && !file_.outflow.state.failures.halted() &&
        (file_.outflow.state.arrivals.stalled(file_.outflow.state.queue) || file_.outflow.state.arrivals.sync_hangs()))
        file_.outflow.state.halt(file_.outflow.state.arrivals.timed_out());
    if (room_wanted && !file_.outflow.state.failures.halted()) {
        log_.recycle();   // first: then held bytes need not drain for a participant that gets room by this
        if (file_.bytes.index().ready().empty() && file_.outflow.state.queue.idle() &&
            !file_.outflow.state.target.cut_due() && file_.group->lacks_room())
            file_.make_held_ready();
        (void)file_.outflow.state.planner.resume();
        file_.outflow.state.planner.hurry();
    }
    log_.recycle();
    file_.update_ledger();
    return file_.outflow.state.planner.wants_thread();
}

void GroupMembership::collective_write_done() {
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode != FileMode::kStaged || !file_.group) return;
        file_.progress.all_written = true;
    }
    file_.outflow.wake();
}

bool GroupMembership::shared() const {
    const LockGuard lock(file_.mutex());
    return file_.group != nullptr;
}

Status GroupMembership::own_log_lost() const {
    const LockGuard lock(file_.mutex());
    return file_.mode == FileMode::kStaged && file_.log ? file_.log->ever_lost() : Status::ok();
}

// Each process asks the file system itself: the drainer may have written nothing, or use another client of it.
Status GroupMembership::confirm_own_writes() {
    const LockGuard writer(file_.writer);
    const LockGuard lock(file_.mutex());
    if (file_.mode != FileMode::kStaged && file_.mode != FileMode::kBypass) return Status::ok();
    return file_.outflow.confirms.await(drain::Confirm::kClose);
}

Status GroupMembership::finish_followed(const Status& outcome) {
    const LockGuard writer(file_.writer);
    Status confirmed;
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode != FileMode::kStaged) return outcome;
        if (outcome) confirmed = file_.outflow.confirms.await(drain::Confirm::kClose);
        if (outcome && !file_.follows()) file_.group->release().complete();
        file_.follower.reset();
        if (outcome) {
            file_.log.reset();
            file_.mode = FileMode::kPassive;
            file_.sizes.committed = file_.sizes.logical;
            file_.outflow.state.target.set_size(file_.sizes.logical);
        } else {
            file_.log->segments().abandon();
            file_.retained_log.log = true;
            file_.mode = FileMode::kFailed;
            file_.outflow.state.halt(outcome);
        }
        file_.group.reset();
        file_.offer_target();
    }
    if (const Status given_back = outcome && file_.durable ? file_.commits->log_given_back() : outcome; !given_back)
        return given_back;
    return confirmed;
}

Status GroupMembership::drain_present() {
    const LockGuard writer(file_.writer);
    std::shared_ptr<group::Group> group;
    std::uint64_t below = 0;
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode != FileMode::kStaged || !file_.group) return file_.outflow.state.failures.error();
        group = file_.group;
        below = group->order().present_below();
        if (group->drains()) {
            file_.follow();
            file_.make_held_ready();
        }
    }
    const Call call(file_.counters->close_ns, file_.context.spare_time(), file_.context.trace());
    if (!group->drains()) return group->log().drain_below(below);
    Status drained;
    bool drain_now = false;
    {
        const LockGuard lock(file_.mutex());
        drained = log_.drain(below);
        drain_now = file_.outflow.state.planner.wants_thread();   // for later records, which were followed here
    }
    if (drain_now) file_.outflow.wake();
    return drained;
}

Status GroupMembership::resize_beside(std::uint64_t size) {
    const LockGuard writer(file_.writer);
    const auto present = file_.target->size();
    FOREBAY_TRY(present.status());
    if (present.value() == size) return Status::ok();   // costs no call of a file server
    Status resized = file_.target->resize(size);
    if (!resized) file_.outflow.state.note_failed_beside(resized);
    return resized;
}

Status GroupMembership::note_size(std::uint64_t size) {
    const LockGuard writer(file_.writer);
    if (!file_.follows() && file_.log != nullptr && !file_.log->segments().empty()) {
        FOREBAY_TRY(log_.make_marker_room());
        const std::uint64_t sequence = file_.next_sequence();
        group::DrawnNumber drawn(file_.order());
        FOREBAY_TRY(file_.group->lost());
        const bool noted = file_.log->append_marker(log::RecordKind::kTruncate, size, sequence);
        drawn.publish();
        if (!noted) return log_.failure().with_context("set the size of " + file_.name.path);
    }
    const LockGuard lock(file_.mutex());
    file_.sizes.logical = size;
    file_.outflow.state.target.set_size(size);
    file_.index().drop({size, kOffsetMax});
    return Status::ok();
}

void GroupMembership::wrap_target(const std::function<std::shared_ptr<io::File>(std::shared_ptr<io::File>)>& wrap) {
    const LockGuard writer(file_.writer);
    const LockGuard lock(file_.mutex());
    file_.unstaged.replace(file_.target, wrap(file_.target));
    file_.offer_target();
    file_.outflow.state.target.reach_through(file_.target);
}

void GroupMembership::waited_since(std::uint64_t begin_ns) noexcept {
    const LockGuard writer(file_.writer);
    const std::uint64_t now = monotonic_ns();
    file_.context.spare_time().enter(begin_ns);
    file_.context.spare_time().leave(now);
    file_.context.spare_time().forgive();
    add(file_.counters->close_ns, now - begin_ns);
    if (const io::Trace* const trace = file_.context.trace()) trace->waited(begin_ns, now);
}

void GroupMembership::count_given_up(std::uint64_t bytes) noexcept { add(file_.counters->guarantee_given_up, bytes); }

Status GroupMembership::prepare_bypass() {
    const LockGuard writer(file_.writer);
    const LockGuard lock(file_.mutex());
    if (!file_.drains()) return Status::ok();
    FOREBAY_TRY(log_.drain());
    FOREBAY_TRY(file_.outflow.confirms.await(drain::Confirm::kSync));
    if (file_.outflow.state.target.size() != file_.sizes.logical)
        FOREBAY_TRY(file_.outflow.resize_target(file_.sizes.logical));
    if (file_.durable) {
        const Unlocked meanwhile(file_.mutex());
        FOREBAY_TRY(file_.sync_target());
    }
    return log_.await_unpinned();
}

Status GroupMembership::bypass_log(ledger::AsideReason reason) {
    const LockGuard writer(file_.writer);
    file_.count_aside(reason);
    Status released;
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode != FileMode::kStaged) return Status::ok();
        if (file_.follows()) {
            file_.bytes.index().clear();
            file_.follower.reset();
            file_.log->segments().release_all();
            file_.group.reset();
            file_.mode = FileMode::kBypass;
            file_.offer_target();
        } else {
            // The target is whole, and no statement takes back that no log counts. So a failure keeps no file staged.
            released = attempt([&] { return file_.commits->release_all(); });
            file_.group->release().complete();
            FOREBAY_TRY(log_.stop_staging());
        }
    }
    if (!released || !file_.durable) return released;
    return file_.commits->log_given_back();
}

}   // namespace forebay::stage
