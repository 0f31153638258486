// Waiting for a target, with an end to it: option patience.
//
// A slow target that takes something now and then is waited for; one that takes nothing for as long as the option says
// is given up by the call that waits. Whoever has waited for a moment also sees to it that the files of one target that
// hangs do not keep all drain threads from the others.
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

// When something has last reached a target of this process: a write, or a change of its size. Thread-safe.
class Progress {
  public:
    explicit Progress(std::shared_ptr<WaitClock> clock) noexcept : clock_(std::move(clock)) {}
    void note() noexcept { last_ns_.store(clock_->now_ns(), std::memory_order_relaxed); }
    // All waiting times are measured by this clock.
    [[nodiscard]] WaitClock& clock() const noexcept { return *clock_; }
    [[nodiscard]] std::uint64_t last_ns() const noexcept { return last_ns_.load(std::memory_order_relaxed); }

  private:
    const std::shared_ptr<WaitClock> clock_;
    std::atomic<std::uint64_t> last_ns_{0};
};

// What the outflows of a process have in common.
struct Process {
    const Options& options;
    Scheduler& scheduler;
    Progress& progress;
};

class Wait {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;
    explicit Wait(const Process& process) noexcept;

    // Nothing has reached any target for so long, since the wait began. Asks for a thread more once it has lasted for a
    // while, and again each time that nothing has reached any target since: that thread may have got stuck as well.
    [[nodiscard]] bool over();
    // As `over()`, but for one target that was last reached at `progress_ns`.
    [[nodiscard]] bool over(std::uint64_t progress_ns);
    // When to ask again, if nobody wakes the waiting thread before; `max`: never.
    [[nodiscard]] TimePoint until() const noexcept;

  private:
    Process process_;
    const std::uint64_t patience_ns_;   // 0: without end
    std::uint64_t since_ns_;            // nothing has come
    std::uint64_t assist_at_ns_;        // 0: nothing waits for a thread
    bool assisted_ = false;
};

// Option patience, in ns.
[[nodiscard]] std::uint64_t patience_ns(const Options& options) noexcept;

}   // namespace forebay::drain
