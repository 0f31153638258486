// Formats names and times for people. Pure, except for the time zone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace forebay::cli {

// CLOCK_REALTIME, as "2026-03-01 12:00:00".
[[nodiscard]] std::string local_time(std::uint64_t time_ns);
// Replaces bytes of a path that a terminal would act on with '?'. A path may hold any bytes.
[[nodiscard]] std::string printable(std::string_view path);

}   // namespace forebay::cli
