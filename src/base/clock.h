// The clocks that forebay uses, in nanoseconds, and how often a thread has slept. The system calls behind them cannot
// fail.
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

// CLOCK_REALTIME: for what people and other processes read.
[[nodiscard]] inline std::uint64_t realtime_ns() noexcept {
    return static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch() /
                                      std::chrono::nanoseconds(1));
}

// CLOCK_BOOTTIME: since the machine was started.
[[nodiscard]] inline std::uint64_t boottime_ns() noexcept {
    timespec since{};
    ::clock_gettime(CLOCK_BOOTTIME, &since);
    return static_cast<std::uint64_t>(since.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(since.tv_nsec);
}

// CPU time that the calling thread has used.
[[nodiscard]] inline std::uint64_t thread_cpu_ns() noexcept {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<std::uint64_t>(used.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(used.tv_nsec);
}

// How often the calling thread has slept: given its processor up to wait for something, rather than had it taken away.
[[nodiscard]] inline std::uint64_t thread_sleeps() noexcept {
    rusage used{};
    ::getrusage(RUSAGE_THREAD, &used);
    return static_cast<std::uint64_t>(used.ru_nvcsw);
}

}   // namespace forebay
