#include "index/staged_extents.h"

namespace forebay::index {

void StagedExtents::lose(ByteRange range, const StagedPlace& place) noexcept {
    count_of(place) -= range.size();
    keepers_.lose(range, place);
}

void StagedExtents::supersede(ByteRange range, const StagedPlace& place) noexcept {
    if (!place.zeros()) superseded_bytes_ += range.size();
    lose(range, place);
}

std::vector<StagedExtents::Extent> StagedExtents::in(const log::Segment* segment) const {
    std::vector<Extent> extents;
    map_.for_each({0, kOffsetMax}, [&](ByteRange range, const StagedPlace& place) {
        if (place.segment == segment) extents.push_back({range, place});
    });
    return extents;
}

template <class Displaced>
void StagedExtents::put(ByteRange range, const StagedPlace& place, Displaced&& displaced) {
    if (range.empty()) return;
    map_.insert(range, place, displaced);
    count_of(place) += range.size();
    Keepers::gain(range, place);
}

void StagedExtents::add(ByteRange range, const StagedPlace& place) {
    put(range, place, [this](ByteRange lost, const StagedPlace& old) { supersede(lost, old); });
}

void StagedExtents::add(std::unique_ptr<Gathered> run) {
    map_.reserve(Map::kInsertNodes);
    Gathered& owned = keepers_.own(std::move(run));
    map_.insert(owned.range(), {nullptr, 0, owned.newest(), 0, log::DataClass::kRaw, &owned},
                [](ByteRange, const StagedPlace&) {});
    bytes_ += owned.range().size();
}

void StagedExtents::remove(ByteRange range) {
    map_.erase(range, [this](ByteRange lost, const StagedPlace& old) { supersede(lost, old); });
}

void StagedExtents::remove_older(ByteRange range, std::uint64_t sequence) {
    split_runs(range, sequence);
    std::vector<ByteRange> older;
    map_.for_each(range, [&](ByteRange piece, const StagedPlace& place) {
        if (place.sequence < sequence) older.push_back(piece);
    });
    for (const ByteRange& piece : older) remove(piece);
}

void StagedExtents::relocate(ByteRange range, const StagedPlace& place) {
    std::vector<ByteRange> still;
    map_.for_each(range, [&](ByteRange piece, const StagedPlace& old) {
        if (old.sequence == place.sequence) still.push_back(piece);
    });
    for (const ByteRange& piece : still)
        put(piece, place.advanced(piece.begin - range.begin),
            [this](ByteRange lost, const StagedPlace& old) { lose(lost, old); });
}

void StagedExtents::split_runs(ByteRange range, std::uint64_t sequence) {
    std::vector<Extent> parts;
    map_.for_each(range, [&](ByteRange piece, const StagedPlace& there) {
        const Gathered* const run = there.gathered;
        if (run == nullptr || sequence < run->oldest() || sequence > run->newest()) return;
        const std::size_t before = parts.size();
        run->for_each(piece, [&](ByteRange part, std::uint64_t number) {
            StagedPlace place = there.advanced(part.begin - piece.begin);
            place.sequence = number;
            parts.push_back({part, place});
        });
        if (parts.size() == before + 1 && parts.back().value.sequence == there.sequence)
            parts.pop_back();   // already split
    });
    for (const Extent& part : parts)
        map_.insert(part.range, part.value, [](ByteRange, const StagedPlace&) {});   // the same bytes as before
}

void StagedExtents::take(const Extent& extent, StagedExtents& from) {
    from.map_.reserve(Map::kEraseNodes);
    map_.reserve(Map::kInsertNodes);
    from.map_.erase(extent.range, [](ByteRange, const StagedPlace&) {});
    from.count_of(extent.value) -= extent.range.size();
    map_.insert(extent.range, extent.value, [this](ByteRange lost, const StagedPlace& old) { supersede(lost, old); });
    count_of(extent.value) += extent.range.size();
}

void StagedExtents::take_all(StagedExtents& from) {
    std::uint64_t taken_to = 0;
    try {
        from.map_.for_each({0, kOffsetMax}, [&](ByteRange range, const StagedPlace& place) {
            add(range, place);
            from.lose(range, place);
            taken_to = range.end;
        });
    } catch (...) {
        from.map_.erase({0, taken_to}, [](ByteRange, const StagedPlace&) {});   // their accounts are settled
        throw;
    }
    from.map_.clear();
}

void StagedExtents::swap(StagedExtents& other) noexcept {
    std::swap(map_, other.map_);
    std::swap(bytes_, other.bytes_);
    std::swap(zero_bytes_, other.zero_bytes_);
    std::swap(superseded_bytes_, other.superseded_bytes_);
}

void StagedExtents::clear() noexcept {
    map_.for_each({0, kOffsetMax},
                  [this](ByteRange range, const StagedPlace& place) { keepers_.forget(range, place); });
    map_.clear();
    bytes_ = zero_bytes_ = 0;
}

}   // namespace forebay::index
