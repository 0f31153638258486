// Bounded waits for a target (option patience). A call waits for a slow target as long as bytes reach it. The call
// gives up a target that no byte reaches for the time in the option. A waiting thread also asks for another drain
// thread after a moment, so that files of one hung target do not block the others.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/options.h"
#include "drain/scheduler.h"

namespace forebay::drain {

// The time of the last write or change of size that reached any target of this process. Thread-safe.
class Progress {
  public:
    explicit Progress(std::shared_ptr<WaitClock> clock) noexcept : clock_(std::move(clock)) {}
    void note() noexcept { last_ns_.store(clock_->now_ns(), std::memory_order_relaxed); }
    [[nodiscard]] WaitClock& clock() const noexcept { return *clock_; }
    [[nodiscard]] std::uint64_t last_ns() const noexcept { return last_ns_.load(std::memory_order_relaxed); }

  private:
    const std::shared_ptr<WaitClock> clock_;
    std::atomic<std::uint64_t> last_ns_{0};
};

// The parts that the outflows of a process share.
struct DrainContext {
    const Options& options;
    Scheduler& scheduler;
    Progress& progress;
};

class Wait {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;
    explicit Wait(const DrainContext& context) noexcept;

    // Returns true if no target was reached for the time in option patience, since the wait began. After a moment it
    // asks for one more drain thread, and again while no target is reached, because that thread may hang as well.
    [[nodiscard]] bool over();
    // `over` for one target, last reached at `progress_ns`.
    [[nodiscard]] bool over(std::uint64_t progress_ns);
    // The time of the next call of `over`, if no event wakes the thread before; `max`: never.
    [[nodiscard]] TimePoint until() const noexcept;

  private:
    DrainContext context_;
    const std::uint64_t patience_ns_;   // 0: without end
    std::uint64_t since_ns_;            // the begin, or the last progress
    std::uint64_t assist_at_ns_;        // 0: no work waits for a thread
    bool assisted_ = false;
};

[[nodiscard]] std::uint64_t patience_ns(const Options& options) noexcept;

}   // namespace forebay::drain
