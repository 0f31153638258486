#include "stage/patience.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/clock.h"

namespace forebay::stage {

namespace {

constexpr std::uint64_t kSecondNs = 1'000'000'000;
// So long work may wait for a thread before there is one more.
constexpr std::uint64_t kAssistAfterNs = kSecondNs / 2;

}   // namespace

Wait::Wait(Surroundings& surroundings) noexcept
    : surroundings_(surroundings),
      patience_ns_(surroundings.options().patience * kSecondNs),
      begin_ns_(monotonic_ns()),
      since_ns_(begin_ns_) {}

bool Wait::over() { return over(surroundings_.progress_ns()); }

bool Wait::over(std::uint64_t progress_ns) {
    since_ns_ = std::max(since_ns_, progress_ns);
    const std::uint64_t now = monotonic_ns();
    if (!assisted_ && now >= begin_ns_ + kAssistAfterNs) {
        assisted_ = true;
        surroundings_.scheduler().assist();
    }
    return patience_ns_ != 0 && now >= since_ns_ + patience_ns_;
}

Wait::TimePoint Wait::until() const noexcept {
    std::uint64_t at = patience_ns_ != 0 ? since_ns_ + patience_ns_ : 0;
    if (!assisted_) at = at == 0 ? begin_ns_ + kAssistAfterNs : std::min(at, begin_ns_ + kAssistAfterNs);
    return at == 0 ? TimePoint::max() : TimePoint(std::chrono::nanoseconds(at));
}

// Until `over()`, which holds mutex_, is true.
Status StagedFile::await_locked(std::unique_lock<std::mutex>& lock, const std::function<bool()>& over) {
    if (over()) return Status::ok();
    Wait wait(surroundings_);
    while (!over()) {
        if (wait.until() == Wait::TimePoint::max()) completed_.wait(lock);
        else (void)completed_.wait_until(lock, wait.until());
        if (over()) break;
        const std::uint64_t progress_ns = progress_ns_;
        lock.unlock();
        const bool given_up = wait.over(progress_ns);
        lock.lock();
        if (given_up && !over()) return timed_out_locked();
    }
    return Status::ok();
}

Status StagedFile::timed_out_locked() const {
    return {Code::kUnavailable,
            fmt::format("nothing has reached {} for {} seconds; {} bytes of it are in the staging log, and `forebay recover` brings "
                        "them home if this process cannot",
                        path_, surroundings_.options().patience, pending_bytes_locked()),
            ETIMEDOUT, true};
}

// Writes are under way, and none has ended for so long.
bool StagedFile::stalled_locked() const noexcept {
    const std::uint64_t patience_ns = surroundings_.options().patience * kSecondNs;
    return patience_ns != 0 && running_ > 0 && monotonic_ns() >= std::max(busy_since_ns_, progress_ns_) + patience_ns;
}

}   // namespace forebay::stage
