// The number of writes to have in flight to one target. A target with latency gains from several. A page cache, or a
// file system on which one writer at a time extends a file, does not: a second writer spins for the lock and takes
// processor time. So the number doubles while that raises the rate by a tenth. A failed trial is undone, and repeated
// later. A drainer of several processes replaces a writer in each of them, and a file system may limit each writer. So
// it begins with one write for each process, if the target answers slowly. Pure. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace forebay::drain {

class Concurrency {
  public:
    explicit Concurrency(std::size_t limit) noexcept : limit_(std::max<std::size_t>(1, limit)) {}

    [[nodiscard]] std::size_t allowed() const noexcept { return allowed_; }

    // Raises the limit to `processes`, if that is more.
    void drain_for(std::size_t processes, bool target_is_waited_for) noexcept {
        limit_ = std::max(limit_, processes);
        if (!target_is_waited_for) return;
        allowed_ = std::max(allowed_, processes);
        forget_trial();
    }
    // Begins again with one write: the target has turned out to be memory.
    void start_over() noexcept {
        allowed_ = 1;
        forget_trial();
    }

    // A write of `bytes` has ended. `busy_ns` is the time since the last call, or since the target was idle.
    void completed(std::uint64_t bytes, std::uint64_t busy_ns) noexcept {
        bytes_ += bytes;
        busy_ns_ += busy_ns;
        if (++writes_ < kWritesPerTrial * allowed_) return;
        const double rate = static_cast<double>(bytes_) / static_cast<double>(std::max<std::uint64_t>(busy_ns_, 1));
        bytes_ = busy_ns_ = 0;
        writes_ = 0;
        judge(rate);
    }

  private:
    static constexpr std::size_t kWritesPerTrial = 4;
    static constexpr std::size_t kRest = 32;   // measurements after a failed trial, before the next
    static constexpr double kGain = 1.1;

    void forget_trial() noexcept {
        trying_ = false;
        settled_rate_ = 0;
        rest_ = writes_ = 0;
        bytes_ = busy_ns_ = 0;
    }

    void judge(double rate) noexcept {
        if (trying_ && rate < kGain * settled_rate_) {
            allowed_ /= 2;
            trying_ = false;
            rest_ = kRest;
            return;
        }
        settled_rate_ = rate;
        trying_ = false;
        if (rest_ > 0) --rest_;
        else if (allowed_ * 2 <= limit_) {
            allowed_ *= 2;
            trying_ = true;
        }
    }

    std::size_t limit_;
    std::size_t allowed_ = 1;
    bool trying_ = false;
    double settled_rate_ = 0;   // bytes per nanosecond, before the trial
    std::size_t rest_ = 0;
    std::size_t writes_ = 0;
    std::uint64_t bytes_ = 0, busy_ns_ = 0;
};

}   // namespace forebay::drain
