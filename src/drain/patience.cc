#include "drain/patience.h"

#include <algorithm>

namespace forebay::drain {

namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
// So long work may wait for a thread before there is one more.
constexpr std::uint64_t kAssistAfterNs = kSecondNs / 2;

}   // namespace

std::uint64_t patience_ns(const Options& options) noexcept { return options.patience * kSecondNs; }

Wait::Wait(const Process& process) noexcept
    : process_(process), patience_ns_(patience_ns(process.options)), begin_ns_(monotonic_ns()), since_ns_(begin_ns_) {}

bool Wait::over() { return over(process_.progress.last_ns()); }

bool Wait::over(std::uint64_t progress_ns) {
    since_ns_ = std::max(since_ns_, progress_ns);
    const std::uint64_t now = monotonic_ns();
    if (!assisted_ && now >= begin_ns_ + kAssistAfterNs) {
        assisted_ = true;
        process_.scheduler.assist();
    }
    return patience_ns_ != 0 && now >= since_ns_ + patience_ns_;
}

Wait::TimePoint Wait::until() const noexcept {
    std::uint64_t at = patience_ns_ != 0 ? since_ns_ + patience_ns_ : 0;
    if (!assisted_) at = at == 0 ? begin_ns_ + kAssistAfterNs : std::min(at, begin_ns_ + kAssistAfterNs);
    return at == 0 ? TimePoint::max() : TimePoint(std::chrono::nanoseconds(at));
}

}   // namespace forebay::drain
