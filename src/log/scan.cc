#include "log/scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

namespace forebay::log {

namespace {

// Segments are mapped, so their sizes are whole pages.
constexpr std::uint64_t kPage = 4096;

struct ScannedSegment {
    std::uint64_t begin = 0;   // in the file
    SegmentHeader header;
    std::optional<RecordHeader> open;   // none: the segment was taken, and nothing written yet
    OpenPayload target;
    std::vector<ScannedRecord> records;
    std::optional<Status> damage;   // what ended it before its tail
};

// Reads as much of `into` as the file has; the rest is zeros.
Status read_or_zeros(io::File& file, std::uint64_t offset, io::MutableBytes into) {
    const auto got = file.read_at(offset, into);
    if (!got) return got.status();
    std::fill(into.begin() + static_cast<std::ptrdiff_t>(got.value()), into.end(), std::byte{0});
    return Status::ok();
}

// The size of the segments as the first header states it, in use or given back. 0: no segment was ever used.
Result<std::uint64_t> find_segment_bytes(io::File& file, std::uint64_t file_bytes) {
    std::array<std::byte, kSegmentHeaderBytes> header{};
    bool anything = false;
    for (std::uint64_t begin = 0; begin < file_bytes; begin += kPage) {
        FOREBAY_TRY(read_or_zeros(file, begin, header));
        const auto stated = decode_segment_bytes(header);
        if (!stated && stated.status().code() == Code::kUnsupported) return stated.status();
        anything = anything || header != std::array<std::byte, kSegmentHeaderBytes>{};
        if (!stated) continue;
        const std::uint64_t bytes = stated.value();
        if (bytes >= kPage && bytes % kPage == 0 && begin % bytes == 0 && bytes <= file_bytes - begin) return bytes;
    }
    if (anything) return Status(Code::kCorrupt, "no segment header");
    return std::uint64_t{0};
}

// The records below the tail, up to the first one that is not right.
void read_records(io::Bytes below_tail, ScannedSegment& segment) {
    std::uint64_t at = kSegmentHeaderBytes;
    const auto wrong = [&](std::string_view what) {
        segment.damage = Status(Code::kCorrupt, fmt::format("record at offset {}: {}", segment.begin + at, what));
    };
    while (at < below_tail.size()) {
        auto decoded = decode_record(below_tail.subspan(at));
        if (!decoded) return wrong(decoded.status().message());
        DecodedRecord& record = decoded.value();
        if (segment.open.has_value() == (record.header.kind == RecordKind::kOpen))
            return wrong(segment.open ? "a second open record" : "the segment does not begin with an open record");
        if (segment.open) {
            segment.records.push_back({record.header, std::move(record.extents), {record.payload.begin(), record.payload.end()}});
        } else {
            auto target = decode_open_payload(record.payload);
            if (!target) return wrong(target.status().message());
            segment.open = record.header;
            segment.target = std::move(target).value();
        }
        at += record.bytes;
    }
}

auto key_of(const SegmentHeader& header) {
    return std::tuple(header.process.pid, header.process.start_ticks, header.process.boot_id, header.log);
}

bool same_target(const OpenPayload& one, const OpenPayload& other) {
    return one.device == other.device && one.inode == other.inode && one.path == other.path;
}

// What the segments of one log, ascending in order, say together.
ScannedLog assemble(std::vector<ScannedSegment> segments) {
    ScannedLog log;
    log.process = segments.front().header.process;
    log.log = segments.front().header.log;
    bool opened = false;
    std::optional<std::uint64_t> last_order;
    const auto committed = [&](std::uint64_t sequence, std::uint64_t size) {
        if (sequence < log.commit_sequence) return;
        log.commit_sequence = sequence;
        log.committed_size = size;
    };
    for (ScannedSegment& segment : segments) {
        const std::uint64_t order = segment.header.order;
        const auto wrong = [&](std::string_view what) {
            log.damage.emplace_back(Code::kCorrupt, fmt::format("segment {} at offset {}: {}", order, segment.begin, what));
        };
        if (last_order && order == *last_order) {
            wrong("another segment has the same place in the log");
            continue;
        }
        if (last_order && order != *last_order + 1) wrong(fmt::format("the one before it is segment {}", *last_order));
        last_order = order;
        if (segment.damage) wrong(segment.damage->message());
        if (!segment.open) continue;
        if (opened && !same_target(log.target, segment.target)) {
            wrong(fmt::format("its target is {}, that of the log {}", segment.target.path, log.target.path));
            continue;
        }
        opened = true;
        log.target = segment.target;
        committed(segment.target.commit_sequence, segment.open->argument);
        for (ScannedRecord& record : segment.records) {
            if (record.header.kind == RecordKind::kCommit) committed(record.header.sequence, record.header.argument);
            log.records.push_back(std::move(record));
        }
    }
    std::stable_sort(log.records.begin(), log.records.end(), [](const ScannedRecord& one, const ScannedRecord& other) {
        return one.header.sequence < other.header.sequence;
    });
    return log;
}

}   // namespace

Result<std::vector<ScannedLog>> scan(io::File& file) {
    const auto file_bytes = file.size();
    if (!file_bytes) return file_bytes.status();
    const auto segment_bytes = find_segment_bytes(file, file_bytes.value());
    if (!segment_bytes) return segment_bytes.status().with_context("scan " + file.name());

    std::map<decltype(key_of({})), std::vector<ScannedSegment>> segments;
    std::vector<Status> anybodys;
    std::vector<std::byte> buffer(segment_bytes.value());
    for (std::uint64_t begin = 0; !buffer.empty() && begin < file_bytes.value(); begin += buffer.size()) {
        FOREBAY_TRY(read_or_zeros(file, begin, std::span(buffer).first(kSegmentHeaderBytes)));
        const auto header = decode_segment_header(buffer);
        if (!header) {
            const Status status = header.status();
            if (status.code() == Code::kUnsupported) return status.with_context("scan " + file.name());
            if (status.code() != Code::kNotFound)
                anybodys.push_back(status.with_context(fmt::format("segment at offset {}", begin)));
            continue;
        }
        const auto below_tail = std::span(buffer).first(header.value().tail);
        FOREBAY_TRY(read_or_zeros(file, begin, below_tail));
        ScannedSegment segment;
        segment.begin = begin;
        segment.header = header.value();
        read_records(below_tail, segment);
        segments[key_of(segment.header)].push_back(std::move(segment));
    }
    if (segments.empty() && !anybodys.empty()) return anybodys.front().with_context("scan " + file.name());

    std::vector<ScannedLog> logs;
    for (auto& [key, of_one_log] : segments) {
        std::stable_sort(of_one_log.begin(), of_one_log.end(), [](const ScannedSegment& one, const ScannedSegment& other) {
            return one.header.order < other.header.order;
        });
        logs.push_back(assemble(std::move(of_one_log)));
        logs.back().damage.insert(logs.back().damage.end(), anybodys.begin(), anybodys.end());
    }
    return logs;
}

}   // namespace forebay::log
