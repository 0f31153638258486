#include "cache/source_speed.h"

#include <algorithm>

#include "cache/trial.h"

namespace forebay::cache {

namespace {

constexpr std::uint64_t kJudged = 32;                           // requests before the source is judged
constexpr std::uint64_t kJudgeAgain = std::uint64_t{1} << 30;   // bytes until a judgement ends
constexpr std::uint64_t kTimedHits = 64;                        // timed hits before they are judged
constexpr std::uint64_t kWaitMaxNs = 200'000'000;

}   // namespace

// Compares the time of hits with the source's time for as many bytes. Leaves out hits of less than half the source's
// mean request, because the source's fixed time for each request is unknown.
void SourceSpeed::note_hit(std::uint64_t bytes, std::uint64_t took_ns) noexcept {
    const std::uint64_t requests = requests_.load(), request_bytes = request_bytes_.load();
    if (requests < kJudged || bytes < request_bytes / requests / 2) return;
    const double source_ns = static_cast<double>(request_ns_.load()) / static_cast<double>(request_bytes) *
                             static_cast<double>(bytes);
    const std::uint64_t total_ns = timed_ns_.fetch_add(took_ns) + took_ns;
    const std::uint64_t total_source_ns = timed_source_ns_.fetch_add(static_cast<std::uint64_t>(source_ns)) +
                                          static_cast<std::uint64_t>(source_ns);
    if ((timed_hits_.fetch_add(1) + 1) % kTimedHits != 0) return;
    timed_ns_.store(0);
    timed_source_ns_.store(0);
    if (total_ns < total_source_ns) return;
    counters_.step_aside(Aside::kSlow);
    fast_bytes_left_.store(kJudgeAgain);
    passes_by_.store(true);
}

// Judges after `kJudged` requests whether the source is too fast for a cache to pay.
void SourceSpeed::note_request(std::uint64_t bytes, std::uint64_t took_ns) noexcept {
    const std::uint64_t total_ns = request_ns_.fetch_add(took_ns) + took_ns;
    const std::uint64_t total_bytes = request_bytes_.fetch_add(bytes) + bytes;
    if (requests_.fetch_add(1) + 1 != kJudged || !judges_) return;
    if (total_ns < fast_ns(kJudged, total_bytes)) {
        counters_.step_aside(Aside::kFast);
        fast_bytes_left_.store(kJudgeAgain);
    }
}

// A judgement ends after `kJudgeAgain` bytes; then the source is timed anew.
void SourceSpeed::note_unstored(std::uint64_t bytes) noexcept {
    std::uint64_t left = fast_bytes_left_.load(std::memory_order_relaxed);
    while (left > 0 && !fast_bytes_left_.compare_exchange_weak(left, left - std::min(left, bytes))) {
    }
    if (left == 0 || left > bytes) return;
    passes_by_.store(false);
    request_ns_.store(0);
    request_bytes_.store(0);
    requests_.store(0);
}

// At the source's mean speed.
std::uint64_t SourceSpeed::patience_ns() const noexcept {
    const std::uint64_t requests = requests_.load(), bytes = std::max<std::uint64_t>(1, request_bytes_.load());
    const std::uint64_t total_ns = request_ns_.load(), mean_ns = requests == 0 ? 0 : total_ns / requests;
    const std::uint64_t piece_ns = static_cast<std::uint64_t>(
        static_cast<double>(total_ns) / static_cast<double>(bytes) * static_cast<double>(kFetchMax));
    return std::clamp(std::max(mean_ns, piece_ns), wait_min_ns_, std::max(wait_min_ns_, kWaitMaxNs));
}

}   // namespace forebay::cache
