// Waiting for a word of memory that several processes map (futex(2)).
//
// The word is a plain 32-bit counter: whoever changes something raises it and wakes; whoever waits reads
// it, looks whether there is anything to do, and waits while it still has the value read. No wake-up is
// lost that way. Works on words of shared file mappings. Thread-safety: all calls from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace forebay::io {

using SharedWord = std::atomic<std::uint32_t>;

// Returns once `word` may differ from `seen`, somebody woke, or the time is over. May also return for no
// reason: look again.
void wait_while(const SharedWord& word, std::uint32_t seen,
                std::optional<std::chrono::milliseconds> at_most = std::nullopt) noexcept;

// Raises `word` and wakes all who wait for it.
void raise_and_wake(SharedWord& word) noexcept;

// The same for two words: returns once either may differ from what was seen. Before Linux 5.16 a thread waits for one
// word only, and looks at the other one twice a second. Source: futex2, `futex_waitv`.
struct Seen {
    const SharedWord& word;
    std::uint32_t value;
};
void wait_while(const Seen& first, const Seen& second,
                std::optional<std::chrono::milliseconds> at_most = std::nullopt) noexcept;

}   // namespace forebay::io
