// Sizes, bandwidths and durations as people write them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::slowfs {

// "4096", "4KiB", "1.5MiB", "200MB": bytes. K, M, G, T with or without iB are powers of 1024; kB, MB, GB, TB of 1000.
[[nodiscard]] Result<std::uint64_t> parse_size(std::string_view text);

// A size with an optional "/s": bytes per second. "0" and "unlimited" are no limit, and yield 0.
[[nodiscard]] Result<std::uint64_t> parse_bandwidth(std::string_view text);

// "0.5ms", "20us", "5s", "100ns", "0": nanoseconds. Anything but 0 needs its unit.
[[nodiscard]] Result<std::int64_t> parse_duration_ns(std::string_view text);

// A plain non-negative whole number.
[[nodiscard]] Result<std::uint64_t> parse_count(std::string_view text);

// What parse_count and parse_size share with their callers: "`text` is not `wanted`".
[[nodiscard]] Status not_a(std::string_view wanted, std::string_view text);

}   // namespace forebay::slowfs
