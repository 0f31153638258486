#include "io/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449   // equal on every architecture
#endif

namespace forebay::io {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLookAtTheOther{500};

// `struct futex_waitv` of linux/futex.h, which older headers lack.
struct Waiter {
    std::uint64_t value, address;
    std::uint32_t flags, reserved;
};
constexpr std::uint32_t kWordOf32Bits = 2;

Waiter waiter_for(const Seen& seen) noexcept {
    return {seen.value, reinterpret_cast<std::uintptr_t>(&seen.word), kWordOf32Bits, 0};
}

timespec time_of(milliseconds time) noexcept {
    return {static_cast<std::time_t>(time.count() / 1000), static_cast<long>(time.count() % 1000) * 1'000'000};
}

}   // namespace

static_assert(sizeof(SharedWord) == sizeof(std::uint32_t) && SharedWord::is_always_lock_free);

void wait_while(const SharedWord& word, std::uint32_t seen, std::optional<milliseconds> at_most) noexcept {
    const timespec limit = time_of(at_most.value_or(milliseconds(0)));
    (void)::syscall(SYS_futex, &word, FUTEX_WAIT, seen, at_most ? &limit : nullptr, nullptr, 0);
}

void wait_while(const Seen& first, const Seen& second, std::optional<milliseconds> at_most) noexcept {
    const Waiter waiters[]{waiter_for(first), waiter_for(second)};
    timespec until{};
    if (at_most) {
        timespec now{};
        (void)::clock_gettime(CLOCK_MONOTONIC, &now);
        const milliseconds then = *at_most +
                                  std::chrono::duration_cast<milliseconds>(std::chrono::seconds(now.tv_sec) +
                                                                           std::chrono::nanoseconds(now.tv_nsec));
        until = time_of(then);
    }
    if (::syscall(SYS_futex_waitv, waiters, 2, 0, at_most ? &until : nullptr, CLOCK_MONOTONIC) >= 0 ||
        (errno != ENOSYS && errno != EPERM))
        return;
    if (second.word.load() == second.value)
        wait_while(first.word, first.value, std::min(at_most.value_or(kLookAtTheOther), kLookAtTheOther));
}

void raise_and_wake(SharedWord& word) noexcept {
    word.fetch_add(1, std::memory_order_acq_rel);
    (void)::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}   // namespace forebay::io
