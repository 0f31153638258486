#include "index/staged_bytes.h"

#include <algorithm>

namespace forebay::index {

// The new records that are worth gathering.
struct StagedBytes::Offered {
    std::vector<Gatherer::Record> records;
    std::uint64_t bytes = 0;
    bool others = false;   // some records are not worth gathering

    void add(std::span<const ByteRange> extents, const StagedPlace& at, std::uint64_t record_bytes, bool waits,
             std::uint64_t committed_size) {
        if (waits || !Gatherer::wants(extents.size(), record_bytes) || extents.front().begin < committed_size) {
            others = true;
            return;
        }
        records.push_back({extents, at.segment, at.offset, at.sequence, at.generation});
        bytes += record_bytes;
    }
};

StagedBytes::Offered StagedBytes::offer(group::RecordOrder& order, FileBounds& bounds) {
    Offered offered;
    if (own_.take(own_batch_)) {
        bounds.reach(own_batch_.end);
        const ByteRange* extent = own_batch_.extents.data();
        for (const OwnRecords::Record& record : own_batch_.records) {
            offered.add({extent, record.extents}, record.at, record.bytes, record.waits, bounds.committed_size);
            extent += record.extents;
        }
    }
    order.visit_found([&](const group::RecordOrder::Record& record) {
        const bool waits = record.kind != log::RecordKind::kData || record.data_class != log::DataClass::kRaw;
        offered.add(record.extents,
                    {record.segment, record.payload, record.sequence, static_cast<std::uint32_t>(record.generation)},
                    record.bytes, waits, bounds.committed_size);
    });
    return offered;
}

bool StagedBytes::take_in(group::RecordOrder& order, FileBounds& bounds, std::uint64_t run_max,
                          std::uint64_t gather_below) {
    gathered_.clear();
    const Offered offered = offer(order, bounds);
    if (!offered.others && !offered.records.empty() && offered.bytes < gather_below) return false;
    if (!offered.records.empty()) gather(offered.records, bounds, run_max);
    // The drainer finds a record of another process that follows one of its own only after it noted its own.
    take_in_own(bounds);
    order.visit_found([&](const group::RecordOrder::Record& record) { take_in(record, bounds); });
    order.followed();
    gathered_.clear();
    return true;
}

// Stages scattered pieces as runs, if no byte of the runs' ranges is staged yet; other processes write the neighbouring
// pieces at about the same time. The index takes in all other records one by one. If memory runs out, records in the
// index may be inserted once more.
void StagedBytes::gather(const std::vector<Gatherer::Record>& records, const FileBounds& bounds,
                         std::uint64_t run_max) {
    auto runs = gatherer_.gather(records, run_max);
    if (!runs) return;
    for (const auto& run : runs->gathered)
        if (!index_.nothing_in(run->range())) return;
    gathered_.reserve(records.size());
    for (auto& run : runs->gathered) index_.insert(std::move(run));
    for (const auto& [range, record, payload] : runs->loose) {
        const auto& from = records[record];
        index_.insert_unless_newer(range, {from.segment, payload, from.sequence, from.generation},
                                   bounds.committed_size, bounds.committed_size);
    }
    for (const auto& record : records) gathered_.emplace_back(record.segment, record.payload);
    std::sort(gathered_.begin(), gathered_.end());
}

bool StagedBytes::is_gathered(const log::Segment* segment, std::uint64_t payload) const noexcept {
    return std::binary_search(gathered_.begin(), gathered_.end(), std::pair(segment, payload));
}

void StagedBytes::take_in_own(FileBounds& bounds) {
    while (own_.take(own_batch_)) take_in_own_batch(bounds);
}

// This function may be called again after a failed allocation: a record in the index replaces itself.
void StagedBytes::take_in_own_batch(FileBounds& bounds) {
    for (const ByteRange& extent : own_batch_.extents) bounds.reach(extent.end);
    bounds.dirty = true;
    auto extent = own_batch_.extents.begin();
    for (const OwnRecords::Record& record : own_batch_.records) {
        StagedPlace at = record.at;
        if (at.segment->first_time_ns == 0) at.segment->first_time_ns = record.time_ns;
        if (is_gathered(at.segment, at.offset)) {
            extent += static_cast<std::ptrdiff_t>(record.extents);
            continue;
        }
        for (std::size_t i = 0; i < record.extents; ++i, ++extent) {
            index_.insert_unless_newer(*extent, at, record.waits ? kOffsetMax : bounds.committed_size,
                                       bounds.committed_size);
            at = at.advanced(extent->size());
        }
    }
    own_.done(own_batch_);
}

// Takes in a record of another participant. Markers are the drainer's own.
void StagedBytes::take_in(const group::RecordOrder::Record& record, FileBounds& bounds) {
    if (record.kind == log::RecordKind::kBypass) {
        record.segment->order.note_bypass(record.sequence, record.argument != log::kSupersedesNothing);
        for (const ByteRange& range : record.extents) index_.drop_older(range, record.sequence);
        if (bounds.several_nodes) return;
        // The target, and with it the file, may be longer now.
        for (const ByteRange& range : record.extents) {
            bounds.reach(range.end);
            bounds.target_size = std::max(bounds.target_size, range.end);
        }
        bounds.dirty = true;
        return;
    }
    if (record.kind != log::RecordKind::kData) return;
    bounds.dirty = true;
    if (is_gathered(record.segment, record.payload)) {
        bounds.reach(record.extents.back().end);
        return;
    }
    const std::uint64_t hold_below = record.data_class == log::DataClass::kMetadata ? kOffsetMax
                                                                                    : bounds.committed_size;
    std::uint64_t payload = record.payload;
    for (const ByteRange& range : record.extents) {
        index_.insert_unless_newer(range,
                                   {record.segment, payload, record.sequence,
                                    static_cast<std::uint32_t>(record.generation), record.data_class},
                                   hold_below, bounds.committed_size);
        bounds.reach(range.end);
        payload += range.size();
    }
}

}   // namespace forebay::index
