// A name that a process shows others, as long as its image runs: that of a mapping in /proc/<pid>/maps.
//
// The mapping has no memory and no descriptor, and forked children do not inherit it. Names are the caller's to choose;
// "/memfd:" is written before them. Thread-safety: all calls from any thread. Nothing blocks.
#pragma once

#include <cstdint>

namespace forebay::io {

// Shows the name from now on; each call makes one more mapping. Returns false if the system has no room for it.
bool show_name(const char* name) noexcept;
// Whether that process shows it. False, too, if this user may not look at it. May throw std::bad_alloc.
[[nodiscard]] bool shows_name(std::uint64_t pid, const char* name);

}   // namespace forebay::io
