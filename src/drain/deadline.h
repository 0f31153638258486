// Tells whether the staged bytes still drain before the job ends (option deadline). The speed is the rate of this
// process's target writes while at least one is in flight; the last half minute counts most. The deadline presses once
// the staged bytes need more than half of the time left, and from then on. The other half allows for surprises. Without
// a measurement only the last minute presses. Callers pass the monotonic time in ns. Thread-safe. Nothing blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>

namespace forebay::drain {

class Deadline {
  public:
    static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
    explicit Deadline(std::uint64_t end_ns) noexcept : end_ns_(end_ns) {}

    [[nodiscard]] bool known() const noexcept { return end_ns_ != kNever; }
    // A write of `bytes` to a target was in flight from `begin_ns` to `end_ns`.
    void wrote(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint64_t bytes) noexcept;
    // Returns true once: when the deadline begins to press.
    [[nodiscard]] bool begins_to_press(std::uint64_t now_ns, std::uint64_t pending_bytes) noexcept;
    [[nodiscard]] bool presses() const noexcept { return presses_.load(std::memory_order_relaxed); }
    // The bytes that may be staged if they are to drain in half of the time left.
    [[nodiscard]] std::uint64_t allowance_bytes(std::uint64_t now_ns) const noexcept;
    [[nodiscard]] std::string warning(std::uint64_t now_ns, std::uint64_t pending_bytes) const;

  private:
    [[nodiscard]] double bytes_per_ns() const noexcept;   // 0: not measured
    [[nodiscard]] std::uint64_t left_ns(std::uint64_t now_ns) const noexcept {
        return now_ns < end_ns_ ? end_ns_ - now_ns : 0;
    }

    const std::uint64_t end_ns_;
    std::atomic<bool> presses_{false};
    mutable std::mutex mutex_;   // guards the members below
    std::uint64_t bytes_ = 0, busy_ns_ = 0, busy_until_ns_ = 0;
};

}   // namespace forebay::drain
