// The time to wait for a peer, and when to ask it again after it was late.
// Vain waits may cost the time that answers have saved, and once a small sum. So all questions together take no longer
// than reading the file. After each late answer twice as many questions skip the peer. While it still reads its bytes,
// only savings are spent on waiting. Pure; not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace forebay::cache {

// The mean cost of the program's own requests to the file.
class SourcePace {
  public:
    void note(std::uint64_t bytes, std::uint64_t took_ns) noexcept {
        took_ns = std::min(took_ns, kCostMaxNs);
        mean_ns_ = mean_bytes_ == 0 ? took_ns : mean_ns_ - mean_ns_ / kWeight + took_ns / kWeight;
        mean_bytes_ = mean_bytes_ == 0 ? bytes : mean_bytes_ - mean_bytes_ / kWeight + bytes / kWeight;
    }
    // Grows with bytes above the mean; smaller requests cost as much as the mean. 0: nothing was timed.
    [[nodiscard]] std::uint64_t cost_ns(std::uint64_t bytes) const noexcept {
        if (mean_bytes_ == 0) return 0;
        const std::uint64_t times = std::max(bytes, mean_bytes_) * 16 / mean_bytes_;
        return std::min(mean_ns_ * times / 16, kCostMaxNs);
    }

  private:
    static constexpr std::uint64_t kWeight = 8, kCostMaxNs = 200'000'000;
    std::uint64_t mean_ns_ = 0, mean_bytes_ = 0;
};

class PeerPatience {
  public:
    // The longest time for an answer that saves `cost_ns`; 0: do not ask the peer now.
    [[nodiscard]] std::uint64_t bound_ns(std::uint64_t cost_ns) noexcept {
        if (skip_ > 0) {
            --skip_;
            return 0;
        }
        return cost_ns == 0 ? 0 : cost_ns + wait_ns();
    }
    // The longest wait for bytes that the peer is about to have.
    [[nodiscard]] std::uint64_t wait_ns(std::uint64_t cost_ns = 0) const noexcept {
        return std::min(balance_ns_, std::max(kExtraMaxNs, 2 * cost_ns));
    }
    void waited(std::uint64_t took_ns) noexcept { spend(took_ns); }
    void answered(std::uint64_t cost_ns, std::uint64_t took_ns) noexcept {
        if (took_ns <= cost_ns) balance_ns_ = std::min(balance_ns_ + (cost_ns - took_ns), kBalanceMaxNs);
        else spend(took_ns - cost_ns);
        pause_ /= 2;
    }
    void late(std::uint64_t took_ns) noexcept {
        spend(took_ns);
        pause_ = std::min(pause_ * 2 + 1, kPauseMax);
        skip_ = balance_ns_ > 0 ? pause_ : std::max(pause_, kPauseWithoutBalance);
    }

  private:
    static constexpr std::uint64_t kBalanceAtFirstNs = 20'000'000, kBalanceMaxNs = 100'000'000,
                                   kExtraMaxNs = 20'000'000;
    static constexpr std::uint32_t kPauseMax = 1023, kPauseWithoutBalance = 3;

    void spend(std::uint64_t ns) noexcept { balance_ns_ -= std::min(balance_ns_, ns); }

    std::uint64_t balance_ns_ = kBalanceAtFirstNs;
    std::uint32_t pause_ = 0, skip_ = 0;   // questions
};

}   // namespace forebay::cache
