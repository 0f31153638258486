// The graph of tasks in memory, internal: a node for each task, and rings of edges from a parent to its children. The
// engine's lists and handles share a node, which owns its edges. The engine's lock guards all but `state`.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <thread>

#include "base/status.h"
#include "task/engine.h"

namespace forebay::task {

using NodePtr = std::shared_ptr<Task::Node>;
using Nodes = std::list<NodePtr>;

enum class Wait : std::uint8_t { kParent, kSufficientParent, kTurn };

// An element of a ring, which owns no other element. A link alone is a ring of its own.
struct Link {
    Link* before = this;
    Link* after = this;

    Link() noexcept = default;
    Link(const Link&) = delete;
    Link& operator=(const Link&) = delete;
    ~Link() { leave(); }

    [[nodiscard]] bool alone() const noexcept { return after == this; }
    void leave() noexcept {
        before->after = after;
        after->before = before;
        before = after = this;
    }
    // Adds `link`, which must be alone, at the end of this ring.
    void append(Link& link) noexcept {
        link.before = before;
        link.after = this;
        before->after = &link;
        before = &link;
    }
};

// One wait of a child. Until it is over, the edge is in the ring of the parent or of the section.
struct Edge : Link {
    Task::Node* child = nullptr;
    Wait wait = Wait::kParent;
};

// The tasks between two barriers.
struct Section {
    std::size_t unfinished = 0;      // tasks that have not ended, without the barrier task
    bool closed = false;             // a barrier task was submitted
    bool barrier_due = false;        // the other tasks have ended
    Task::Node* barrier = nullptr;   // null once the barrier task has ended
    Link gated;                      // edges of this section's tasks, until the section is the oldest one
};

struct Task::Node {
    const Engine::Core* engine = nullptr;   // compared only: handles may outlive the engine
    std::function<Status()> run;
    std::uint64_t bytes = 0;
    bool barrier = false;

    std::atomic<State> state{State::kWaiting};
    Status status;   // final once the state is an end

    // The task's place in the engine until it ends.
    Nodes* list = nullptr;
    Nodes::iterator place;
    Section* section = nullptr;
    std::thread::id runner;
    std::size_t waiters = 0;

    Link children;                   // edges of the tasks that wait for this one
    Edge turn;                       // this task waits for the turn of its section
    std::unique_ptr<Edge[]> edges;   // this task waits for these parents
    std::size_t edge_count = 0;
    std::size_t missing = 0;           // waits left before scheduling; all sufficient parents together count as one
    std::size_t sufficient_left = 0;   // sufficient parents that can still become done

    [[nodiscard]] std::span<Edge> parent_edges() const noexcept { return {edges.get(), edge_count}; }
};

}   // namespace forebay::task
