#include "log/segment_slots.h"

#include <cerrno>

namespace forebay::log {

std::uint64_t SegmentSlots::reserve() {
    if (!vacant_.empty()) {
        const std::uint64_t slot = vacant_.back();
        vacant_.pop_back();
        return slot;
    }
    segments_.emplace_back();
    // Later calls must not allocate memory.
    free_.reserve(segments_.capacity());
    vacant_.reserve(segments_.capacity());
    free_cold_.reserve(segments_.capacity());
    return segments_.size() - 1;
}

// A full device stays full. Limits of the process may change: descriptors, file size, memory.
void SegmentSlots::give_up(std::uint64_t slot, const Status& why, std::uint64_t requests) noexcept {
    const bool of_the_process = why.sys_errno() == EFBIG || why.sys_errno() == EMFILE || why.sys_errno() == ENFILE ||
                                why.sys_errno() == ENOMEM || why.sys_errno() == EAGAIN;
    vacant_.push_back(slot);
    requests_when_refused_ = requests;
    if (!of_the_process) {
        limit_ = std::min<std::uint64_t>(limit_, slot);
        vacant_.clear();   // the lower ones are not needed
    }
}

Segment* SegmentSlots::take() noexcept {
    auto& from = free_.empty() ? free_cold_ : free_;
    Segment* const segment = from.back();
    from.pop_back();
    return segment;
}

Segment* SegmentSlots::begin_warming() noexcept {
    Segment* const segment = free_cold_.back();
    free_cold_.pop_back();
    warming_ = true;
    return segment;
}

void SegmentSlots::end_warming(Segment* segment) noexcept {
    warming_ = false;
    add_coldest(segment);   // has room
}

void SegmentSlots::publish() noexcept {
    most_in_use_ = std::max(most_in_use_, allocated() - free());
    if (gauges_.allocated != nullptr) gauges_.allocated->store(allocated(), std::memory_order_relaxed);
    if (gauges_.free != nullptr) gauges_.free->store(free(), std::memory_order_relaxed);
}

}   // namespace forebay::log
