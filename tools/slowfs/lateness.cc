#include "lateness.h"

#include <algorithm>

namespace forebay::slowfs {

std::int64_t Lateness::due_arrival(pid_t thread, std::uint64_t size_bytes, std::int64_t arrival_ns) const {
    const std::scoped_lock lock(mutex_);
    const Answer& last = answers_[static_cast<std::size_t>(thread) % kSlotCount];
    const std::int64_t carriage = carriage_ns(size_bytes);
    if (last.thread != thread || arrival_ns - last.answered_ns > kPauseNs + carriage) return arrival_ns;
    const std::int64_t late_ns = std::min(last.answered_ns - last.due_ns, kLatenessNsMax) + carriage;
    return std::max(last.due_ns, arrival_ns - late_ns);
}

void Lateness::answered(pid_t thread, std::int64_t due_ns, std::int64_t answered_ns) {
    const std::scoped_lock lock(mutex_);
    answers_[static_cast<std::size_t>(thread) % kSlotCount] = {
        .thread = thread, .due_ns = due_ns, .answered_ns = std::max(due_ns, answered_ns)};
}

}   // namespace forebay::slowfs
