#include "index/extent_index.h"

#include <algorithm>
#include <utility>

namespace forebay::index {

namespace {

constexpr std::size_t kInsertNodes = StagedExtents::Map::kInsertNodes, kEraseNodes = StagedExtents::Map::kEraseNodes;

// Notes that these bytes superseded a record that waits for a commit (log/frontier.h).
void note_superseded(const StagedPlace& by, ByteRange range, std::uint64_t sequence) noexcept {
    const auto note = [&](log::Segment& segment) {
        segment.order.supersedes = std::max(segment.order.supersedes, sequence);
    };
    if (by.gathered == nullptr) return note(*by.segment);
    by.gathered->for_each_record(range, [&](log::Segment& segment, std::uint64_t, std::uint64_t) { note(segment); });
}

}   // namespace

void ExtentIndex::insert(ByteRange range, const StagedPlace& bytes, std::uint64_t hold_below,
                         std::uint64_t committed_size) {
    const std::uint64_t split = std::clamp(hold_below, range.begin, range.end);
    const ByteRange held{range.begin, split}, ready{split, range.end};
    held_.reserve(kInsertNodes + kEraseNodes);
    ready_.reserve(kInsertNodes + kEraseNodes);
    held_.add(held, bytes);
    if (!ready.empty()) {
        held_.remove(ready);
        ready_.add(ready, bytes.advanced(split - range.begin));
    }
    // Beyond the committed end, the older ready bytes need no drain.
    const ByteRange beyond{std::max(held.begin, committed_size), held.end};
    if (!beyond.empty()) ready_.remove(beyond);
}

void ExtentIndex::insert_unless_newer(ByteRange range, const StagedPlace& bytes, std::uint64_t hold_below,
                                      std::uint64_t committed_size) {
    ready_.split_runs(range, bytes.sequence);
    older_.clear();
    std::uint64_t newer_bytes = 0;
    const auto take = [this](ByteRange piece) {
        if (!older_.empty() && older_.back().end == piece.begin) older_.back().end = piece.end;
        else older_.push_back(piece);
    };
    for_each_newest(
        range,
        [&](ByteRange piece, const StagedPlace& there) {
            const bool older = there.sequence <= bytes.sequence;
            if (older) take(piece);
            else newer_bytes += piece.size();
            if (there.gathered != nullptr) {
                if (!older && bytes.data_class == log::DataClass::kMetadata)
                    note_superseded(there, piece, bytes.sequence);
                return;
            }
            if (there.segment == nullptr || there.segment->participant == bytes.segment->participant) return;
            const StagedPlace& newer = older ? bytes : there;
            const StagedPlace& superseded = older ? there : bytes;
            if (superseded.data_class != log::DataClass::kMetadata) return;
            note_superseded(newer, piece, superseded.sequence);
        },
        take);
    bytes.segment->order.note(bytes.data_class, bytes.sequence, bytes.segment->live_bytes);
    for (const ByteRange& piece : older_)
        insert(piece, bytes.advanced(piece.begin - range.begin), hold_below, committed_size);
    overtaken_bytes_ += newer_bytes;
}

void ExtentIndex::insert(std::unique_ptr<Gathered> gathered) { ready_.add(std::move(gathered)); }

void ExtentIndex::clear() noexcept {
    held_.clear();
    ready_.clear();
    sent_.clear();
    drained_metadata_ = 0;
}

void ExtentIndex::truncate(std::uint64_t size, std::uint64_t until, std::uint64_t committed_size) {
    held_.reserve(kInsertNodes);   // no extent reaches beyond kOffsetMax, so a removal needs no node
    const ByteRange uncommitted{std::max(size, committed_size), kOffsetMax};
    held_.remove({size, kOffsetMax});
    ready_.remove(uncommitted);
    sent_.remove(uncommitted);
    if (size < until) held_.add({size, until}, StagedPlace{});
}

void ExtentIndex::commit(std::uint64_t size) {
    held_.remove({size, kOffsetMax});
    ready_.take_all(held_);
    ready_.remove({size, kOffsetMax});
    sent_.remove({size, kOffsetMax});
}

std::uint64_t ExtentIndex::make_held_ready() {
    const std::uint64_t bytes = held_.bytes() + held_.zero_bytes();
    ready_.take_all(held_);
    return bytes;
}

void ExtentIndex::drop(ByteRange range) {
    held_.reserve(kEraseNodes);
    ready_.reserve(kEraseNodes);
    sent_.reserve(kEraseNodes);
    held_.remove(range);
    ready_.remove(range);
    sent_.remove(range);
}

void ExtentIndex::drop_older(ByteRange range, std::uint64_t sequence) {
    held_.remove_older(range, sequence);
    ready_.remove_older(range, sequence);
    sent_.remove_older(range, sequence);
}

void ExtentIndex::note_drained(const StagedPlace& place) noexcept {
    if (place.data_class == log::DataClass::kMetadata) drained_metadata_ = std::max(drained_metadata_, place.sequence);
}

std::uint64_t ExtentIndex::erase_drained(const plan::TargetWrite& write) {
    const std::uint64_t before = ready_.bytes();
    const auto note = [this](const StagedPlace& place) { note_drained(place); };
    auto piece = write.pieces.begin();
    bool reaching_over = false;
    const auto drained = [&](ByteRange range, const StagedPlace& bytes) {
        while (piece->range.end <= range.begin) ++piece;
        reaching_over = reaching_over || range.end > piece->range.end;
        return piece->sequence == bytes.sequence && range.end <= piece->range.end;
    };
    ready_.remove_drained(write.range, drained, note);
    if (!reaching_over) return before - ready_.bytes();
    // An extent that was inserted meanwhile may span several pieces. Only zeros share a number with some of them: all
    // zeros have number 0.
    for (const plan::Piece& each : write.pieces)
        ready_.remove_drained(
            each.range, [&](ByteRange, const StagedPlace& bytes) { return bytes.sequence == each.sequence; }, note);
    return before - ready_.bytes();
}

std::uint64_t ExtentIndex::send_drained(const plan::TargetWrite& write) {
    const std::uint64_t before = ready_.bytes();
    std::vector<StagedExtents::Extent> parts;
    for (const plan::Piece& piece : write.pieces)
        ready_.map().for_each(piece.range, [&](ByteRange range, const StagedPlace& bytes) {
            if (bytes.sequence == piece.sequence) parts.push_back({range, bytes});
        });
    for (const StagedExtents::Extent& part : parts) {
        sent_.send(part, ready_);
        note_drained(part.value);
    }
    return before - ready_.bytes();
}

void ExtentIndex::resend() { sent_.resend(ready_); }

void ExtentIndex::relocate_held(ByteRange range, const StagedPlace& bytes) {
    bytes.segment->order.note(bytes.data_class, bytes.sequence, bytes.segment->live_bytes);
    held_.relocate(range, bytes);
}

}   // namespace forebay::index
