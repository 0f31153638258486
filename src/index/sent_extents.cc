#include "index/sent_extents.h"

#include <vector>

namespace forebay::index {

bool SentExtents::begin_confirm() noexcept {
    if (asking_ || !asked_.empty()) return false;
    asking_ = true;
    asked_.swap(sent_);
    return true;
}

void SentExtents::end_confirm(bool confirmed) noexcept {
    asking_ = false;
    if (confirmed) asked_.remove({0, kOffsetMax});   // whole extents, which needs no memory
}

void SentExtents::resend(StagedExtents& ready) {
    for (StagedExtents* const from : {&sent_, &asked_}) {   // newest first
        std::vector<StagedExtents::Extent> parts;
        from->map().for_each({0, kOffsetMax}, [&](ByteRange range, const StagedPlace& place) {
            ready.map().for_each_and_gap(
                range, [](ByteRange, const StagedPlace&) {},
                [&](ByteRange gap) { parts.push_back({gap, place.advanced(gap.begin - range.begin)}); });
        });
        for (const StagedExtents::Extent& part : parts) ready.take(part, *from);
        from->remove({0, kOffsetMax});   // newer bytes are ready
    }
}

void SentExtents::reserve(std::size_t nodes) {
    sent_.reserve(nodes);
    asked_.reserve(nodes);
}

void SentExtents::remove(ByteRange range) {
    sent_.remove(range);
    asked_.remove(range);
}

void SentExtents::remove_older(ByteRange range, std::uint64_t sequence) {
    sent_.remove_older(range, sequence);
    asked_.remove_older(range, sequence);
}

void SentExtents::clear() noexcept {
    sent_.clear();
    asked_.clear();
}

}   // namespace forebay::index
