// Turns behind a close (drain/turns.h): how work begins and ends in one.
#include "base/attempt.h"
#include "drain/outflow.h"

namespace forebay::drain {

void Outflow::begin_turns() {
    state.planner.drop_planned();
    state.turns.begin(state.target, state.planner.shared());
}

bool Outflow::size_comes_first() const noexcept {
    return state.turns.on() && !state.turns.any_taken() && !state.target.cut_due() && !state.planner.shared() &&
           !state.target.others_extend() && state.target.shown_size() < state.listener.backlog().committed_size;
}

bool Outflow::may_begin(Turn turn) const noexcept {
    const LockGuard lock(state.mutex);
    return state.turns.may_begin(turn);
}

void Outflow::put_off(io::File& target, const plan::TargetWrite* write, const TargetCalls::Call& call) noexcept {
    const Status left = end_turn(target, [](TargetGuard&) {});
    {
        const LockGuard lock(state.mutex);
        if (write != nullptr) state.planner.put_back(*write);
        else state.queue.set_resizing(false);
        state.calls.note_return(call, false);
        if (!left) state.fail(left);
        state.listener.progressed();
        state.arrivals.announce();
        (void)state.end_call(call);
    }
    wake();
    state.listener.came_to_rest();
}

Status Outflow::begin_turn(io::File& target) noexcept {
    const Status looked = attempt([&] { return inspector.look_before_turn(target); });
    if (!looked) return looked;
    bool more = false;
    {
        const LockGuard lock(state.mutex);
        state.turns.admit();
        more = state.queue.has_room() && (!state.queue.planned().empty() || state.planner.worth_draining());
    }
    if (more)
        (void)attempt([&] {
            wake();
            return Status::ok();
        });
    return looked;
}

Status Outflow::end_turn(io::File& target, const NoteEnd& note) noexcept {
    {
        const LockGuard lock(state.mutex);
        if (!state.turns.end(note)) return Status::ok();
    }
    const Status left = attempt([&] { return inspector.look_after_turn(target); });
    const LockGuard lock(state.mutex);
    state.turns.looked(left.is_ok());
    return left;
}

}   // namespace forebay::drain
