#include "throttle.h"

#include <algorithm>

namespace forebay::slowfs {

std::int64_t Throttle::Timeline::take(std::uint64_t size_bytes, std::int64_t arrival_ns) noexcept {
    if (bytes_per_second == 0) return arrival_ns;
    const double duration_ns = static_cast<double>(size_bytes) * 1e9 / static_cast<double>(bytes_per_second);
    free_ns = std::max(free_ns, arrival_ns) + static_cast<std::int64_t>(duration_ns);
    return free_ns;
}

std::int64_t Throttle::transfer_end(Op op, std::uint64_t size_bytes, std::int64_t arrival_ns, pid_t caller) {
    if (size_bytes == 0 || (op != Op::kRead && op != Op::kWrite)) return arrival_ns;
    const Channel own = op == Op::kRead ? Channel::kRead : Channel::kWrite;
    const std::int64_t end = std::max(timelines_[static_cast<std::size_t>(Channel::kShared)].take(size_bytes,
                                                                                                  arrival_ns),
                                      timelines_[static_cast<std::size_t>(own)].take(size_bytes, arrival_ns));
    if (caller_bytes_per_second_ == 0) return end;
    if (callers_.size() >= kCallersKept && !callers_.contains(caller))
        std::erase_if(callers_, [arrival_ns](const auto& one) { return one.second.free_ns <= arrival_ns; });
    Timeline& timeline = callers_[caller];
    timeline.bytes_per_second = caller_bytes_per_second_;
    return std::max(end, timeline.take(size_bytes, arrival_ns));
}

std::int64_t Throttle::reserve(Op op, std::uint64_t size_bytes, std::int64_t arrival_ns, pid_t caller) {
    const std::scoped_lock lock(mutex_);
    return transfer_end(op, size_bytes, arrival_ns, caller) + latencies_ns_[index_of(op)];
}

std::int64_t Throttle::reserve_rest(Op op, std::uint64_t size_bytes, std::int64_t arrival_ns, pid_t caller) {
    const std::scoped_lock lock(mutex_);
    return transfer_end(op, size_bytes, arrival_ns, caller);
}

void Throttle::set_caller_bandwidth(Caller kind, std::uint64_t bytes_per_second) {
    const std::scoped_lock lock(mutex_);
    caller_kind_ = kind;
    caller_bytes_per_second_ = bytes_per_second;
    callers_.clear();
}

std::uint64_t Throttle::caller_bandwidth(Caller kind) const {
    const std::scoped_lock lock(mutex_);
    return kind == caller_kind_ ? caller_bytes_per_second_ : 0;
}

Throttle::Caller Throttle::caller_kind() const {
    const std::scoped_lock lock(mutex_);
    return caller_kind_;
}

void Throttle::set_bandwidth(Channel channel, std::uint64_t bytes_per_second) {
    const std::scoped_lock lock(mutex_);
    timelines_[static_cast<std::size_t>(channel)] = {.bytes_per_second = bytes_per_second, .free_ns = 0};
}

std::uint64_t Throttle::bandwidth(Channel channel) const {
    const std::scoped_lock lock(mutex_);
    return timelines_[static_cast<std::size_t>(channel)].bytes_per_second;
}

void Throttle::set_latency(const OpSet& ops, std::int64_t latency_ns) {
    const std::scoped_lock lock(mutex_);
    for (std::size_t i = 0; i < kOpCount; ++i) {
        if (ops.test(i)) latencies_ns_[i] = latency_ns;
    }
}

std::int64_t Throttle::latency_ns(Op op) const {
    const std::scoped_lock lock(mutex_);
    return latencies_ns_[index_of(op)];
}

}   // namespace forebay::slowfs
