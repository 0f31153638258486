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

}   // namespace forebay::io
