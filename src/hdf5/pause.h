// Pauses forebay: files that the program opens meanwhile are neither staged nor cached. All copies of the plugin in the
// process use one count. A forked child begins with its parent's. Thread-safety: any thread. No call blocks.
#pragma once

#include <atomic>
#include <cstdint>

namespace forebay::hdf5 {

using PauseCount = std::atomic<std::uint64_t>;

void pause() noexcept;
[[nodiscard]] bool resume() noexcept;   // returns false if it is not paused
[[nodiscard]] bool is_paused() noexcept;

[[nodiscard]] PauseCount& pause_count() noexcept;
void use_pause_count(PauseCount& count) noexcept;   // of another copy

}   // namespace forebay::hdf5
