// How many writes to one target are worth having in flight.
//
// Latency wants several; a page cache, or a file system that lets one writer at a time extend a file,
// gains nothing from a second one, which only spins for the lock and takes the program's processors. So
// it is tried out: the number doubles as long as that raises the rate by a tenth; a trial that does not
// is taken back, and repeated later, in case the target has changed.
//
// Where it drains for several processes, each of them would have had a write in flight without it. A file system may
// limit each writer; so as many are begun with, if the target is one that is waited for. Pure. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace forebay::drain {

class Concurrency {
  public:
    explicit Concurrency(std::size_t limit) noexcept : limit_(std::max<std::size_t>(1, limit)) {}

    [[nodiscard]] std::size_t allowed() const noexcept { return allowed_; }

    // It drains for so many processes: the limit is no lower.
    void drain_for(std::size_t processes, bool target_is_waited_for) noexcept {
        limit_ = std::max(limit_, processes);
        if (!target_is_waited_for) return;
        allowed_ = std::max(allowed_, processes);
        forget_trial();
    }
    // The target turns out to be memory: one is tried first again.
    void start_over() noexcept {
        allowed_ = 1;
        forget_trial();
    }

    // A write of `bytes` has ended; since the last call, or since the target was idle, `busy_ns` have passed.
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
    static constexpr std::size_t kRest = 32;   // measurements between two trials that failed
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
