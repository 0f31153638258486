// How names and times are shown to people. Pure but for the time zone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace forebay::cli {

// "2026-03-01 12:00:00" of CLOCK_REALTIME.
[[nodiscard]] std::string local_time(std::uint64_t time_ns);
// A path may hold any bytes: those that a terminal acts on become '?'.
[[nodiscard]] std::string printable(std::string_view path);

}   // namespace forebay::cli
