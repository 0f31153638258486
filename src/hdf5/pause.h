// Whether the program has paused forebay: the files that it opens meanwhile are neither staged nor cached.
//
// One count for all copies of the plugin in the process: a copy uses that of the plugin that has loaded it.
// Thread-safety: any thread. Nothing blocks. A forked child begins with the count of its parent.
#pragma once

#include <atomic>
#include <cstdint>

namespace forebay::hdf5 {

using PauseCount = std::atomic<std::uint64_t>;

void pause() noexcept;
[[nodiscard]] bool resume() noexcept;   // false: it is not paused
[[nodiscard]] bool is_paused() noexcept;

[[nodiscard]] PauseCount& pause_count() noexcept;
void use_pause_count(PauseCount& count) noexcept;   // another copy's

}   // namespace forebay::hdf5
