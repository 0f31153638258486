// The drain threads of a process: they take target writes from the files that have some, in turn.
//
// Several writes of one file, and of several files, are in flight at a time, one per thread. Threads
// start with the first `wake` and sleep on a condition variable when there is nothing to do: an idle
// file costs no CPU. What arrives while writes are in flight is what the next plan merges; nothing is
// delayed and nothing is polled.
//
// A source is in one of two states: queued (at most once) or not. `wake` queues it, which is a task of the
// task engine; the task takes it from the queue, asks it for one write, and queues it again, if there are
// more, before it carries the write out, so that the other threads may join in. A source without a write
// at that moment leaves the queue; it must call `wake` when that changes.
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

class Source {
  public:
    virtual ~Source() = default;
    struct Taken {
        std::unique_ptr<Work> work;   // null: there is nothing to do now
        bool more = false;            // another thread would find work as well
        explicit operator bool() const noexcept { return work != nullptr; }
    };
    // The next write to carry out. Called from drain threads.
    virtual Taken take() = 0;

  private:
    friend class Scheduler;
    std::atomic<bool> queued_{false};
};

class Scheduler {
  public:
    explicit Scheduler(std::size_t threads);
    // Stops after the writes in flight; what is queued is left to the sources.
    ~Scheduler() = default;
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;

    // Queues `source` unless it is queued already. Returns false if no thread could be had, ever, or no
    // memory: the caller then has to drain by itself (StagedFile does so when it needs room, and at close).
    bool wake(const std::shared_ptr<Source>& source);

    // Has a thread carry the work out or, if there is none to be had, does it in this one. Returns at once otherwise.
    void carry_out(std::unique_ptr<Work> work);

    // Work waits, and every thread is in a write that does not return: one thread more (task::Engine::assist).
    bool assist() { return engine_.assist(); }
    // Threads may be so many from now on, if fewer were said.
    void allow(std::size_t threads) { engine_.allow(threads); }
    // No work begins any more. False: at `until` some is still being carried out (task::Engine::stop).
    [[nodiscard]] bool stop(std::chrono::steady_clock::time_point until) { return engine_.stop(until); }

    // Forgets the threads without joining them: for a forked child, where they do not exist.
    void forget_threads() noexcept { engine_.forget_threads(); }

  private:
    void serve(const std::shared_ptr<Source>& source);

    task::Engine engine_;
};

}   // namespace forebay::drain
