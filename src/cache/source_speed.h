// Measures how fast the source and the replica of one file answer, and judges whether the cache pays.
// A judgement ends after 1 GiB was read from the source; then the source is timed anew. Nothing is judged without
// `CachePolicy::judge_speed`. Thread-safe: it has no lock, so concurrent reads may shift a judgement by a request.
// No call blocks. The counters outlive this.
#pragma once

#include <atomic>
#include <cstdint>

#include "cache/cache_counters.h"
#include "cache/cache_policy.h"

namespace forebay::cache {

inline constexpr std::uint64_t kFetchMax = 1 << 20;   // of one request for bytes that were not requested

class SourceSpeed {
  public:
    SourceSpeed(const CachePolicy& policy, CacheCounters& counters) noexcept
        : judges_(policy.judge_speed), wait_min_ns_(policy.wait_min_ns), counters_(counters) {}

    // True if the caller is to time its next read of the replica: one in sixteen.
    [[nodiscard]] bool times_hit() noexcept {
        return judges_ && hits_.fetch_add(1, std::memory_order_relaxed) % kTimeEvery == 0;
    }
    void note_hit(std::uint64_t bytes, std::uint64_t took_ns) noexcept;
    void note_request(std::uint64_t bytes, std::uint64_t took_ns) noexcept;
    // Bytes were read from the source without being stored: the judgement ends after enough of them.
    void note_unstored(std::uint64_t bytes) noexcept;

    // True while the source counts as too fast for the cache to pay.
    [[nodiscard]] bool is_fast() const noexcept { return fast_bytes_left_.load(std::memory_order_relaxed) > 0; }
    // True while hits are slower than the source: read the source.
    [[nodiscard]] bool passes_by() const noexcept { return passes_by_.load(std::memory_order_relaxed); }
    // The source's time for the largest piece that is fetched at once: the longest wait for another fetcher.
    [[nodiscard]] std::uint64_t patience_ns() const noexcept;

  private:
    static constexpr std::uint64_t kTimeEvery = 16;

    const bool judges_;
    const std::uint64_t wait_min_ns_;
    CacheCounters& counters_;
    std::atomic<std::uint64_t> requests_{0}, request_ns_{0}, request_bytes_{0}, fast_bytes_left_{0};
    // Timed hits, and the time that the source would have taken.
    std::atomic<std::uint64_t> hits_{0}, timed_hits_{0}, timed_ns_{0}, timed_source_ns_{0};
    std::atomic<bool> passes_by_{false};
};

}   // namespace forebay::cache
