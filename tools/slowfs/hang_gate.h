// Where operations that hang wait. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace forebay::slowfs {

enum class HangEnd : std::uint8_t { kReleased, kTimedOut, kInterrupted, kStopped };

class HangGate {
  public:
    // Blocks until released, stopped, `ns_max` is over (0: no end), or `interrupted()` says so, which is asked every
    // 20 ms, without a lock held.
    HangEnd wait(std::int64_t ns_max, const std::function<bool()>& interrupted);

    // Lets all go that wait now.
    void release();
    // Lets all go, for good: from now on nobody waits.
    void stop();

    [[nodiscard]] std::size_t waiting() const;

  private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::uint64_t releases_ = 0;
    std::size_t waiting_ = 0;
    bool stopped_ = false;
};

}   // namespace forebay::slowfs
