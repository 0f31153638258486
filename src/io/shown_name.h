// A name that a process shows to others while its image runs: that of a mapping in /proc/<pid>/maps, after "/memfd:".
// It has no memory and no descriptor, and forked children do not inherit it. Thread-safety: any thread. No call blocks.
#pragma once

#include <cstdint>

namespace forebay::io {

// Shows the name. Each call makes one more mapping. Returns false if the system has no room for it.
bool show_name(const char* name) noexcept;
// Returns true if that process shows the name, and false if this user may not look at it. Throws std::bad_alloc.
[[nodiscard]] bool shows_name(std::uint64_t pid, const char* name);

}   // namespace forebay::io
