// The clocks of forebay, in nanoseconds, and a thread's count of sleeps. The system calls below cannot fail.
#pragma once

#include <sys/resource.h>
#include <time.h>

#include <chrono>
#include <cstdint>

namespace forebay {

// CLOCK_MONOTONIC: for durations and traces.
[[nodiscard]] inline std::uint64_t monotonic_ns() noexcept {
    return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                      std::chrono::nanoseconds(1));
}

// The clock for waits with a time limit: CLOCK_MONOTONIC. A test can pass one that it advances itself.
class WaitClock {
  public:
    virtual ~WaitClock() = default;
    [[nodiscard]] virtual std::uint64_t now_ns() noexcept { return monotonic_ns(); }
    // Returns the time at which a thread that sleeps until `at_ns` must wake to read this clock again.
    [[nodiscard]] virtual std::chrono::steady_clock::time_point wake_at(std::uint64_t at_ns) noexcept {
        return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(at_ns));
    }
    // Returns the longest sleep for a wait of `for_ns`.
    [[nodiscard]] std::chrono::milliseconds sleep_max(std::uint64_t for_ns) noexcept {
        const auto left = wake_at(now_ns() + for_ns) - std::chrono::steady_clock::now();
        return std::chrono::ceil<std::chrono::milliseconds>(left);
    }
};

// CLOCK_REALTIME: for people and other processes.
[[nodiscard]] inline std::uint64_t realtime_ns() noexcept {
    return static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch() /
                                      std::chrono::nanoseconds(1));
}

// CLOCK_BOOTTIME: the time since the machine started.
[[nodiscard]] inline std::uint64_t boottime_ns() noexcept {
    timespec since{};
    ::clock_gettime(CLOCK_BOOTTIME, &since);
    return static_cast<std::uint64_t>(since.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(since.tv_nsec);
}

[[nodiscard]] inline std::uint64_t thread_cpu_ns() noexcept {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(used.tv_nsec);
}

// Returns the number of voluntary context switches of the calling thread: it gave up its processor to wait.
[[nodiscard]] inline std::uint64_t thread_sleeps() noexcept {
    rusage used{};
    ::getrusage(RUSAGE_THREAD, &used);
    return static_cast<std::uint64_t>(used.ru_nvcsw);
}

}   // namespace forebay
