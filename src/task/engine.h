// Runs tasks in the background, each after its parents, in a bounded number of threads. Tasks and their parents form a
// directed acyclic graph. Source: the Asynchronous Execution Engine (AXE) of the Exascale FastForward stack, in section
// III-C of "Compactor: Optimization Framework at Staging I/O nodes".
// Order. A task begins after all of its `parents` are done, one of its `sufficient_parents`, if it has any, is done,
// and every barrier task submitted before it has ended. A barrier task begins after every task submitted before it has
// ended. Tasks that may begin do so in the order in which they became free to, byte budgets aside. Ended means done or
// canceled. A failed task is done: its children run, and read its status through their handles.
// Cancel. A canceled task has not begun and never runs. Canceling it also cancels tasks whose condition can no longer
// come true: those that name it among `parents`, those whose `sufficient_parents` are all canceled, and their children.
// A barrier counts a canceled task as ended. A canceled barrier task still orders the tasks before and after it.
// Byte budget. Running tasks together carry at most `budget_bytes`. A task that carries more runs while no other task
// with bytes does. No task with bytes overtakes one that does not fit; tasks without bytes do.
//
//   waiting ---> scheduled ---> running ---> done
//      |             |
//      +-------------+---> canceled
//
//   1. A task changes its state along the arrows only. A waiting task lacks a parent or a barrier; a scheduled one
//      lacks only a thread or the budget.
//   2. The tasks between two barriers are a section. Only tasks of the oldest section are scheduled or running, and its
//      barrier task only once the others have ended.
//   3. If a task may begin, then a thread is about to look for it, or the most threads allowed run tasks, or no
//      further thread could be started.
//   4. The engine holds a task until it ends. The engine destroys the function before a task is done, and right after
//      a task is canceled. Handles keep the rest.
//
// Threads. The engine starts a thread when more tasks may begin than threads are free. A thread without work sleeps on
// a condition variable and ends after `idle_max`. If no thread can be started, `submit` reports that, and the callers
// of `wait` run the tasks, with the same order and budget. Thread-safe, except construction, destruction and
// forget_threads. No lock is held while a task's function is called or destroyed.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <thread>

#include "base/status.h"

namespace forebay::task {

enum class State : std::uint8_t { kWaiting, kScheduled, kRunning, kDone, kCanceled };

[[nodiscard]] constexpr bool has_ended(State state) noexcept {
    return state == State::kDone || state == State::kCanceled;
}

// A handle of a task. Copies mean the same task. It may outlive the engine. Never blocks.
class Task {
  public:
    struct Node;

    Task() noexcept = default;   // an empty handle
    explicit Task(std::shared_ptr<Node> node) noexcept : node_(std::move(node)) {}
    explicit operator bool() const noexcept { return node_ != nullptr; }
    friend bool operator==(const Task&, const Task&) = default;

    // Not for an empty handle. A thread that sees the task ended sees all that happened before.
    [[nodiscard]] State state() const noexcept;
    // The function's result; kUnavailable if the task was canceled or has not ended.
    [[nodiscard]] Status status() const;

  private:
    friend class Engine;
    std::shared_ptr<Node> node_;
};

// The engine copies the lists of parents.
struct Request {
    // An exception becomes the task's status: kUnavailable for std::bad_alloc, else kInternal.
    std::function<Status()> run;
    std::uint64_t bytes = 0;
    std::span<const Task> parents = {};
    std::span<const Task> sufficient_parents = {};
    bool barrier = false;
};

struct Submitted {
    Task task;                 // empty if the engine refused it
    Status status;             // kInvalidArgument: no function, or a parent of another engine
                               // kUnavailable: after forget_threads
    bool has_thread = false;   // false: there is no thread, and the task runs in the next `wait`
};

// Starts a thread that calls `serve`, or throws std::system_error.
using StartThread = std::function<std::jthread(std::function<void()> serve)>;

struct Limits {
    std::size_t threads_max = 1;   // 0 counts as 1
    std::uint64_t budget_bytes = std::numeric_limits<std::uint64_t>::max();
    StartThread start_thread = {};                                           // empty: a plain thread; tests let it fail
    std::chrono::milliseconds idle_max = std::chrono::milliseconds::max();   // an idle thread ends after that
};

class Engine {
  public:
    explicit Engine(Limits limits);
    // Cancels tasks that have not begun and waits for those that run. Not from a task, nor during another call of this
    // engine, except that running tasks may submit; the engine cancels what they submit.
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Never waits for a task. Cancels it at once if a necessary parent was canceled. std::bad_alloc: not submitted.
    Submitted submit(Request request);

    // Returns true if the task is canceled, now or before; false if it runs or is done.
    bool cancel(const Task& task);

    // Blocks until the task has ended; returns its status. kInvalidArgument: the task is not of this engine, or the
    // caller is a task of this engine and the awaited one has not ended. Name it as a parent instead.
    Status wait(const Task& task);
    // Blocks until no task is left, later ones included. Errors as in `wait`; the tasks' statuses are not returned.
    Status wait_all();

    // Adds a thread beyond the limit if tasks could begin while all threads run tasks, maybe for ever.
    bool assist();

    // Raises the limit of threads to `threads`, if that is more.
    void allow(std::size_t threads);

    // Cancels tasks that have not begun and waits until none runs. Returns false if one still runs at `until`; then
    // neither the engine nor data of its tasks may be destroyed.
    [[nodiscard]] bool stop(std::chrono::steady_clock::time_point until);

    // For a child after fork(2), where the threads do not exist and locks may be held for ever. Leaks the state
    // untouched. Inherited tasks never end, the engine refuses later calls, and its destructor does nothing.
    void forget_threads() noexcept;

  private:
    friend struct Task::Node;
    class Core;
    struct Ended;
    std::unique_ptr<Core> core_;   // null after forget_threads
};

}   // namespace forebay::task
