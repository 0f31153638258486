// Where operations that hang wait. Thread-safe.
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
    // How many releases there were. Who may have to wait asks before it looks at the rules: a release that comes
    // between the rule and the wait counts.
    [[nodiscard]] std::uint64_t releases() const noexcept { return releases_.load(); }

    // Blocks until there were more than `seen` releases, until stopped, until `ns_max` is over (0: no end), or until
    // `interrupted()` says so, which is asked every 20 ms, without a lock held.
    HangEnd wait(std::uint64_t seen, std::int64_t ns_max, const std::function<bool()>& interrupted);

    // Lets all go that wait now.
    void release();
    // Lets all go, for good: from now on nobody waits.
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
