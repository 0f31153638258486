#include "index/extent_index.h"

#include <cerrno>
#include <utility>

namespace forebay::index {

namespace {

// A keeper is the address of a segment or, with this bit set, of a run.
constexpr std::uintptr_t kIsGathered = 1;
static_assert(alignof(log::Segment) > kIsGathered && alignof(Gathered) > kIsGathered);

log::Segment* segment_of(plan::Keeper keeper) noexcept {
    const auto word = static_cast<std::uintptr_t>(keeper);
    return (word & kIsGathered) != 0 ? nullptr : reinterpret_cast<log::Segment*>(word);
}

Gathered* gathered_of(plan::Keeper keeper) noexcept {
    const auto word = static_cast<std::uintptr_t>(keeper);
    return (word & kIsGathered) != 0 ? reinterpret_cast<Gathered*>(word & ~kIsGathered) : nullptr;
}

}   // namespace

plan::Keeper StagedPlace::keeper() const noexcept {
    return plan::Keeper{gathered != nullptr ? reinterpret_cast<std::uintptr_t>(gathered) | kIsGathered
                                            : reinterpret_cast<std::uintptr_t>(segment)};
}

void ExtentIndex::pin(plan::Keeper keeper) noexcept {
    if (Gathered* const gathered = gathered_of(keeper)) ++gathered->pins_;
    else if (log::Segment* const segment = segment_of(keeper)) ++segment->pins;
}

void ExtentIndex::unpin(plan::Keeper keeper) noexcept {
    if (Gathered* const gathered = gathered_of(keeper)) settle(*gathered, 0, 1);
    else if (log::Segment* const segment = segment_of(keeper)) --segment->pins;
}

bool ExtentIndex::is_gathered(plan::Keeper keeper) noexcept { return gathered_of(keeper) != nullptr; }

Status ExtentIndex::fault(plan::Keeper keeper, const std::byte* address) {
    const log::Segment* const segment = segment_of(keeper);
    return segment != nullptr ? segment->fault(address) : Status(Code::kIo, "staged bytes cannot be read", EIO);
}

// Subtracts bytes that are no longer staged and pins that ended. Destroys the run when none is left.
void ExtentIndex::settle(Gathered& gathered, std::uint64_t bytes, std::uint64_t pins) noexcept {
    gathered.live_bytes_ -= bytes;
    gathered.pins_ -= pins;
    if (gathered.live_bytes_ != 0 || gathered.pins_ != 0) return;
    const std::size_t place = gathered.place_;
    gathered_.back()->place_ = place;
    std::swap(gathered_[place], gathered_.back());
    gathered_.pop_back();
}

// Notes that these bytes superseded a record that waits for a commit (log/frontier.h).
void ExtentIndex::note_superseded(const StagedPlace& by, ByteRange range, std::uint64_t sequence) noexcept {
    const auto note = [&](log::Segment& segment) {
        segment.order.supersedes = std::max(segment.order.supersedes, sequence);
    };
    if (by.gathered == nullptr) return note(*by.segment);
    by.gathered->for_each_record(range, [&](log::Segment& segment, std::uint64_t, std::uint64_t) { note(segment); });
}

void ExtentIndex::lose(std::uint64_t& total, ByteRange range, const StagedPlace& bytes, bool superseded) noexcept {
    if (superseded && !bytes.zeros()) superseded_bytes_ += range.size();
    if (bytes.gathered != nullptr) {
        total -= range.size();
        bytes.gathered->for_each_record(range, [](log::Segment& segment, std::uint64_t, std::uint64_t lost) {
            segment.live_bytes -= lost;
        });
        settle(*bytes.gathered, range.size(), 0);
        return;
    }
    if (bytes.segment == nullptr) {
        zero_bytes_ -= range.size();
        return;
    }
    bytes.segment->live_bytes -= range.size();
    if (bytes.data_class == log::DataClass::kMetadata) bytes.segment->order.live_metadata -= range.size();
    total -= range.size();
}

void ExtentIndex::add(Map& map, std::uint64_t& total, ByteRange range, const StagedPlace& bytes) {
    if (range.empty()) return;
    map.insert(range, bytes, [&](ByteRange lost, const StagedPlace& old) { lose(total, lost, old, true); });
    if (bytes.segment == nullptr) {
        zero_bytes_ += range.size();
        return;
    }
    bytes.segment->live_bytes += range.size();
    if (bytes.data_class == log::DataClass::kMetadata) bytes.segment->order.live_metadata += range.size();
    total += range.size();
}

void ExtentIndex::remove(Map& map, std::uint64_t& total, ByteRange range, bool superseded) {
    map.erase(range, [&](ByteRange lost, const StagedPlace& old) { lose(total, lost, old, superseded); });
}

void ExtentIndex::insert(ByteRange range, const StagedPlace& bytes, std::uint64_t hold_below,
                         std::uint64_t committed_size) {
    const std::uint64_t split = std::clamp(hold_below, range.begin, range.end);
    const ByteRange held{range.begin, split}, ready{split, range.end};
    held_.reserve(Map::kInsertNodes + Map::kEraseNodes);
    ready_.reserve(Map::kInsertNodes + Map::kEraseNodes);
    add(held_, held_bytes_, held, bytes);
    if (!ready.empty()) {
        remove(held_, held_bytes_, ready, true);
        add(ready_, ready_bytes_, ready, bytes.advanced(split - range.begin));
    }
    // Beyond the committed end, the older ready bytes need no drain.
    const ByteRange beyond{std::max(held.begin, committed_size), held.end};
    if (!beyond.empty()) remove(ready_, ready_bytes_, beyond, true);
}

void ExtentIndex::insert_unless_newer(ByteRange range, const StagedPlace& bytes, std::uint64_t hold_below,
                                      std::uint64_t committed_size) {
    take_apart(ready_, range, bytes.sequence);
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
    superseded_bytes_ += newer_bytes;
}

void ExtentIndex::insert(std::unique_ptr<Gathered> gathered) {
    const ByteRange range = gathered->range();
    ready_.reserve(Map::kInsertNodes);
    gathered->place_ = gathered_.size();
    gathered_.push_back(std::move(gathered));
    Gathered& staged = *gathered_.back();
    staged.for_each_record(range, [](log::Segment& segment, std::uint64_t sequence, std::uint64_t bytes) {
        segment.order.note(log::DataClass::kRaw, sequence, segment.live_bytes);
        segment.live_bytes += bytes;
    });
    staged.live_bytes_ = range.size();
    ready_.insert(range, {nullptr, 0, staged.newest(), 0, log::DataClass::kRaw, &staged},
                  [](ByteRange, const StagedPlace&) {});
    ready_bytes_ += range.size();
}

// Splits runs that have records both older and newer than `sequence`, so that each piece has one number.
void ExtentIndex::take_apart(Map& map, ByteRange range, std::uint64_t sequence) {
    parts_.clear();
    map.for_each(range, [&](ByteRange piece, const StagedPlace& there) {
        if (there.gathered == nullptr || sequence < there.gathered->oldest() || sequence > there.gathered->newest())
            return;
        const std::size_t before = parts_.size();
        there.gathered->for_each(piece, [&](ByteRange part, std::uint64_t number) {
            parts_.push_back({part,
                              {nullptr, part.begin - there.gathered->range().begin, number, 0, log::DataClass::kRaw,
                               there.gathered}});
        });
        if (parts_.size() == before + 1 && parts_.back().value.sequence == there.sequence)
            parts_.pop_back();   // already split
    });
    for (const Map::Extent& part : parts_) {
        map.reserve(Map::kInsertNodes);
        map.insert(part.range, part.value, [](ByteRange, const StagedPlace&) {});   // the same bytes as before
    }
}

void ExtentIndex::clear() noexcept {
    for (Map* const map : {&ready_, &sent_, &asked_}) {
        map->for_each({0, kOffsetMax}, [this](ByteRange range, const StagedPlace& bytes) {
            if (bytes.gathered != nullptr) settle(*bytes.gathered, range.size(), 0);
        });
        map->clear();
    }
    held_.clear();
    held_bytes_ = ready_bytes_ = sent_bytes_ = zero_bytes_ = drained_metadata_ = 0;
}

void ExtentIndex::truncate(std::uint64_t size, std::uint64_t until, std::uint64_t committed_size) {
    held_.reserve(Map::kInsertNodes);   // no extent reaches beyond kOffsetMax, so a removal needs no node
    remove(held_, held_bytes_, {size, kOffsetMax}, true);
    remove(ready_, ready_bytes_, {std::max(size, committed_size), kOffsetMax}, true);
    remove_sent({std::max(size, committed_size), kOffsetMax});
    if (size < until) add(held_, held_bytes_, {size, until}, StagedPlace{});
}

void ExtentIndex::move_held_to_ready() {
    std::uint64_t moved_to = 0;
    try {
        held_.for_each({0, kOffsetMax}, [&](ByteRange range, const StagedPlace& bytes) {
            add(ready_, ready_bytes_, range, bytes);
            lose(held_bytes_, range, bytes, false);
            moved_to = range.end;
        });
    } catch (...) {
        held_.erase({0, moved_to}, [](ByteRange, const StagedPlace&) {});   // their accounts are settled
        throw;
    }
    held_.clear();
}

void ExtentIndex::commit(std::uint64_t size) {
    remove(held_, held_bytes_, {size, kOffsetMax}, true);
    move_held_to_ready();
    remove(ready_, ready_bytes_, {size, kOffsetMax}, true);
    remove_sent({size, kOffsetMax});
}

std::uint64_t ExtentIndex::make_held_ready() {
    if (held_.empty()) return 0;
    std::uint64_t bytes = 0;
    held_.for_each({0, kOffsetMax}, [&](ByteRange range, const StagedPlace&) { bytes += range.size(); });
    move_held_to_ready();
    return bytes;
}

void ExtentIndex::drop(ByteRange range) {
    for (Map* const map : {&held_, &ready_, &sent_, &asked_}) map->reserve(Map::kEraseNodes);
    remove(held_, held_bytes_, range, true);
    remove(ready_, ready_bytes_, range, true);
    remove_sent(range);
}

void ExtentIndex::drop_older(ByteRange range, std::uint64_t sequence) {
    const auto drop_from = [&](Map& map, std::uint64_t& total, bool superseded) {
        take_apart(map, range, sequence);
        older_.clear();
        map.for_each(range, [&](ByteRange piece, const StagedPlace& bytes) {
            if (bytes.sequence < sequence) older_.push_back(piece);
        });
        for (const ByteRange& piece : older_) {
            map.reserve(Map::kEraseNodes);
            remove(map, total, piece, superseded);
        }
    };
    drop_from(held_, held_bytes_, true);
    drop_from(ready_, ready_bytes_, true);
    drop_from(sent_, sent_bytes_, false);
    drop_from(asked_, sent_bytes_, false);
}

std::uint64_t ExtentIndex::erase_drained(const plan::TargetWrite& write) {
    const std::uint64_t before = ready_bytes_;
    const auto forget = [&](ByteRange range, const StagedPlace& bytes) {
        if (bytes.data_class == log::DataClass::kMetadata)
            drained_metadata_ = std::max(drained_metadata_, bytes.sequence);
        lose(ready_bytes_, range, bytes, false);
    };
    auto piece = write.pieces.begin();
    bool reaching_over = false;
    const auto drained = [&](ByteRange range, const StagedPlace& bytes) {
        while (piece->range.end <= range.begin) ++piece;
        reaching_over = reaching_over || range.end > piece->range.end;
        return piece->sequence == bytes.sequence && range.end <= piece->range.end;
    };
    ready_.erase_if(write.range, drained, forget);
    if (!reaching_over) return before - ready_bytes_;
    // An extent that was inserted meanwhile may span several pieces. Only zeros share a number with some of them: all
    // zeros have number 0.
    for (const plan::Piece& each : write.pieces)
        ready_.erase_if(
            each.range, [&](ByteRange, const StagedPlace& bytes) { return bytes.sequence == each.sequence; }, forget);
    return before - ready_bytes_;
}

// Collects the ready extents that the write's pieces still match, in `parts_`.
void ExtentIndex::find_drained(const plan::TargetWrite& write) {
    parts_.clear();
    for (const plan::Piece& piece : write.pieces)
        ready_.for_each(piece.range, [&](ByteRange range, const StagedPlace& bytes) {
            if (bytes.sequence == piece.sequence) parts_.push_back({range, bytes});
        });
}

// The segments' accounts stay as they are. Older sent bytes of the range need no second write.
std::uint64_t ExtentIndex::send_drained(const plan::TargetWrite& write) {
    const std::uint64_t before = ready_bytes_;
    find_drained(write);
    for (const Map::Extent& part : parts_) {
        ready_.reserve(Map::kEraseNodes);
        sent_.reserve(Map::kInsertNodes);
        ready_.erase(part.range, [](ByteRange, const StagedPlace&) {});
        sent_.insert(part.range, part.value,
                     [&](ByteRange lost, const StagedPlace& old) { lose(sent_bytes_, lost, old, false); });
        if (part.value.data_class == log::DataClass::kMetadata)
            drained_metadata_ = std::max(drained_metadata_, part.value.sequence);
        if (part.value.zeros()) continue;
        ready_bytes_ -= part.range.size();
        sent_bytes_ += part.range.size();
    }
    return before - ready_bytes_;
}

bool ExtentIndex::begin_confirm() noexcept {
    if (asking_ || !asked_.empty()) return false;
    asking_ = true;
    asked_ = std::move(sent_);
    return true;
}

void ExtentIndex::end_confirm(bool confirmed) noexcept {
    asking_ = false;
    if (!confirmed) return;
    asked_.for_each({0, kOffsetMax},
                    [&](ByteRange range, const StagedPlace& bytes) { lose(sent_bytes_, range, bytes, false); });
    asked_.clear();
}

void ExtentIndex::resend() {
    resend(sent_);   // newer than those in `asked_`
    resend(asked_);
}

void ExtentIndex::resend(Map& map) {
    parts_.clear();
    map.for_each({0, kOffsetMax}, [&](ByteRange range, const StagedPlace& bytes) {
        ready_.for_each_and_gap(
            range, [](ByteRange, const StagedPlace&) {},
            [&](ByteRange gap) { parts_.push_back({gap, bytes.advanced(gap.begin - range.begin)}); });
    });
    for (const Map::Extent& part : parts_) {
        map.reserve(Map::kEraseNodes);
        ready_.reserve(Map::kInsertNodes);
        map.erase(part.range, [](ByteRange, const StagedPlace&) {});
        ready_.insert(part.range, part.value, [](ByteRange, const StagedPlace&) {});
        if (part.value.zeros()) continue;
        sent_bytes_ -= part.range.size();
        ready_bytes_ += part.range.size();
    }
    remove(map, sent_bytes_, {0, kOffsetMax}, false);   // newer bytes are ready
}

void ExtentIndex::remove_sent(ByteRange range) {
    remove(sent_, sent_bytes_, range, false);
    remove(asked_, sent_bytes_, range, false);
}

std::vector<ExtentIndex::Map::Extent> ExtentIndex::held_in(const log::Segment* segment) const {
    std::vector<Map::Extent> extents;
    held_.for_each({0, kOffsetMax}, [&](ByteRange range, const StagedPlace& bytes) {
        if (bytes.segment == segment) extents.push_back({range, bytes});
    });
    return extents;
}

void ExtentIndex::relocate_held(ByteRange range, const StagedPlace& bytes) {
    std::vector<ByteRange> still;
    held_.for_each(range, [&](ByteRange piece, const StagedPlace& old) {
        if (old.sequence == bytes.sequence) still.push_back(piece);
    });
    bytes.segment->order.note(bytes.data_class, bytes.sequence, bytes.segment->live_bytes);
    for (const ByteRange& piece : still) {
        held_.reserve(Map::kInsertNodes + Map::kEraseNodes);
        remove(held_, held_bytes_, piece, false);
        add(held_, held_bytes_, piece, bytes.advanced(piece.begin - range.begin));
    }
}

}   // namespace forebay::index
