#include "drain/deadline.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/options.h"

namespace forebay::drain {

namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint64_t kMeasuredNs = 30 * kNsPerSecond;   // older measurements then count half
constexpr std::uint64_t kUnmeasuredNs = 60 * kNsPerSecond;

std::string duration_text(std::uint64_t ns) {
    const std::uint64_t seconds = (ns + kNsPerSecond - 1) / kNsPerSecond;
    if (seconds < 120) return fmt::format("{} s", seconds);
    return fmt::format("{} min {} s", seconds / 60, seconds % 60);
}

}   // namespace

// Writes end in about the order of these calls. Of overlapping writes only the new time counts.
void Deadline::wrote(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint64_t bytes) noexcept {
    const std::lock_guard lock(mutex_);
    const std::uint64_t from = std::max(begin_ns, busy_until_ns_);
    if (end_ns > from) busy_ns_ += end_ns - from;
    busy_until_ns_ = std::max(busy_until_ns_, end_ns);
    bytes_ += bytes;
    if (busy_ns_ <= kMeasuredNs) return;
    busy_ns_ /= 2;
    bytes_ /= 2;
}

double Deadline::bytes_per_ns() const noexcept {
    const std::lock_guard lock(mutex_);
    return bytes_ == 0 ? 0 : static_cast<double>(bytes_) / static_cast<double>(std::max<std::uint64_t>(busy_ns_, 1));
}

bool Deadline::begins_to_press(std::uint64_t now_ns, std::uint64_t pending_bytes) noexcept {
    if (!known() || presses() || pending_bytes == 0) return false;
    const double speed = bytes_per_ns();
    const bool presses = speed > 0
                             ? static_cast<double>(pending_bytes) / speed > static_cast<double>(left_ns(now_ns)) / 2
                             : left_ns(now_ns) < kUnmeasuredNs;
    return presses && !presses_.exchange(true);
}

std::uint64_t Deadline::allowance_bytes(std::uint64_t now_ns) const noexcept {
    const double bytes = static_cast<double>(left_ns(now_ns)) / 2 * bytes_per_ns();
    constexpr double kMost = 1e18;
    return static_cast<std::uint64_t>(std::min(bytes, kMost));
}

std::string Deadline::warning(std::uint64_t now_ns, std::uint64_t pending_bytes) const {
    const double speed = bytes_per_ns();
    std::string needs = "the time to drain them is not known";
    if (speed > 0)
        needs = fmt::format(
            "the drain needs {} at {} per second",
            duration_text(static_cast<std::uint64_t>(std::min(static_cast<double>(pending_bytes) / speed, 1e18))),
            format_size(static_cast<std::uint64_t>(speed * 1e9)));
    const std::uint64_t left = left_ns(now_ns);
    return fmt::format(
        "{}, and {} are staged but not yet in their files; {}. From now on closes and flushes wait until all "
        "bytes are in the file, and writes wait for room (option deadline)",
        left > 0 ? "the job ends in " + duration_text(left) : std::string("the job has reached its end"),
        format_size(pending_bytes), needs);
}

}   // namespace forebay::drain
