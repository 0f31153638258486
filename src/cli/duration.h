// Durations on the command line: 90, 90s, 15m, 12h, 7d. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace forebay::cli {

// Returns nanoseconds. A number without a unit means seconds, and may have a fraction.
[[nodiscard]] std::optional<std::uint64_t> parse_duration(std::string_view text);

// Returns an error text for CLI::Option::check, empty if `text` is a duration.
[[nodiscard]] std::string why_no_duration(const std::string& text);

}   // namespace forebay::cli
