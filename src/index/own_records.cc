#include "index/own_records.h"

#include <algorithm>
#include <utility>

namespace forebay::index {

namespace {

// The maximum capacity, in extents, that a batch keeps for reuse.
constexpr std::size_t kKeptExtents = 16 * 1024;

}   // namespace

bool OwnRecords::note(std::span<const log::FileLog::Part> parts, const Record& record, std::uint64_t enough) {
    std::uint64_t bytes = 0, end = 0;
    const std::lock_guard lock(mutex_);
    noted_.records.push_back(record);
    const std::size_t before = noted_.extents.size();
    try {
        for (const auto& part : parts) {
            noted_.extents.push_back({part.offset, part.offset + part.bytes.size()});
            bytes += part.bytes.size();
            end = std::max(end, noted_.extents.back().end);
        }
    } catch (...) {
        noted_.extents.resize(before);
        noted_.records.pop_back();
        throw;
    }
    noted_.records.back().bytes = bytes;
    noted_.end = std::max(noted_.end, end);
    record.at.segment->unindexed.fetch_add(1, std::memory_order_relaxed);
    noted_.bytes += bytes;
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
    end_.store(std::max(end, end_.load(std::memory_order_relaxed)), std::memory_order_relaxed);
    if (record.waits) return false;
    ready_bytes_.fetch_add(bytes, std::memory_order_relaxed);
    noted_.ready_bytes += bytes;
    return noted_.ready_bytes >= enough && noted_.ready_bytes - bytes < enough;
}

bool OwnRecords::take(Batch& batch) {
    const std::lock_guard lock(mutex_);
    if (batch.records.empty()) {
        std::swap(batch, noted_);
    } else if (!noted_.records.empty()) {
        batch.records.reserve(batch.records.size() + noted_.records.size());
        batch.extents.insert(batch.extents.end(), noted_.extents.begin(), noted_.extents.end());
        batch.records.insert(batch.records.end(), noted_.records.begin(), noted_.records.end());
        batch.bytes += noted_.bytes;
        batch.ready_bytes += noted_.ready_bytes;
        batch.end = std::max(batch.end, noted_.end);
        noted_.records.clear();
        noted_.extents.clear();
        noted_.bytes = noted_.ready_bytes = noted_.end = 0;
    }
    end_.store(0, std::memory_order_relaxed);
    return !batch.records.empty();
}

void OwnRecords::done(Batch& batch) noexcept {
    bytes_.fetch_sub(std::exchange(batch.bytes, 0), std::memory_order_relaxed);
    ready_bytes_.fetch_sub(std::exchange(batch.ready_bytes, 0), std::memory_order_relaxed);
    for (const Record& record : batch.records) record.at.segment->unindexed.fetch_sub(1, std::memory_order_relaxed);
    batch.records.clear();
    batch.end = 0;
    if (batch.extents.capacity() > kKeptExtents) batch.extents = {};
    else batch.extents.clear();
}

}   // namespace forebay::index
