#include "drain/arrivals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace forebay::drain {

void Arrivals::announce() noexcept {
    ++arrivals_;
    ended_.notify_all();
}

Status Arrivals::await(Mutex& mutex, const std::function<bool()>& over) {
    if (over()) return Status::ok();
    Wait wait(context_);
    while (!over()) {
        if (wait.until() == Wait::TimePoint::max()) ended_.wait(mutex);
        else (void)ended_.wait_until(mutex, wait.until());
        if (over()) break;
        const std::uint64_t progress_ns = progress_ns_;
        bool given_up;
        {
            const Unlocked meanwhile(mutex);
            given_up = wait.over(progress_ns);
        }
        if (given_up && !over()) return timed_out();
    }
    return Status::ok();
}

Status Arrivals::await_next(Mutex& mutex) {
    return await(mutex, [this, seen = arrivals_] { return arrivals_ != seen; });
}

bool Arrivals::await_briefly(Mutex& mutex, std::chrono::steady_clock::time_point until) {
    if (arrivals_ == size_late_at_) return false;
    bool in_time = true;
    for (const std::uint64_t seen = arrivals_; arrivals_ == seen && in_time;)
        in_time = ended_.wait_until(mutex, until) || arrivals_ != seen;
    if (!in_time) size_late_at_ = arrivals_;
    return in_time;
}

void Arrivals::wait_out_pause(Mutex& mutex, Failures& failures) {
    WaitClock& clock = context_.progress.clock();
    while (failures.pausing(clock.now_ns())) (void)ended_.wait_until(mutex, clock.wake_at(failures.retry_at_ns()));
}

bool Arrivals::stalled(const WriteQueue& queue) const noexcept {
    const std::uint64_t patience = patience_ns(context_.options);
    return patience != 0 && queue.running() > 0 &&
           context_.progress.clock().now_ns() >= std::max(queue.busy_since_ns(), progress_ns_) + patience;
}

Status Arrivals::timed_out() const {
    return {Code::kUnavailable,
            fmt::format(
                "nothing has reached {} for {} seconds; {} bytes of it are in the staging log, and `forebay recover` "
                "writes them to the file if this process cannot",
                path_, context_.options.patience, bytes_.pending_bytes()),
            ETIMEDOUT, true};
}

}   // namespace forebay::drain
