#include "log/segment_list.h"

#include <algorithm>
#include <new>
#include <optional>

#include "log/format.h"

namespace forebay::log {

void SegmentList::add(Segment* segment) {
    try {
        segments_.push_back(segment);
    } catch (const std::bad_alloc&) {
        pool_.release(segment);   // recovery must not find two segments with one order
        throw;
    }
    ++next_order_;
    newest_ = segment;
}

Frontier SegmentList::needed() const noexcept {
    Frontier needed;
    for (const Segment* const segment : segments_) needed.lower_to(segment->order.needed(segment->live_bytes));
    return needed;
}

std::size_t SegmentList::idle_at_front() const noexcept {
    std::size_t count = 0;
    while (count + 1 < segments_.size() && segments_[count]->idle()) ++count;
    return count;
}

std::size_t SegmentList::may_go(const Frontier& frontier, std::uint64_t drained_metadata,
                                std::size_t keep) const noexcept {
    std::size_t count = 0;
    while (count + keep < segments_.size() && segments_[count]->idle() &&
           segments_[count]->order.may_go(frontier, drained_metadata))
        ++count;
    return count;
}

bool SegmentList::pinned() const noexcept {
    return std::any_of(segments_.begin(), segments_.end(), [](const Segment* segment) { return segment->pins > 0; });
}

Result<std::uint64_t> SegmentList::end_position() const {
    if (segments_.empty()) return std::uint64_t{0};
    const Segment& segment = *segments_.back();
    const std::optional<std::uint64_t> tail = segment.published_tail();
    if (!tail) return segment.fault(segment.at(kTailOffset));
    return log_position(next_order_ - 1, *tail, pool_.segment_bytes());
}

void SegmentList::release_oldest() {
    pool_.release(segments_.front());
    segments_.pop_front();
    if (segments_.empty()) newest_ = nullptr;
}

void SegmentList::release_all() {
    while (!segments_.empty()) release_oldest();
}

void SegmentList::abandon() noexcept {
    segments_.clear();
    newest_ = nullptr;
}

}   // namespace forebay::log
