// Limits of the system for this process, which a library in it must not exhaust. Each call asks anew, because limits
// change while a program runs. Thread-safety: all calls from any thread. Blocks on /proc and /sys/fs/cgroup only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace forebay::io {

// Returns the smaller rest of address space (ulimit -v) and data (ulimit -d), or nothing without a limit.
[[nodiscard]] std::optional<std::uint64_t> mappable_bytes_left();

// Returns the largest size to which the process may write a file (ulimit -f), or UINT64_MAX without a limit.
[[nodiscard]] std::uint64_t file_size_limit() noexcept;

[[nodiscard]] std::uint64_t descriptors_max() noexcept;

// Returns the memory limit of the process's control group and of all groups above it (memory.max, memory.high;
// memory.limit_in_bytes of version 1), or nothing without a limit. Bytes in a tmpfs count there.
[[nodiscard]] std::optional<std::uint64_t> memory_limit_bytes();
// Returns the machine's memory, or that limit if it is lower.
[[nodiscard]] std::uint64_t usable_memory_bytes();
// Returns `memory_limit_bytes` with `proc` in place of /proc/self, and `cgroups` in place of /sys/fs/cgroup.
[[nodiscard]] std::optional<std::uint64_t> memory_limit_bytes(const std::string& proc, const std::string& cgroups);

}   // namespace forebay::io
