#include "cli/shown.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>

namespace forebay::cli {

std::string local_time(std::uint64_t time_ns) {
    const auto seconds = static_cast<std::time_t>(time_ns / 1'000'000'000);
    std::tm parts{};
    if (::localtime_r(&seconds, &parts) == nullptr) return "?";
    return fmt::format("{:%Y-%m-%d %H:%M:%S}", parts);
}

std::string printable(std::string_view path) {
    std::string text;
    for (std::size_t i = 0; i < path.size(); ++i) {
        const auto c = static_cast<unsigned char>(path[i]);
        // The control characters U+0080 to U+009F have two bytes in UTF-8.
        const bool wide = c == 0xC2 && i + 1 < path.size() && static_cast<unsigned char>(path[i + 1]) < 0xA0;
        if (wide) ++i;
        text += c < 0x20 || c == 0x7f || wide ? '?' : path[i];
    }
    return text;
}

}   // namespace forebay::cli
