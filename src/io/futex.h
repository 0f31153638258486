// Waits on a plain 32-bit counter in memory that several processes share, or in a file that they map (futex(2)). A
// process that changes shared state raises the word and wakes the waiters. A waiter reads the word, looks for work, and
// waits while the word keeps its value. So no wake-up is lost. Thread-safety: all calls from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace forebay::io {

using SharedWord = std::atomic<std::uint32_t>;

// Returns once `word` may differ from `seen`, after a wake-up or `at_most`, or without a reason: look again.
void wait_while(const SharedWord& word, std::uint32_t seen,
                std::optional<std::chrono::milliseconds> at_most = std::nullopt) noexcept;

void raise_and_wake(SharedWord& word) noexcept;

// Waits on two words: returns once either may differ from its seen value. Before Linux 5.16 a thread waits for one word
// only, and polls the other one twice a second. Source: futex2, `futex_waitv`.
struct Seen {
    const SharedWord& word;
    std::uint32_t value;
};
void wait_while(const Seen& first, const Seen& second,
                std::optional<std::chrono::milliseconds> at_most = std::nullopt) noexcept;

}   // namespace forebay::io
