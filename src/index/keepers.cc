#include "index/keepers.h"

#include <utility>

namespace forebay::index {

void Keepers::pin(plan::Keeper keeper) noexcept {
    if (Gathered* const run = gathered_of(keeper)) ++run->pins_;
    else if (log::Segment* const segment = segment_of(keeper)) ++segment->pins;
}

void Keepers::unpin(plan::Keeper keeper) noexcept {
    if (Gathered* const run = gathered_of(keeper)) settle(*run, 0, 1);
    else if (log::Segment* const segment = segment_of(keeper)) --segment->pins;
}

Gathered& Keepers::own(std::unique_ptr<Gathered> run) {
    run->place_ = runs_.size();
    runs_.push_back(std::move(run));
    Gathered& owned = *runs_.back();
    owned.for_each_record(owned.range(), [](log::Segment& segment, std::uint64_t sequence, std::uint64_t bytes) {
        segment.order.note(log::DataClass::kRaw, sequence, segment.live_bytes);
        segment.live_bytes += bytes;
    });
    owned.live_bytes_ = owned.range().size();
    return owned;
}

void Keepers::gain(ByteRange range, const StagedPlace& place) noexcept {
    if (place.segment == nullptr) return;
    place.segment->live_bytes += range.size();
    if (place.data_class == log::DataClass::kMetadata) place.segment->order.live_metadata += range.size();
}

void Keepers::lose(ByteRange range, const StagedPlace& place) noexcept {
    if (place.gathered != nullptr) {
        place.gathered->for_each_record(range, [](log::Segment& segment, std::uint64_t, std::uint64_t lost) {
            segment.live_bytes -= lost;
        });
        settle(*place.gathered, range.size(), 0);
    } else if (place.segment != nullptr) {
        place.segment->live_bytes -= range.size();
        if (place.data_class == log::DataClass::kMetadata) place.segment->order.live_metadata -= range.size();
    }
}

void Keepers::forget(ByteRange range, const StagedPlace& place) noexcept {
    if (place.gathered != nullptr) settle(*place.gathered, range.size(), 0);
}

// Subtracts bytes that are no longer staged and pins that ended. Destroys the run when none is left.
void Keepers::settle(Gathered& run, std::uint64_t bytes, std::uint64_t pins) noexcept {
    run.live_bytes_ -= bytes;
    run.pins_ -= pins;
    if (run.live_bytes_ != 0 || run.pins_ != 0) return;
    const std::size_t place = run.place_;
    runs_.back()->place_ = place;
    std::swap(runs_[place], runs_.back());
    runs_.pop_back();
}

}   // namespace forebay::index
