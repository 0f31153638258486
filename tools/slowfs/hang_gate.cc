#include "hang_gate.h"

#include <algorithm>
#include <chrono>

namespace forebay::slowfs {

HangEnd HangGate::wait(std::uint64_t seen, std::int64_t ns_max, const std::function<bool()>& interrupted) {
    using Clock = std::chrono::steady_clock;
    constexpr std::chrono::milliseconds kInterval(20);
    const auto begin = Clock::now();
    std::unique_lock lock(mutex_);
    waiting_ += 1;
    HangEnd end = HangEnd::kReleased;
    while (true) {
        auto until = Clock::now() + kInterval;
        if (ns_max > 0) until = std::min(until, begin + std::chrono::nanoseconds(ns_max));
        changed_.wait_until(lock, until, [&] { return stopped_ || releases_ != seen; });
        if (stopped_) end = HangEnd::kStopped;
        if (stopped_ || releases_ != seen) break;
        if (ns_max > 0 && Clock::now() - begin >= std::chrono::nanoseconds(ns_max)) {
            end = HangEnd::kTimedOut;
            break;
        }
        lock.unlock();
        const bool give_up = interrupted();
        lock.lock();
        if (give_up) {
            end = HangEnd::kInterrupted;
            break;
        }
    }
    waiting_ -= 1;
    return end;
}

void HangGate::release() {
    const std::scoped_lock lock(mutex_);
    releases_ += 1;
    changed_.notify_all();
}

void HangGate::stop() {
    const std::scoped_lock lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
}

std::size_t HangGate::waiting() const {
    const std::scoped_lock lock(mutex_);
    return waiting_;
}

}   // namespace forebay::slowfs
