#include "drain/patience.h"

#include <algorithm>

namespace forebay::drain {

namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
// The time that work waits before another thread is added.
constexpr std::uint64_t kAssistAfterNs = kSecondNs / 2;

}   // namespace

std::uint64_t patience_ns(const Options& options) noexcept { return options.patience * kSecondNs; }

Wait::Wait(const DrainContext& context) noexcept
    : context_(context),
      patience_ns_(patience_ns(context.options)),
      since_ns_(context.progress.clock().now_ns()),
      assist_at_ns_(since_ns_ + kAssistAfterNs) {}

bool Wait::over() { return over(context_.progress.last_ns()); }

bool Wait::over(std::uint64_t progress_ns) {
    since_ns_ = std::max(since_ns_, progress_ns);
    const std::uint64_t now = context_.progress.clock().now_ns();
    if (assist_at_ns_ != 0 && now >= assist_at_ns_) {
        const bool moves = assisted_ && context_.progress.last_ns() + kAssistAfterNs > now;
        assisted_ = true;
        assist_at_ns_ = moves || context_.scheduler.assist() ? now + kAssistAfterNs : 0;
    }
    return patience_ns_ != 0 && now >= since_ns_ + patience_ns_;
}

Wait::TimePoint Wait::until() const noexcept {
    std::uint64_t at = patience_ns_ != 0 ? since_ns_ + patience_ns_ : 0;
    if (assist_at_ns_ != 0) at = at == 0 ? assist_at_ns_ : std::min(at, assist_at_ns_);
    return at == 0 ? TimePoint::max() : context_.progress.clock().wake_at(at);
}

}   // namespace forebay::drain
