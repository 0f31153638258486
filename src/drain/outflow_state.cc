#include "drain/outflow_state.h"

#include <cerrno>
#include <new>
#include <utility>

#include "log/target_state.h"

namespace forebay::drain {

namespace {

// Returns true for errors that the target's file system has not reported.
bool is_own(const Status& failure) noexcept {
    const int error = failure.sys_errno();
    return error == EFAULT || error == ENOMEM || error == ECANCELED || error == log::kChangedByOthers;
}

}   // namespace

OutflowState::OutflowState(const DrainContext& drain_context, index::StagedBytes& staged_bytes,
                           DrainListener& file_listener, const std::string& file_path)
    : context(drain_context),
      listener(file_listener),
      path(file_path),
      bytes(staged_bytes),
      target(listener),
      queue(bytes, context.options.drain_threads),
      failures(context.options.on_error == OnError::kRetry),
      arrivals(context, bytes, path),
      planner({context.options, listener, bytes, facts, target, failures, queue}) {}

void OutflowState::open(std::shared_ptr<io::File> file, const io::FileTraits& traits, std::uint64_t size,
                        std::uint64_t log_mount) {
    facts.open(traits, context.options);
    turns.open(traits.may_lease);
    failures.open();
    arrivals.open();
    planner.open();
    target.open(std::move(file), traits.times, size, log_mount);
}

void OutflowState::share(group::RecordOrder& order, std::size_t processes, bool at_once) {
    planner.share(order, at_once);
    // Each of the processes would have a write in flight.
    queue.concurrency().drain_for(processes, facts.waited_for());
    context.scheduler.allow(processes);
}

void OutflowState::fail(const Status& failure) {
    resend(failure);
    if (!failures.retry(failure, clock().now_ns())) return halt(failure);
    planner.drop_planned();
    listener.paused();
}

void OutflowState::halt(const Status& failure) {
    resend(failure);
    failures.halt();
    planner.drop_planned();
    publish_pace();
    listener.halted(failure);
    keep(failure);
}

void OutflowState::starve() noexcept {
    planner.drop_planned();   // a bypassing write would wait for them
    if (failures.halted()) return;
    failures.pause(clock().now_ns());
    listener.paused();
}

void OutflowState::keep(const Status& failure) {
    if (failures.keep(failure)) listener.error_kept(failure.sys_errno());
}

void OutflowState::lose(const std::vector<ByteRange>& unreadable, const Status& fault) {
    try {
        failures.add_unreadable(unreadable);
    } catch (const std::bad_alloc&) {
        return halt(fault);
    }
    listener.lost();
    keep(fault);
}

void OutflowState::resend(const Status& failure) {
    if (!facts.reports_late() || is_own(failure)) return;
    calls.note_report();
    if (calls.any_final() && failures.target_lost().is_ok()) {
        failures.lose_target(failure, path);
        keep(failures.target_lost());
    }
    resend_sent(failure);
}

void OutflowState::resend_sent(const Status& failure) {
    if (!bytes.index().sent().any()) return;
    try {
        bytes.index().resend();
    } catch (const std::bad_alloc&) {
        failures.lose_target(failure, path);   // the log keeps them for recovery
    }
}

void OutflowState::note_failed_beside(const Status& failure) noexcept {
    if (facts.reports_late() && facts.writes_are_final() && !is_own(failure)) facts.note_lost();
}

bool OutflowState::end_call(const TargetCalls::Call& call) noexcept {
    calls.end(call);
    return arrivals.sync() && settle(*arrivals.sync());
}

void OutflowState::begin_sync(std::shared_ptr<AwaitedCall> sync) noexcept {
    sync->confirms = bytes.index().sent().begin_confirm();
    calls.begin_confirm();
    arrivals.begin_sync(std::move(sync));
}

void OutflowState::answer_sync(AwaitedCall& sync, const Status& outcome) noexcept {
    if (outcome) arrivals.note_progress();
    else sync.outcome = copy_of(outcome, Failures::kFailed);
    // No call makes a failure good. A local file system reports a loss at a sync only.
    sync.below = outcome && facts.reports_late() ? calls.next() : 0;
    sync.answered = true;
    (void)settle(sync);
}

bool OutflowState::settle(AwaitedCall& sync) noexcept {
    if (sync.done || !sync.answered || !calls.ended_before(sync.below)) return false;
    const bool succeeded = sync.outcome.is_ok();
    const bool any_sent = bytes.index().sent().any();
    if (sync.confirms) bytes.index().sent().end_confirm(succeeded);   // a report meanwhile has made them ready again
    calls.end_confirm(succeeded);
    if (succeeded) sync.outcome = copy_of(failures.target_lost(), Failures::kFailed);
    sync.done = true;
    if (any_sent) listener.progressed();
    arrivals.announce();
    return true;
}

void OutflowState::note_cut() noexcept {
    target.note_cut();
    publish_pace();
}

void OutflowState::publish_pace() noexcept {
    facts.publish_pace(failures.halted());
    listener.pace_changed();
}

}   // namespace forebay::drain
