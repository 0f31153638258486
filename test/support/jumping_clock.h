// A clock for waits that end only by their time limit. It stands still, but a thread that is about to sleep moves it to
// the end of its sleep, if the test allows that. The thread reads it again after a millisecond.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>

#include "base/clock.h"

namespace forebay::test {

// Thread-safe.
class JumpingClock final : public WaitClock {
  public:
    // Each thread that is about to sleep calls `may_jump`. Without that function every sleep of at most `jump_max`
    // moves the clock.
    explicit JumpingClock(std::function<bool()> may_jump = {},
                          std::chrono::nanoseconds jump_max = std::chrono::nanoseconds::max())
        : may_jump_(std::move(may_jump)), jump_max_ns_(static_cast<std::uint64_t>(jump_max.count())) {}

    [[nodiscard]] std::uint64_t now_ns() noexcept override {
        ++looks_;
        return now_ns_;
    }
    [[nodiscard]] std::chrono::steady_clock::time_point wake_at(std::uint64_t at_ns) noexcept override {
        std::uint64_t now_ns = now_ns_;
        if (at_ns - std::min(at_ns, now_ns) <= jump_max_ns_ && (!may_jump_ || may_jump_()))
            while (now_ns < at_ns && !now_ns_.compare_exchange_weak(now_ns, at_ns)) {
            }
        return std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    }
    void advance(std::chrono::nanoseconds by) { now_ns_ += static_cast<std::uint64_t>(by.count()); }
    // The time since the construction.
    [[nodiscard]] std::chrono::nanoseconds passed() const { return std::chrono::nanoseconds(now_ns_ - begin_ns_); }
    // The number of times that the engine has read the clock.
    [[nodiscard]] std::uint64_t looks() const { return looks_; }
    // Blocks until the engine has read the clock more than `looks` times. Returns false after a minute.
    [[nodiscard]] bool await_look(std::uint64_t looks) const {
        for (int i = 0; i < 60'000 && looks_ <= looks; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return looks_ > looks;
    }

  private:
    const std::function<bool()> may_jump_;
    const std::uint64_t jump_max_ns_;
    const std::uint64_t begin_ns_ = monotonic_ns();
    std::atomic<std::uint64_t> now_ns_{begin_ns_}, looks_{0};
};

}   // namespace forebay::test
