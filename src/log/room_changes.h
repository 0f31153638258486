// Wakes the threads that wait for room in the staging area of a process. A change is a segment that came back or was
// made ahead, or an event that may have made room in some file. A thread reads `count`, looks for room, and then waits
// for a later change, so it misses none. Not thread-safe: the pool's lock guards it; a wait drops that lock.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace forebay::log {

class RoomChanges {
  public:
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    void announce() noexcept {
        ++count_;
        changed_.notify_all();
    }
    // A warmed segment can be taken again. It counted as free, so `count` stays, but a taker may wait for it.
    void announce_warmed() noexcept { changed_.notify_all(); }

    // Blocks until `over`, which it asks with the lock.
    template <class Over>
    void await(std::unique_lock<std::mutex>& lock, Over&& over) {
        changed_.wait(lock, over);
    }
    // Blocks until a change since `seen`, or until `until`.
    void await_after(std::unique_lock<std::mutex>& lock, std::uint64_t seen,
                     std::chrono::steady_clock::time_point until) {
        const auto changed = [&] { return count_ != seen; };
        if (until == std::chrono::steady_clock::time_point::max()) changed_.wait(lock, changed);
        else (void)changed_.wait_until(lock, until, changed);
    }

  private:
    std::condition_variable changed_;
    std::uint64_t count_ = 0;
};

}   // namespace forebay::log
