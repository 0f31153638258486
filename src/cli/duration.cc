#include "cli/duration.h"

#include <fmt/format.h>

#include <charconv>

namespace forebay::cli {

std::optional<std::uint64_t> parse_duration(std::string_view text) {
    double number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    const std::string_view unit(parsed.ptr, static_cast<std::size_t>(text.data() + text.size() - parsed.ptr));
    double seconds = 0;
    if (unit.empty() || unit == "s") seconds = 1;
    else if (unit == "m" || unit == "min") seconds = 60;
    else if (unit == "h") seconds = 3600;
    else if (unit == "d") seconds = 86400;
    // This check excludes signs, "inf" and "nan", which from_chars accepts.
    const bool digits = !text.empty() && ((text[0] >= '0' && text[0] <= '9') || text[0] == '.');
    constexpr double kMost = 1e18;
    const double ns = number * seconds * 1e9;
    if (parsed.ec != std::errc{} || !digits || seconds == 0 || !(ns <= kMost)) return std::nullopt;
    return static_cast<std::uint64_t>(ns);
}

std::string why_no_duration(const std::string& text) {
    if (parse_duration(text)) return {};
    return fmt::format("{} is not a duration; examples: 30, 30s, 5m, 2h, 7d", text);
}

}   // namespace forebay::cli
