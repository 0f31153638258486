// Decides if staging pays for a target that is as fast as the log, such as a page cache. There the drain costs a
// second copy: free while the program does something else, and a delay otherwise. So a process keeps an account in
// time. It earns the time that its program spends outside the calls of its files, and spends the time that the drain of
// staged bytes takes. A program that only writes stages nothing more; one that computes between its checkpoints stages
// as much as drains meanwhile. Thread-safe. Concurrent calls make the account coarse: only speed depends on it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "drain/target_pace.h"

namespace forebay::stage {

class SpareTime {
  public:
    // All times are monotonic, in ns.
    explicit SpareTime(std::uint64_t now_ns) noexcept : left_ns_(now_ns) {}

    // A call on a file begins (`enter`), and ends (`leave`).
    void enter(std::uint64_t now_ns) noexcept {
        balance_ns_.fetch_add(static_cast<std::int64_t>(now_ns - std::min(now_ns, left_ns_.load(kRelaxed))), kRelaxed);
        left_ns_.store(now_ns, kRelaxed);   // for another thread that comes meanwhile
    }
    void leave(std::uint64_t now_ns) noexcept { left_ns_.store(now_ns, kRelaxed); }

    // These bytes are staged; drain::TargetPace::kBytes take `pace_ns` to drain.
    void spend(std::uint64_t bytes, std::uint64_t pace_ns) noexcept {
        balance_ns_.fetch_sub(cost(bytes, pace_ns), kRelaxed);
    }

    // The program has waited until everything was drained.
    void forgive() noexcept {
        for (std::int64_t balance = balance_ns_.load(kRelaxed);
             balance < 0 && !balance_ns_.compare_exchange_weak(balance, 0, kRelaxed);) {
        }
    }

    // These bytes, too, can drain in the time left. The account holds at most the drain of `most_bytes`, the log size.
    [[nodiscard]] bool suffices_for(std::uint64_t bytes, std::uint64_t pace_ns, std::uint64_t most_bytes) noexcept {
        std::int64_t balance = balance_ns_.load(kRelaxed);
        const std::int64_t most = cost(most_bytes, pace_ns);
        while (balance > most && !balance_ns_.compare_exchange_weak(balance, most, kRelaxed)) {
        }
        return std::min(balance, most) >= cost(bytes, pace_ns);
    }

  private:
    static constexpr auto kRelaxed = std::memory_order_relaxed;
    [[nodiscard]] static std::int64_t cost(std::uint64_t bytes, std::uint64_t pace_ns) noexcept {
        return static_cast<std::int64_t>(static_cast<double>(bytes) / drain::TargetPace::kBytes *
                                         static_cast<double>(pace_ns));
    }

    std::atomic<std::uint64_t> left_ns_;   // when the last call ended
    std::atomic<std::int64_t> balance_ns_{0};
};

}   // namespace forebay::stage
