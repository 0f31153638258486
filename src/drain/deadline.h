// Whether what is staged still drains before the job ends (option deadline).
//
// The speed is that of this process's writes to its targets, over the time in which at least one was under way. The
// last half minute of that time counts most. Once what is staged needs more than half of the time that is left, the
// end presses, and does so from then on: the other half is for what nobody can foresee. Before anything was measured
// only the last minute presses.
//
// Pure: whoever asks says what time it is (monotonic, in ns). Thread-safe. Nothing blocks.
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
    // A write to a target was under way in this time.
    void wrote(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint64_t bytes) noexcept;
    // So much is staged now. True, once: the end begins to press.
    [[nodiscard]] bool begins_to_press(std::uint64_t now_ns, std::uint64_t pending_bytes) noexcept;
    [[nodiscard]] bool presses() const noexcept { return presses_.load(std::memory_order_relaxed); }
    // So much may be staged now to be drained in half of the time that is left.
    [[nodiscard]] std::uint64_t allowance_bytes(std::uint64_t now_ns) const noexcept;
    // For the user, at the time at which it begins to press.
    [[nodiscard]] std::string warning(std::uint64_t now_ns, std::uint64_t pending_bytes) const;

  private:
    [[nodiscard]] double bytes_per_ns() const noexcept;   // 0: not measured
    [[nodiscard]] std::uint64_t left_ns(std::uint64_t now_ns) const noexcept {
        return now_ns < end_ns_ ? end_ns_ - now_ns : 0;
    }

    const std::uint64_t end_ns_;
    std::atomic<bool> presses_{false};
    mutable std::mutex mutex_;   // guards what follows
    std::uint64_t bytes_ = 0, busy_ns_ = 0, busy_until_ns_ = 0;
};

}   // namespace forebay::drain
