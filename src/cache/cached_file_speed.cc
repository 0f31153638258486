// Measures how fast the source and the replica answer, and judges whether the cache pays.
#include <algorithm>

#include "cache/cached_file_core.h"

namespace forebay::cache {

namespace {

constexpr std::uint64_t kJudged = 32;                           // requests before the source is judged
constexpr std::uint64_t kJudgeAgain = std::uint64_t{1} << 30;   // bytes until a judgement ends
constexpr std::uint64_t kTimeEvery = 16;                        // one in this many hits is timed
constexpr std::uint64_t kTimedHits = 64;                        // timed hits before they are judged
constexpr std::uint64_t kWaitMaxNs = 200'000'000;

}   // namespace

std::size_t CachedFile::Core::read_replica(std::uint64_t offset, io::MutableBytes into) {
    if (!policy_.judge_speed || hits_.fetch_add(1, std::memory_order_relaxed) % kTimeEvery != 0)
        return replica_->read(offset, into);
    const std::uint64_t begin_ns = policy_.steady_ns();
    const std::size_t hit = replica_->read(offset, into);
    if (hit > 0) judge_hit(hit, policy_.steady_ns() - begin_ns);
    return hit;
}

// Hits of less than half the source's mean request are left out: its fixed time for each request is unknown.
void CachedFile::Core::judge_hit(std::uint64_t bytes, std::uint64_t took_ns) noexcept {
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
    step_aside(Aside::kSlow);
    fast_bytes_left_.store(kJudgeAgain);
    passes_by_.store(true);
}

void CachedFile::Core::judge(std::uint64_t bytes, std::uint64_t took_ns) noexcept {
    const std::uint64_t total_ns = request_ns_.fetch_add(took_ns) + took_ns;
    const std::uint64_t total_bytes = request_bytes_.fetch_add(bytes) + bytes;
    if (requests_.fetch_add(1) + 1 != kJudged || !policy_.judge_speed) return;
    if (total_ns < fast_ns(kJudged, total_bytes)) {
        step_aside(Aside::kFast);
        fast_bytes_left_.store(kJudgeAgain);
    }
}

void CachedFile::Core::count_down(std::uint64_t bytes) noexcept {
    std::uint64_t left = fast_bytes_left_.load(std::memory_order_relaxed);
    while (left > 0 && !fast_bytes_left_.compare_exchange_weak(left, left - std::min(left, bytes))) {
    }
    if (left == 0 || left > bytes) return;
    passes_by_.store(false);
    request_ns_.store(0);
    request_bytes_.store(0);
    requests_.store(0);
}

// Estimates the source's time for the largest piece that is fetched at once, at its mean speed.
std::uint64_t CachedFile::Core::patience_ns() const noexcept {
    const std::uint64_t requests = requests_.load(), bytes = std::max<std::uint64_t>(1, request_bytes_.load());
    const std::uint64_t total_ns = request_ns_.load(), mean_ns = requests == 0 ? 0 : total_ns / requests;
    const std::uint64_t piece_ns = static_cast<std::uint64_t>(
        static_cast<double>(total_ns) / static_cast<double>(bytes) * static_cast<double>(kFetchMax));
    return std::clamp(std::max(mean_ns, piece_ns), policy_.wait_min_ns, std::max(policy_.wait_min_ns, kWaitMaxNs));
}

}   // namespace forebay::cache
