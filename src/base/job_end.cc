#include "base/job_end.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <limits>
#include <optional>
#include <string>

namespace forebay {

namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr double kSecondsMax = 9e9;             // for durations and times: 64 bits of nanoseconds hold it
constexpr double kSecondsSince1970From = 1e9;   // 2001

Status malformed() { return {Code::kInvalidArgument, "neither a duration nor a time"}; }

std::uint64_t to_ns(double seconds) noexcept { return static_cast<std::uint64_t>(seconds * 1e9); }

std::optional<double> unit_seconds(std::string_view unit) noexcept {
    if (unit.empty() || unit == "s") return 1;
    if (unit == "m" || unit == "min") return 60;
    if (unit == "h") return 3600;
    if (unit == "d") return 86400;
    return std::nullopt;
}

Result<JobEnd> parse_number(std::string_view text) {
    double number = 0;
    const char* const last = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), last, number, std::chars_format::fixed);
    const std::string_view unit(parsed.ptr, static_cast<std::size_t>(last - parsed.ptr));
    const auto seconds = unit_seconds(unit);
    if (parsed.ec != std::errc{} || !seconds) return malformed();
    const double total = number * *seconds;
    if (!(total <= kSecondsMax)) return Status(Code::kInvalidArgument, "too far in the future");
    const bool since_1970 = unit.empty() && number >= kSecondsSince1970From;
    return JobEnd{since_1970 ? JobEnd::Kind::kAt : JobEnd::Kind::kAfter, to_ns(total)};
}

std::optional<int> take_digits(std::string_view& text, std::size_t count) noexcept {
    if (text.size() < count) return std::nullopt;
    int value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + count, value);
    if (parsed.ec != std::errc{} || parsed.ptr != text.data() + count || value < 0) return std::nullopt;
    text.remove_prefix(count);
    return value;
}

bool take(std::string_view& text, char c) noexcept {
    if (text.empty() || text.front() != c) return false;
    text.remove_prefix(1);
    return true;
}

Result<JobEnd> parse_time(std::string_view text) {
    std::array<int, 6> parts{};   // year, month, day, hour, minute, second
    constexpr std::array<char, 6> kBefore{0, '-', '-', 'T', ':', ':'};
    constexpr std::array<int, 6> kLeast{1970, 1, 1, 0, 0, 0}, kMost{2200, 12, 31, 23, 59, 60};
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i == 5 && (text.empty() || text.front() != ':')) break;
        if (i > 0 && !take(text, kBefore[i])) return malformed();
        const auto part = take_digits(text, i == 0 ? 4 : 2);
        if (!part || *part < kLeast[i] || *part > kMost[i]) return malformed();
        parts[i] = *part;
    }
    const bool utc = take(text, 'Z');
    if (!text.empty()) return malformed();
    std::tm broken{};
    broken.tm_year = parts[0] - 1900;
    broken.tm_mon = parts[1] - 1;
    broken.tm_mday = parts[2];
    broken.tm_hour = parts[3];
    broken.tm_min = parts[4];
    broken.tm_sec = parts[5];
    broken.tm_isdst = -1;   // mktime decides about daylight saving time
    const std::time_t seconds = utc ? ::timegm(&broken) : ::mktime(&broken);
    if (seconds < 0) return malformed();
    return JobEnd{JobEnd::Kind::kAt, static_cast<std::uint64_t>(seconds) * kNsPerSecond};
}

}   // namespace

Result<JobEnd> parse_job_end(std::string_view text) {
    if (text.empty() || text == "off") return JobEnd{};
    // from_chars would accept signs, "inf" and "nan".
    if (!(text[0] >= '0' && text[0] <= '9') && text[0] != '.') return malformed();
    return text.find('T') != std::string_view::npos ? parse_time(text) : parse_number(text);
}

std::uint64_t monotonic_end_ns(const JobEnd& end, const Now& now) noexcept {
    constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
    const auto after = [&](std::uint64_t ns, std::uint64_t since) {
        if (ns <= since) return now.monotonic_ns - std::min(now.monotonic_ns, since - ns);
        return ns - since > kNever - now.monotonic_ns ? kNever : now.monotonic_ns + (ns - since);
    };
    switch (end.kind) {
        case JobEnd::Kind::kAfter: return after(end.ns, now.program_age_ns);
        case JobEnd::Kind::kAt: return after(end.ns, now.realtime_ns);
        case JobEnd::Kind::kNever: break;
    }
    return kNever;
}

}   // namespace forebay
