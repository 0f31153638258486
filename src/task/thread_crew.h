// The threads of an engine. The crew starts threads, wakes them for tasks, and ends idle ones. It does not know the
// tasks: the engine says how many of them a thread could begin now.
// Each thread runs the engine's function `serve`, which looks for a task, runs it, and looks again. If there is no
// task, the thread sleeps until a summons:
//
//   looking -- begin_task --> in a task -- end_task --> looking -- await_summons --> asleep -- summon --> looking
//
//   1. A new thread counts as looking from its start, and a sleeping one from its summons. So one thread looks for each
//      task that may begin, and the crew summons no second one for it.
//   2. The crew wakes a sleeping thread before it starts a new one, and starts none beyond its limit.
//   3. A thread that sleeps for `idle_max` ends. The next start of a thread, or the destructor, joins it.
//   4. After `stop` no thread starts, and a thread ends where it would sleep.
//
// Ownership: the engine owns the crew, and stops it before it destroys it. Thread-safety: the engine's lock guards the
// crew. Callers hold that lock, but not during construction and destruction. Blocking: `await_summons` drops the lock
// and waits for a summons. The destructor waits until all threads have ended.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "task/engine.h"

namespace forebay::task {

class ThreadCrew {
  public:
    ThreadCrew(Limits limits, std::function<void()> serve);
    ~ThreadCrew();

    [[nodiscard]] bool empty() const noexcept { return threads_.empty(); }
    [[nodiscard]] bool stopping() const noexcept { return stopping_; }

    // Wakes or starts threads until one looks for each of the `tasks` that may begin, or no more can start.
    void summon(std::size_t tasks);
    // Raises the limit by one and summons, if only the limit keeps a thread from looking for each of `tasks`.
    void assist(std::size_t tasks);
    // Raises the limit to `threads`, if that is more.
    void allow(std::size_t threads) noexcept { threads_max_ = std::max(threads_max_, threads); }
    void stop() noexcept;

    // ---- for threads of the crew ----
    // The calling thread has found a task, and `tasks` others may begin.
    void begin_task(std::size_t tasks) {
        --looking_;
        summon(tasks);
    }
    void end_task() noexcept { ++looking_; }
    // The calling thread has found no task. Returns true once it is summoned; false if it must return from `serve`.
    [[nodiscard]] bool await_summons(std::unique_lock<std::mutex>& lock);

  private:
    bool start_thread();

    std::size_t threads_max_;
    const std::chrono::milliseconds idle_max_;
    const StartThread start_thread_;
    const std::function<void()> serve_;

    std::condition_variable ready_;   // a summons was given, or the crew stops
    bool stopping_ = false;
    std::size_t asleep_ = 0;      // threads without a summons
    std::size_t summonses_ = 0;   // given, and not yet followed
    std::size_t looking_ = 0;     // threads that will look for a task before they sleep
    std::vector<std::jthread> threads_;
    std::vector<std::jthread> left_;   // threads that have ended or are about to
};

}   // namespace forebay::task
