#include "quantity.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace forebay::slowfs {

namespace {

struct Unit {
    std::string_view name;
    double factor;
};

constexpr double kKi = 1024.0;
constexpr double kMi = kKi * 1024.0;
constexpr double kGi = kMi * 1024.0;
constexpr double kTi = kGi * 1024.0;

constexpr std::array kSizeUnits = {
    Unit{"", 1},      Unit{"B", 1},    Unit{"K", kKi},   Unit{"KiB", kKi}, Unit{"M", kMi},
    Unit{"MiB", kMi}, Unit{"G", kGi},  Unit{"GiB", kGi}, Unit{"T", kTi},   Unit{"TiB", kTi},
    Unit{"kB", 1e3},  Unit{"KB", 1e3}, Unit{"MB", 1e6},  Unit{"GB", 1e9},  Unit{"TB", 1e12},
};

constexpr std::array kTimeUnits = {Unit{"ns", 1}, Unit{"us", 1e3}, Unit{"ms", 1e6}, Unit{"s", 1e9}};

// Parses a number, optional blanks and a unit. The result must fit into 63 bits.
template <std::size_t N>
std::optional<double> scaled(std::string_view text, const std::array<Unit, N>& units) {
    double number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number,
                                               std::chars_format::fixed);
    if (error != std::errc() || std::signbit(number) || !std::isfinite(number)) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    for (const Unit& unit : units) {
        if (unit.name == text && number * unit.factor < 9.2e18) return number * unit.factor;
    }
    return std::nullopt;
}

}   // namespace

Status not_a(std::string_view wanted, std::string_view text) {
    return {Code::kInvalidArgument, "'" + std::string(text) + "' is not " + std::string(wanted)};
}

Result<std::uint64_t> parse_size(std::string_view text) {
    const auto value = scaled(text, kSizeUnits);
    if (!value) return not_a("a size, such as 4096, 64KiB or 1.5MiB", text);
    return static_cast<std::uint64_t>(std::llround(*value));
}

Result<std::uint64_t> parse_bandwidth(std::string_view text) {
    if (text == "unlimited") return std::uint64_t{0};
    std::string_view size = text;
    if (size.ends_with("/s")) size.remove_suffix(2);
    const auto value = scaled(size, kSizeUnits);
    if (!value || (*value > 0 && *value < 1)) return not_a("a bandwidth, such as 200MiB/s, or unlimited", text);
    return static_cast<std::uint64_t>(std::llround(*value));
}

Result<std::int64_t> parse_duration_ns(std::string_view text) {
    if (text == "0") return std::int64_t{0};
    const auto value = scaled(text, kTimeUnits);
    if (!value) return not_a("a duration, such as 0.5ms, 20us or 5s", text);
    return static_cast<std::int64_t>(std::llround(*value));
}

Result<std::uint64_t> parse_count(std::string_view text) {
    std::uint64_t value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || rest != text.data() + text.size()) return not_a("a whole number", text);
    return value;
}

}   // namespace forebay::slowfs
