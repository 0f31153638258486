// The state of an engine: its tasks, sections and byte budget, and the crew of threads that runs the tasks. Internal to
// engine_graph.cc, which keeps the graph and propagates the end of a task, and to engine.cc, which runs tasks and
// implements the engine's calls. Only `wait`, `stop` and the destructor block. `mutex_` guards all members, the crew
// included; callers of `…_locked` functions hold it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "task/task_node.h"
#include "task/thread_crew.h"

namespace forebay::task {

// Ended tasks. Their functions are destroyed without the lock, so callers declare this before the lock.
struct Engine::Ended {
    Nodes nodes;

    Ended() = default;
    Ended(const Ended&) = delete;
    Ended& operator=(const Ended&) = delete;
    ~Ended() { destroy(); }
    void destroy() noexcept {
        for (const NodePtr& node : nodes) node->run = nullptr;
        nodes.clear();
    }
};

class Engine::Core {
  public:
    explicit Core(Limits limits);
    ~Core();

    Submitted submit(Request request);   // the calls of Engine (task/engine.h)
    bool cancel(Task::Node& node);
    bool assist();
    void allow(std::size_t threads);
    bool stop(std::chrono::steady_clock::time_point until);
    // Blocks until `awaited` has ended; with null, until no task is left.
    Status wait(Task::Node* awaited);

  private:
    void serve();
    void begin_stop();

    static void wait_for_locked(Task::Node& node, Edge& edge, Link& ring, Wait wait);   // `ring`: of the awaited
    void link_locked(Task::Node& node, const Request& request);
    void place_locked(Task::Node& node, Nodes& list);   // moves the task to the end of `list`
    void schedule_locked(Task::Node& node);
    void satisfied_locked(Task::Node& child, Wait wait);
    void given_up_locked(Task::Node& child, Wait wait);
    void mark_ended_locked(Task::Node& node, State how);
    void end_locked(Task::Node& node, State how, Ended& ended);
    void settle_locked(Ended& ended);   // tells the children of the tasks in `ending_`
    void open_sections_locked();

    [[nodiscard]] bool fits_locked(const Task::Node& node) const noexcept;
    [[nodiscard]] bool must_hold_back_locked(const Task::Node& node) const noexcept;
    [[nodiscard]] std::size_t takeable_locked() const noexcept;
    [[nodiscard]] NodePtr take_locked();
    void run(NodePtr node, std::unique_lock<std::mutex>& lock);
    void summon_locked();
    [[nodiscard]] bool called_by_task_locked() const noexcept;

    const std::uint64_t budget_bytes_;
    std::mutex mutex_;
    std::condition_variable ended_;   // an awaited task has ended, or a waiting thread may run a task

    // Each task that has not ended is in one of these lists. `held_back_` waits for the byte budget.
    Nodes waiting_, scheduled_, held_back_, running_;
    Nodes ending_;                   // ended, with children not told yet; empty while the lock is free
    std::deque<Section> sections_;   // the tasks between two barriers each; oldest first; the last one gets new tasks
    std::uint64_t running_bytes_ = 0;
    std::size_t charged_ = 0;   // running tasks with bytes
    std::size_t unfinished_ = 0;
    std::size_t waiters_ = 0, all_waiters_ = 0;   // threads in `wait`; threads that wait for all tasks
    ThreadCrew crew_;   // the last member: its destructor waits for threads, which use the others
};

}   // namespace forebay::task
