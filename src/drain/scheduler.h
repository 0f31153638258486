// The drain threads of a process, which take work from files in turn. Several writes are in flight at a time, of one
// file or many, one for each thread. Threads start with the first `wake` and sleep on a condition variable without
// work. A source plans its writes when it gives out work, so a plan includes the bytes that have arrived until then.
// `wake` queues a source, once at most, as a task of the task engine. The task takes one work from the source. If the
// source has more, the task queues it again before the work runs, so that other threads join. A source without work
// leaves the queue, and calls `wake` when it has some. Thread-safe. Only `stop` and the destructor block, and
// `carry_out` if no thread can be started.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "task/engine.h"

namespace forebay::drain {

// One unit of work, carried out without any lock of the scheduler.
class Work {
  public:
    virtual ~Work() = default;
    virtual void run() noexcept = 0;
};

class WorkSource {
  public:
    virtual ~WorkSource() = default;
    struct Taken {
        std::unique_ptr<Work> work;   // null: no work now
        bool more = false;            // another thread would find work too
        explicit operator bool() const noexcept { return work != nullptr; }
    };
    // The next work. Drain threads call it.
    virtual Taken take() = 0;

  private:
    friend class Scheduler;
    std::atomic<bool> queued_{false};
};

class Scheduler {
  public:
    explicit Scheduler(std::size_t threads);
    // Waits for the writes in flight; the sources keep the rest.
    ~Scheduler() = default;
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;

    // Queues `source` unless it is queued. Returns false without a thread or memory; the caller then drains by itself.
    bool wake(const std::shared_ptr<WorkSource>& source);

    // Gives the work to a thread and returns at once. Without a thread it runs the work itself.
    void carry_out(std::unique_ptr<Work> work);

    // Adds a thread if work waits while every thread hangs in a write (task::Engine::assist).
    bool assist() { return engine_.assist(); }
    // Raises the limit of threads to `threads`, if that is more.
    void allow(std::size_t threads) { engine_.allow(threads); }
    // Begins no more work. Returns false if some still runs at `until` (task::Engine::stop).
    [[nodiscard]] bool stop(std::chrono::steady_clock::time_point until) { return engine_.stop(until); }

    // Abandons the threads in a forked child, where they do not exist.
    void forget_threads() noexcept { engine_.forget_threads(); }

  private:
    void serve(const std::shared_ptr<WorkSource>& source);

    task::Engine engine_;
};

}   // namespace forebay::drain
