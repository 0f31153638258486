#include "recover/replay.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace forebay::recover {

namespace {

using log::RecordKind;
using log::ScannedRecord;

constexpr auto kUnaccounted = [](ByteRange, const Newest&) noexcept {};

void apply(const ScannedRecord& record, std::uint32_t log, const log::Frontier& frontier, bool several_nodes,
           Picture& picture) {
    const log::RecordHeader& header = record.header;
    if (header.kind == RecordKind::kTruncate) {
        const ByteRange beyond{header.argument, kOffsetMax};
        if (several_nodes) picture.newest.erase(beyond, kUnaccounted);
        else picture.newest.insert(beyond, Newest{}, kUnaccounted);
        return;
    }
    if (header.kind != RecordKind::kData && header.kind != RecordKind::kBypass) return;
    const bool live = header.kind == RecordKind::kData && header.sequence >= frontier.of(header.data_class);
    std::uint64_t at = record.payload_at;
    for (const ByteRange& extent : record.extents) {
        if (live) picture.newest.insert(extent, Newest{log, header.payload_checked, at}, kUnaccounted);
        else picture.newest.erase(extent, kUnaccounted);
        at += extent.size();
    }
}

}   // namespace

Picture replay(std::span<const log::ScannedLog* const> logs, const log::Frontier& frontier) {
    Picture picture;
    const bool several_nodes = logs.front()->target.sharing.kind == log::Sharing::Kind::kSeveralNodes;
    picture.size = logs.front()->committed_size;   // the size at open if there was no commit
    std::vector<std::pair<const ScannedRecord*, std::uint32_t>> records;
    for (std::uint32_t i = 0; i < logs.size(); ++i) {
        const log::ScannedLog& log = *logs[i];
        if (log.commit_sequence > picture.commit_sequence) {
            picture.commit_sequence = log.commit_sequence;
            picture.commit_time_ns = log.commit_time_ns;
            picture.size = log.committed_size;
        }
        for (const ScannedRecord& record : log.records) records.emplace_back(&record, i);
    }
    std::stable_sort(records.begin(), records.end(), [](const auto& one, const auto& other) {
        return one.first->header.sequence < other.first->header.sequence;
    });
    for (const auto& [record, log] : records) {
        const std::uint64_t sequence = record->header.sequence;
        if (sequence < frontier.lower()) continue;
        if (several_nodes || sequence <= picture.commit_sequence) {
            apply(*record, log, frontier, several_nodes, picture);
        } else if (record->header.kind == RecordKind::kData) {
            ++picture.dropped_records;
            picture.dropped_bytes += record->header.payload_bytes;
        }
    }
    if (several_nodes) picture.size.reset();
    picture.newest.for_each({0, picture.size.value_or(kOffsetMax)}, [&](ByteRange range, const Newest& newest) {
        if (newest.log == Newest::kZeros) return;
        picture.bytes += range.size();
        if (!newest.checked) picture.unchecked_bytes += range.size();
    });
    return picture;
}

}   // namespace forebay::recover
