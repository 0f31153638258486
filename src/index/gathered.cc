#include "index/gathered.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "io/guarded_access.h"

namespace forebay::index {

namespace {

// Gathering does not pay for records with fewer pieces, or with larger ones.
constexpr std::size_t kPiecesMin = 64;
constexpr std::uint64_t kPieceBytesMax = 1024;   // on average
constexpr std::uint32_t kNone = UINT32_MAX;
// A run with fewer pieces is staged piece by piece. A longer run is split, so that the notes about its pieces stay in
// the processor's cache: touching fresh memory costs more than merging them.
constexpr std::size_t kRunMin = 8, kRunMax = 16384;

// Most pieces are one or two numbers.
void copy_piece(std::byte* to, const std::byte* from, std::uint64_t size) noexcept {
    if (size == 8) std::memcpy(to, from, 8);
    else if (size == 16) std::memcpy(to, from, 16);
    else std::memcpy(to, from, size);
}

}   // namespace

bool Gatherer::wants(std::size_t pieces, std::uint64_t bytes) noexcept {
    return pieces >= kPiecesMin && bytes / pieces <= kPieceBytesMax;
}

std::optional<Gatherer::Runs> Gatherer::gather(std::span<const Record> records, std::uint64_t cut) {
    waiting_.clear();
    active_.clear();
    run_.clear();
    source_of_.clear();
    for (std::size_t i = 0; i < records.size(); ++i) {
        const auto& extents = records[i].extents;
        if (!extents.empty())
            waiting_.push_back({extents.data(), extents.data() + extents.size(), i, records[i].payload});
    }
    const auto later = [](const Cursor& one, const Cursor& other) { return one.next->begin > other.next->begin; };
    std::sort(waiting_.begin(), waiting_.end(), later);

    Runs runs;
    std::uint64_t end = 0;   // of all pieces so far
    while (!active_.empty() || !waiting_.empty()) {
        if (active_.empty() || (!waiting_.empty() && waiting_.back().next->begin < active_.back().next->begin)) {
            active_.push_back(waiting_.back());
            waiting_.pop_back();
        }
        Cursor& first = active_.back();
        const ByteRange piece = *first.next;
        if (piece.begin < end || piece.empty()) return std::nullopt;
        if (!run_.empty() &&
            (piece.begin != end || run_.size() == kRunMax || piece.begin / cut != run_.front().range.begin / cut))
            if (!finish_run(records, runs)) return std::nullopt;
        run_.push_back({piece, first.payload, first.record});
        end = piece.end;
        first.payload += piece.size();
        if (++first.next == first.end) {
            active_.pop_back();
            continue;
        }
        // Moves the cursor to its sorted place: few cursors are active at a time, and they mostly take turns.
        for (std::size_t at = active_.size() - 1; at > 0 && later(active_[at], active_[at - 1]); --at)
            std::swap(active_[at], active_[at - 1]);
    }
    if (!finish_run(records, runs)) return std::nullopt;
    return runs;
}

bool Gatherer::finish_run(std::span<const Record> records, Runs& runs) {
    if (run_.size() < kRunMin) {
        for (const Taken& piece : run_) runs.loose.push_back({piece.range, piece.record, piece.payload});
        run_.clear();
        return true;
    }
    auto run = std::unique_ptr<Gathered>(new Gathered);
    run->range_ = {run_.front().range.begin, run_.back().range.end};
    run->bytes_ = std::make_unique_for_overwrite<std::byte[]>(run->range_.size());
    run->pieces_.reserve(run_.size());
    run->oldest_ = kOffsetMax;
    source_of_.resize(records.size(), kNone);
    std::uint64_t at = 0;
    for (const Taken& piece : run_) {
        std::uint32_t& source = source_of_[piece.record];
        if (source == kNone) {
            const Record& record = records[piece.record];
            source = static_cast<std::uint32_t>(run->sources_.size());
            run->sources_.push_back({record.segment, record.sequence, 0});
            run->oldest_ = std::min(run->oldest_, record.sequence);
            run->newest_ = std::max(run->newest_, record.sequence);
        }
        Gathered::Source& taken = run->sources_[source];
        taken.bytes += piece.range.size();
        run->pieces_.push_back({static_cast<std::uint32_t>(at), source});
        at += piece.range.size();
    }
    if (!copy_run(records, run->sources_, run->bytes_.get())) {
        run_.clear();
        return false;
    }
    for (const Taken& piece : run_) source_of_[piece.record] = kNone;
    run_.clear();
    runs.gathered.push_back(std::move(run));
    return true;
}

// Returns false if the staging device failed under a mapping (io/guarded_access.h).
bool Gatherer::copy_run(std::span<const Record> records, std::span<const Gathered::Source> sources,
                        std::byte* to) const noexcept {
    // The guarded range spans several mappings. The copy touches no byte between them.
    const std::byte* low = sources.front().segment->bytes().data();
    const std::byte* high = low;
    for (const Gathered::Source& source : sources) {
        const io::Bytes bytes = source.segment->bytes();
        if (std::less<>{}(bytes.data(), low)) low = bytes.data();
        if (std::less<>{}(high, bytes.data() + bytes.size())) high = bytes.data() + bytes.size();
    }
    const std::span<const Taken> pieces = run_;
    return io::guarded({low, high}, [=]() noexcept {
               std::byte* at = to;
               for (const Taken& piece : pieces) {
                   copy_piece(at, records[piece.record].segment->at(piece.payload), piece.range.size());
                   at += piece.range.size();
               }
           }) == nullptr;
}

}   // namespace forebay::index
