// Parses sizes, bandwidths and durations as people write them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::slowfs {

// "4096", "4KiB", "1.5MiB" or "200MB". K, M, G, T with or without iB are powers of 1024; kB, MB, GB, TB of 1000.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);

// Parses a size with an optional "/s" into bytes per second. "0" and "unlimited" mean no limit, and yield 0.
[[nodiscard]] Result<std::uint64_t> parse_bandwidth(std::string_view text);

// Parses "0.5ms", "20us", "5s", "100ns" or "0" into nanoseconds. Every value but 0 needs its unit.
[[nodiscard]] Result<std::int64_t> parse_duration_ns(std::string_view text);

[[nodiscard]] Result<std::uint64_t> parse_count(std::string_view text);

[[nodiscard]] Status not_a(std::string_view wanted, std::string_view text);

}   // namespace forebay::slowfs
