// The place where hanging operations wait. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>

namespace forebay::slowfs {

enum class HangEnd : std::uint8_t { kReleased, kTimedOut, kInterrupted, kStopped };

class HangGate {
  public:
    // The number of releases so far. Read it before the rules: then a release between the rule and the wait counts.
    [[nodiscard]] std::uint64_t releases() const noexcept { return releases_.load(); }

    // Blocks until there were more than `seen` releases, `stop`, `ns_max` is over (0: no limit), or `interrupted()`,
    // called every 20 ms without a lock, returns true.
    HangEnd wait(std::uint64_t seen, std::int64_t ns_max, const std::function<bool()>& interrupted);

    void release();
    // Also ends later waits at once.
    void stop();

    [[nodiscard]] std::size_t waiting() const;

  private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<std::uint64_t> releases_{0};   // changed with the lock held
    std::size_t waiting_ = 0;
    bool stopped_ = false;
};

}   // namespace forebay::slowfs
