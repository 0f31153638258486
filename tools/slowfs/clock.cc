#include "clock.h"

#include <ctime>

#include <algorithm>

namespace forebay::slowfs {

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kStopCheckInterval = 20'000'000;

}   // namespace

std::int64_t now_ns() noexcept {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return std::int64_t{time.tv_sec} * kSecond + time.tv_nsec;
}

void sleep_until(std::int64_t deadline_ns, const std::atomic<bool>& stopping) noexcept {
    std::int64_t now = now_ns();
    while (now < deadline_ns && !stopping.load(std::memory_order_relaxed)) {
        // An absolute time, so that the slices add up to the deadline exactly.
        const std::int64_t until = std::min(deadline_ns, now + kStopCheckInterval);
        const timespec time{.tv_sec = until / kSecond, .tv_nsec = until % kSecond};
        ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
        now = now_ns();
    }
}

}   // namespace forebay::slowfs
