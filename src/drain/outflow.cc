#include "drain/outflow.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace forebay::drain {

namespace {

// The time that a flush waits for a target that does not answer. The commit is in the log; the size follows.
constexpr std::chrono::milliseconds kShownWithin{20};

}   // namespace

Outflow::Outflow(const DrainContext& context, index::StagedBytes& bytes, DrainListener& listener,
                 const std::string& path)
    : state(context, bytes, listener, path), inspector(state), syncs(state), confirms(state), bypass(*this) {}

bool Outflow::committed() noexcept {
    const Backlog backlog = state.listener.backlog();
    state.target.commit(backlog.logical_size);
    state.failures.clear_unreadable();
    state.publish_pace();
    state.planner.hurry();
    if (state.planner.paused() && !state.target.cut_due()) return false;
    return state.planner.urgent() || state.target.size() < backlog.committed_size;
}

// A failed sync may have lost bytes that no later sync restores.
void Outflow::make_good() {
    if (state.failures.first_error().is_ok() || !state.failures.target_lost().is_ok() || state.turns.changed()) return;
    state.failures.try_again();
    (void)drain();
    if (state.failures.halted() || state.listener.backlog().any_ready || !state.queue.idle() ||
        state.target.cut_due() || !state.failures.unreadable().empty() || !state.failures.target_lost().is_ok())
        return;
    state.failures.forget();
    state.listener.made_good();
}

Status Outflow::drain(std::uint64_t below) {
    state.planner.demand_all();
    if (state.listener.backlog().ready_bytes > 2 * state.context.options.write_max) {
        const Unlocked meanwhile(state.mutex);
        wake();
    }
    for (;;) {
        if (below != kOffsetMax && state.planner.drained_below(below)) break;
        if (Taken taken = take_next(); taken.work) {
            carry_out(std::move(taken));
        } else if (!state.queue.idle()) {
            FOREBAY_TRY(state.arrivals.await_next(state.mutex));
        } else if (state.pausing()) {
            state.arrivals.wait_out_pause(state.mutex, state.failures);
        } else if (state.planner.paused() && state.listener.backlog().any_ready) {
            state.planner.demand_all();   // another thread has paused the drain meanwhile
        } else if (state.planner.shared() && !state.failures.halted() && state.planner.readable_left()) {
            // Other processes still write, or an older record is incomplete. The drain continues after them.
            if (state.planner.set_urgent(true)) FOREBAY_TRY(state.arrivals.await_next(state.mutex));
        } else {
            break;
        }
    }
    state.planner.set_urgent(false);
    return state.failures.error();
}

// Returns true if a running write will make the file as long as the commit says.
bool Outflow::is_being_lengthened(std::uint64_t committed_size) const noexcept {
    if (state.queue.running() == 0 || state.target.size() < committed_size) return false;
    return std::ranges::none_of(state.queue.planned(),
                                [=](const plan::TargetWrite& write) { return write.range.end >= committed_size; });
}

// H5Fflush sets the size that others see, as natively, even while the bytes are staged. An extension happens at once:
// no write in flight ends beyond a commit's size. A cut waits for the writes in flight beyond it. The commit of a
// shared file drains it, and so sets the size.
Status Outflow::show_size() {
    const auto until = std::chrono::steady_clock::now() + kShownWithin;
    for (;;) {
        const std::uint64_t committed_size = state.listener.backlog().committed_size;
        const bool cut_due = state.target.cut_due().has_value();
        if (!state.listener.drains() || state.planner.shared() || state.failures.halted() ||
            (!cut_due && state.target.shown_size() >= committed_size))
            break;
        Taken taken;
        if (cut_due) taken = take_next();
        else if (!state.queue.resizing() && !state.pausing() && !state.turns.closed() &&
                 !is_being_lengthened(committed_size))
            taken = take_resize(committed_size);
        if (taken.work) {
            carry_out(std::move(taken));
        } else if (!state.queue.idle()) {
            if (!state.arrivals.await_briefly(state.mutex, until)) break;
        } else if (state.pausing()) {
            state.arrivals.wait_out_pause(state.mutex, state.failures);
        } else {
            break;
        }
    }
    return state.failures.error();
}

// If the target may hang, a drain thread sets the size.
Status Outflow::resize_target(std::uint64_t size) {
    const auto mine = std::make_shared<AwaitedCall>();
    carry_out(take_resize(size, mine));
    FOREBAY_TRY(state.arrivals.await(state.mutex, [&mine] { return mine->done; }));
    state.facts.note_unsynced();
    if (!state.facts.may_hang()) {
        const Unlocked meanwhile(state.mutex);
        inspector.note_rest();
    }
    return mine->outcome;
}

}   // namespace forebay::drain
