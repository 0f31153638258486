#include "io/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace forebay::io {

static_assert(sizeof(SharedWord) == sizeof(std::uint32_t) && SharedWord::is_always_lock_free);

void wait_while(const SharedWord& word, std::uint32_t seen, std::optional<std::chrono::milliseconds> at_most) noexcept {
    timespec limit{};
    if (at_most) {
        limit.tv_sec = static_cast<std::time_t>(at_most->count() / 1000);
        limit.tv_nsec = static_cast<long>(at_most->count() % 1000) * 1'000'000;
    }
    // Every outcome (woken, changed meanwhile, interrupted, time over) asks the caller to look again.
    (void)::syscall(SYS_futex, &word, FUTEX_WAIT, seen, at_most ? &limit : nullptr, nullptr, 0);
}

void raise_and_wake(SharedWord& word) noexcept {
    word.fetch_add(1, std::memory_order_acq_rel);
    (void)::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}   // namespace forebay::io
