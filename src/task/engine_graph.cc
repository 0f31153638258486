// The waits of a task: for its parents, its sufficient parents, and the turn of its section.
#include <algorithm>
#include <utility>

#include "task/engine_core.h"

namespace forebay::task {

void Engine::Core::place_locked(Task::Node& node, Nodes& list) {
    list.splice(list.end(), *node.list, node.place);
    node.list = &list;
}

void Engine::Core::wait_for_locked(Task::Node& node, Edge& edge, Link& ring, Wait wait) {
    edge.child = &node;
    edge.wait = wait;
    ring.append(edge);
}

// Links the task to all that it waits for. The caller has allocated its edges.
void Engine::Core::link_locked(Task::Node& node, const Request& request) {
    bool doomed = false;
    for (const Task& parent : request.parents) {
        const State state = parent.state();
        doomed |= state == State::kCanceled;
        if (has_ended(state)) continue;
        wait_for_locked(node, node.edges[node.edge_count++], parent.node_->children, Wait::kParent);
        ++node.missing;
    }
    const auto& sufficient = request.sufficient_parents;
    if (!sufficient.empty() && std::none_of(sufficient.begin(), sufficient.end(),
                                            [](const Task& parent) { return parent.state() == State::kDone; })) {
        for (const Task& parent : sufficient) {
            if (parent.state() == State::kCanceled) continue;
            wait_for_locked(node, node.edges[node.edge_count++], parent.node_->children, Wait::kSufficientParent);
            ++node.sufficient_left;
        }
        doomed |= node.sufficient_left == 0;
        ++node.missing;
    }
    if (node.barrier) {
        node.section->closed = true;
        node.section->barrier = &node;
        ++node.missing;   // open_sections_locked ends this wait
    } else {
        ++node.section->unfinished;
        if (node.section != &sections_.front()) {
            wait_for_locked(node, node.turn, node.section->gated, Wait::kTurn);
            ++node.missing;
        }
    }
    if (doomed) mark_ended_locked(node, State::kCanceled);
    else if (node.missing == 0) schedule_locked(node);
}

void Engine::Core::schedule_locked(Task::Node& node) {
    if (crew_.stopping()) {
        mark_ended_locked(node, State::kCanceled);
        return;
    }
    node.state.store(State::kScheduled, std::memory_order_release);
    place_locked(node, must_hold_back_locked(node) ? held_back_ : scheduled_);
}

void Engine::Core::satisfied_locked(Task::Node& child, Wait wait) {
    if (wait == Wait::kSufficientParent)
        for (Edge& edge : child.parent_edges())
            if (edge.wait == Wait::kSufficientParent) edge.leave();
    if (--child.missing == 0) schedule_locked(child);
}

void Engine::Core::given_up_locked(Task::Node& child, Wait wait) {
    if (wait == Wait::kSufficientParent && --child.sufficient_left > 0) return;
    mark_ended_locked(child, State::kCanceled);
}

// `settle_locked` does the rest in a loop, since recursion through a long chain would overflow the stack.
void Engine::Core::mark_ended_locked(Task::Node& node, State how) {
    for (Edge& edge : node.parent_edges()) edge.leave();
    node.turn.leave();
    if (node.barrier) node.section->barrier = nullptr;
    node.state.store(how, std::memory_order_release);
    place_locked(node, ending_);
}

void Engine::Core::end_locked(Task::Node& node, State how, Ended& ended) {
    mark_ended_locked(node, how);
    settle_locked(ended);
}

// Tells the children and section of each ended task, until no further task ends. Moves the ended tasks to `ended`,
// which the caller destroys without the lock.
void Engine::Core::settle_locked(Ended& ended) {
    bool awaited = false;
    while (!ending_.empty()) {
        Task::Node& node = *ending_.front();
        place_locked(node, ended.nodes);
        const bool done = node.state.load(std::memory_order_relaxed) == State::kDone;
        while (!node.children.alone()) {
            Edge& edge = static_cast<Edge&>(*node.children.after);
            edge.leave();
            if (done) satisfied_locked(*edge.child, edge.wait);
            else given_up_locked(*edge.child, edge.wait);
        }
        --unfinished_;
        awaited |= node.waiters > 0;
        if (!node.barrier) --node.section->unfinished;
        open_sections_locked();
    }
    if (awaited || (unfinished_ == 0 && all_waiters_ > 0)) ended_.notify_all();
}

// The oldest section's barrier task is scheduled after its other tasks, and opens the next section at its end.
void Engine::Core::open_sections_locked() {
    for (;;) {
        Section& oldest = sections_.front();
        if (!oldest.closed || oldest.unfinished > 0) return;
        if (oldest.barrier != nullptr) {
            if (!std::exchange(oldest.barrier_due, true)) satisfied_locked(*oldest.barrier, Wait::kTurn);
            return;
        }
        sections_.pop_front();
        Link& gated = sections_.front().gated;
        while (!gated.alone()) {
            Edge& edge = static_cast<Edge&>(*gated.after);
            edge.leave();
            satisfied_locked(*edge.child, edge.wait);
        }
    }
}

}   // namespace forebay::task
