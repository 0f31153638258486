// What the system lets this process have, and a guest in it must not use up.
//
// Each call asks the system anew: limits change while a program runs. Thread-safety: all calls from any thread. They
// read /proc and /sys/fs/cgroup, and block on nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace forebay::io {

// So much more the process may map (ulimit -v), or have as data (ulimit -d), whichever is less; nothing: there is no
// limit.
[[nodiscard]] std::optional<std::uint64_t> mappable_bytes_left();

// The process may write no file beyond that (ulimit -f); UINT64_MAX: there is no limit.
[[nodiscard]] std::uint64_t file_size_limit() noexcept;

// So many descriptors it may have (ulimit -n).
[[nodiscard]] std::uint64_t descriptors_max() noexcept;

// The memory that the process's control group may use, and all groups above it (memory.max, memory.high;
// memory.limit_in_bytes of version 1); nothing: there is no limit. What is stored in a tmpfs counts there.
[[nodiscard]] std::optional<std::uint64_t> memory_limit_bytes();
// The machine's memory, or that limit where it is less.
[[nodiscard]] std::uint64_t usable_memory_bytes();
// `memory_limit_bytes`, as if `proc` were /proc/self and `cgroups` /sys/fs/cgroup.
[[nodiscard]] std::optional<std::uint64_t> memory_limit_bytes(const std::string& proc, const std::string& cgroups);

}   // namespace forebay::io
