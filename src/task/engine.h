// Runs tasks in the background, each after its parents, in as many threads as there is work for.
//
// After the Asynchronous Execution Engine (AXE) of the Exascale FastForward stack, as section III-C of
// "Compactor: Optimization Framework at Staging I/O nodes" describes it: tasks and their parents form a
// directed acyclic graph, barrier tasks cut it in two, and a pool of threads runs what may run.
//
// Order. A task begins after
//   all of its `parents` are done, and
//   one of its `sufficient_parents`, if it has any, is done, and
//   every barrier task submitted before it has ended.
// A barrier task begins after every task submitted before it has ended. What may begin does so in the order
// in which it became free to, byte budgets aside. Ended means done or canceled. A task that failed is done:
// its children run, and see its status through their own copies of its handle. Parents exist before their
// children, so there are no cycles.
//
// Cancel. A task that has not begun can be canceled; it then never runs. Its condition can then not come
// true for others, which are canceled with it: every task that names it among `parents`, and every task
// whose `sufficient_parents` are now all canceled; and so on through their children. Barriers only order:
// a canceled task counts as ended before the next barrier; a canceled barrier task does not run, but
// what comes after it still waits for all that came before it.
//
// Byte budget. Tasks may carry a number of bytes. Those that run at a time carry `budget_bytes` at most
// together; a task that alone carries more runs when no other task with bytes does. Among tasks with
// bytes none overtakes one that does not fit, so each gets its turn. Tasks without bytes pass them by.
//
// States and their invariants
//
//   waiting ---> scheduled ---> running ---> done
//      |             |
//      +-------------+---> canceled
//
//   1. A task is in one state, and goes only along the arrows. waiting: a parent or a barrier is missing;
//      scheduled: only a thread or the budget is.
//   2. The tasks between two barriers are a section. Tasks are scheduled or running in the oldest section
//      only, and its barrier task only when no other task of it is left. What has ended is counted nowhere.
//   3. running bytes <= budget_bytes, or exactly one task with bytes runs.
//   4. If a task may begin, then a thread is about to look for it, or as many threads run tasks as there
//      may be, or no further thread could be had. A thread that ends a task looks for another.
//   5. The engine holds a task only until it ends; ended tasks live as long as their handles. A task is done
//      after its function, with all it holds, was destroyed; a canceled task's is destroyed right after.
//
// Threads start when there is more to do than threads to do it, and sleep on a condition variable
// otherwise, until they have been idle for `idle_max`: an idle engine costs no CPU, nothing is polled. If not one
// thread can be had, `submit` says so, and whoever waits runs the tasks, with the same order and budget.
//
// Thread-safe, but for construction, destruction and forget_threads. Locks are held for bookkeeping only,
// never while a task's function is called or destroyed.
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

// A handle of a task: copies mean the same task. May outlive the engine. Never blocks.
class Task {
  public:
    struct Node;

    Task() noexcept = default;   // of no task
    explicit Task(std::shared_ptr<Node> node) noexcept : node_(std::move(node)) {}
    explicit operator bool() const noexcept { return node_ != nullptr; }
    friend bool operator==(const Task&, const Task&) = default;

    // Not for a handle of no task. What happened before a task ended is visible to whoever sees it ended.
    [[nodiscard]] State state() const noexcept;
    // What the function returned; kUnavailable if it was canceled or has not ended.
    [[nodiscard]] Status status() const;

  private:
    friend class Engine;
    std::shared_ptr<Node> node_;
};

// What to run, and when. The engine copies the lists of parents.
struct Request {
    // An exception that leaves it is the task's status (kUnavailable for want of memory, else kInternal).
    std::function<Status()> run;
    std::uint64_t bytes = 0;
    std::span<const Task> parents = {};              // all of them are necessary
    std::span<const Task> sufficient_parents = {};   // one of them is enough
    bool barrier = false;
};

struct Submitted {
    Task task;       // of no task if it was refused
    Status status;   // why it was refused: kInvalidArgument: no function, or a parent that is no task of this engine;
                     // kUnavailable: the engine's threads were forgotten
    bool has_thread = false;   // false: the engine has not got one thread; the task runs when somebody waits
};

// Starts a thread that calls `serve`, or throws std::system_error.
using StartThread = std::function<std::jthread(std::function<void()> serve)>;

struct Limits {
    std::size_t threads_max = 1;   // 0 is taken as 1
    std::uint64_t budget_bytes = std::numeric_limits<std::uint64_t>::max();
    StartThread start_thread = {};                                           // empty: a plain thread. Tests let it fail
    std::chrono::milliseconds idle_max = std::chrono::milliseconds::max();   // a thread without work ends after that
};

class Engine {
  public:
    explicit Engine(Limits limits);
    // Cancels what has not begun and waits for what runs. Not from one of its tasks, nor while another
    // thread is in a call of this engine; tasks that run may still submit: what they submit is canceled.
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // Never waits for a task. A task whose necessary parent was canceled already is canceled at once.
    // May throw std::bad_alloc, and has then submitted nothing.
    Submitted submit(Request request);

    // True if the task will not run: it is canceled now, or was before. False if it runs or is done.
    bool cancel(const Task& task);

    // Blocks until the task has ended; returns its status. kInvalidArgument if it is no task of this engine,
    // or if the caller is itself a task of this engine and the awaited one has not ended: a task that needs
    // another one names it as a parent.
    Status wait(const Task& task);
    // Blocks until no task is left, those submitted meanwhile included. Errors as above; the tasks' own
    // statuses are not told.
    Status wait_all();

    // Tasks could begin, and no thread comes to them, since all run tasks that may never end: one thread more than
    // the limit said, if it can be had. False: none waits for a thread.
    bool assist();

    // Threads may be so many from now on, if the limit said less.
    void allow(std::size_t threads);

    // Cancels what has not begun, and what becomes free to, and waits until nothing runs. False: at `until` something
    // still does; then the engine must not be destroyed, nor anything that its tasks use.
    [[nodiscard]] bool stop(std::chrono::steady_clock::time_point until);

    // In a child after fork(2), where the threads do not exist and locks may be taken for ever: lets go of
    // everything without touching it. The memory is not freed, inherited tasks never end, and the engine
    // refuses every call from then on; its destructor does nothing.
    void forget_threads() noexcept;

  private:
    friend struct Task::Node;
    class Core;
    struct Ended;
    std::unique_ptr<Core> core_;   // null: forgotten
};

}   // namespace forebay::task
