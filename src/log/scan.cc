#include "log/scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "log/log_assembly.h"
#include "log/record_cursor.h"

namespace forebay::log {

namespace {

// Segments are mapped, so their sizes are whole pages.
constexpr std::uint64_t kPage = 4096;
// A segment's header and open record with the longest path that the system allows.
constexpr std::uint64_t kOpenRecordMax = 2 * kPage;

using Found = RecordCursor::Found;

// Reads as much of `into` as the file has; the rest is zeros.
Status read_or_zeros(io::File& file, std::uint64_t offset, io::MutableBytes into) {
    const auto got = file.read_at(offset, into);
    if (!got) return got.status();
    std::fill(into.begin() + static_cast<std::ptrdiff_t>(got.value()), into.end(), std::byte{0});
    return Status::ok();
}

// The size of the segments, from the first header, in use or given back. 0: no segment was ever used.
Result<std::uint64_t> find_segment_bytes(io::File& file, std::uint64_t file_bytes) {
    std::array<std::byte, kSegmentHeaderBytes> header{};
    bool anything = false;
    for (std::uint64_t begin = 0; begin < file_bytes; begin += kPage) {
        FOREBAY_TRY(read_or_zeros(file, begin, header));
        const auto stated = decode_segment_bytes(header);
        if (!stated && stated.status().code() == Code::kUnsupported) return stated.status();
        // The process may have died while it began the first segment.
        const bool begun = stated || begin > 0 || load_le<std::uint64_t>(header.data()) != 0;
        anything = anything || (begun && header != std::array<std::byte, kSegmentHeaderBytes>{});
        if (!stated && begun) continue;
        const std::uint64_t bytes = stated ? stated.value() : segment_bytes_being_begun(header);
        if (bytes >= kPage && bytes % kPage == 0 && begin % bytes == 0 && bytes <= file_bytes - begin) return bytes;
    }
    if (anything) return Status(Code::kCorrupt, "no segment header");
    return std::uint64_t{0};
}

// A segment, loaded on demand: a log of large writes is mostly payloads without checksum. Bytes not loaded are junk.
class FileSegment final : public SegmentBytes {
  public:
    // The first `loaded` bytes of the buffer are loaded already.
    FileSegment(io::File& file, std::uint64_t begin, io::MutableBytes buffer, std::uint64_t loaded)
        : SegmentBytes(buffer), file_(file), begin_(begin), buffer_(buffer), loaded_(loaded) {}

    // Loads no bytes between the last part loaded and `from`.
    Status load(std::uint64_t from, std::uint64_t until) override {
        if (until <= loaded_) return Status::ok();
        from = std::max(from, loaded_);
        const std::uint64_t end = std::min<std::uint64_t>(buffer_.size(), std::max(until, from + kAhead));
        FOREBAY_TRY(read_or_zeros(file_, begin_ + from, buffer_.subspan(from, end - from)));
        loaded_ = end;
        return Status::ok();
    }

  private:
    static constexpr std::uint64_t kAhead = 64 << 10;
    io::File& file_;
    const std::uint64_t begin_;
    const io::MutableBytes buffer_;
    std::uint64_t loaded_;
};

// Looks for records behind the torn place where the cursor stands, up to the first commit.
void look_behind_damage(RecordCursor cursor, SegmentBytes& bytes, ScannedSegment& segment) {
    for (; !segment.hides_commit && cursor.search(bytes, segment.header.tail) == Found::kRecord; cursor.advance()) {
        segment.hides_record = true;
        segment.hides_commit = cursor.record().header.kind == RecordKind::kCommit;
    }
}

// Reads the records below the tail, up to the first damaged one. Returns the error of reading the file.
Status read_records(FileSegment& bytes, ScannedSegment& segment) {
    const std::uint64_t tail = segment.header.tail;
    RecordCursor& cursor = segment.cursor;
    Found found;
    for (; (found = cursor.look(bytes, tail, PayloadCheck::kVerify)) == Found::kRecord; cursor.advance()) {
        DecodedRecord& record = cursor.record();
        if (record.header.kind == RecordKind::kOpen) continue;
        segment.records.push_back({record.header, std::move(record.extents),
                                   segment.begin + cursor.payload_position()});
    }
    if (found == Found::kEnd) return Status::ok();
    if (found == Found::kUnreadable) return cursor.why();
    FOREBAY_TRY(bytes.load(cursor.position(), tail));
    segment.unread_bytes = tail - cursor.position();
    look_behind_damage(cursor, bytes, segment);
    segment.damage = Status(Code::kCorrupt, fmt::format("record at offset {}: {}", segment.begin + cursor.position(),
                                                        cursor.why().message()));
    return Status::ok();
}

auto key_of(const SegmentHeader& header) {
    return std::tuple(header.process.pid, header.process.start_ticks, header.process.boot_id, header.log);
}

// Reads the front of each segment of the file into `buffer`, which gets the segments' size. Calls `visit` with the
// segment's place and its header, or the header's damage. Leaves out free segments.
template <class Visit>
Status visit_segments(io::File& file, std::uint64_t front_bytes, std::vector<std::byte>& buffer, Visit&& visit) {
    const auto file_bytes = file.size();
    if (!file_bytes) return file_bytes.status();
    const auto segment_bytes = find_segment_bytes(file, file_bytes.value());
    if (!segment_bytes) return segment_bytes.status().with_context("scan " + file.name());
    buffer.resize(segment_bytes.value());
    for (std::uint64_t begin = 0; !buffer.empty() && begin < file_bytes.value(); begin += buffer.size()) {
        FOREBAY_TRY(read_or_zeros(file, begin, std::span(buffer).first(std::min(buffer.size(), front_bytes))));
        const auto header = decode_segment_header(buffer);
        if (header || header.status().code() != Code::kNotFound) FOREBAY_TRY(visit(begin, header));
    }
    return Status::ok();
}

Status tail_moved() { return {Code::kCorrupt, "its tail is not where it was"}; }

// Finds segments of one log, in ascending order, whose records continue behind the tail. The newest segment may have
// such a record, which was never published. In any other the tail is wrong; it has no checksum.
Status check_tails(io::File& file, std::vector<ScannedSegment>& segments, io::MutableBytes buffer) {
    const std::uint64_t below = tails_right_below(segments);
    for (ScannedSegment& segment : segments) {
        if (segment.damage || segment.header.order >= below) continue;
        FileSegment bytes(file, segment.begin, buffer, segment.header.tail);
        // The first record is appended before a later segment begins.
        const Found found = segment.open() ? segment.cursor.look(bytes, buffer.size(), PayloadCheck::kTrust)
                                           : Found::kRecord;
        // No byte behind the tail of a durable segment was promised, so it may be unreadable.
        const bool durable = segment.open() && segment.open()->header.durable;
        if (found == Found::kUnreadable && !durable) return segment.cursor.why();
        if (found != Found::kRecord) continue;
        segment.damage = tail_moved();
        segment.hides_record = true;
        segment.hides_commit = true;
    }
    return Status::ok();
}

}   // namespace

Result<std::vector<ScannedLog>> scan(io::File& file) {
    std::map<decltype(key_of({})), std::vector<ScannedSegment>> by_log;
    std::vector<Status> anybodys;    // damage of segments whose log is unknown
    std::vector<std::byte> buffer;   // for one segment
    const auto read = [&](std::uint64_t begin, const Result<SegmentHeader>& header) {
        if (header.status().code() == Code::kUnsupported) return header.status().with_context("scan " + file.name());
        if (!header) {
            anybodys.push_back(header.status().with_context(fmt::format("segment at offset {}", begin)));
            return Status::ok();
        }
        const auto front = std::span(buffer).first(kSegmentHeaderBytes);
        ScannedSegment segment{begin, header.value(), newest_target_state(front, header.value().use)};
        FileSegment bytes(file, begin, std::span(buffer).first(segment.header.tail), front.size());
        FOREBAY_TRY(read_records(bytes, segment));
        by_log[key_of(segment.header)].push_back(std::move(segment));
        return Status::ok();
    };
    FOREBAY_TRY(visit_segments(file, kSegmentHeaderBytes, buffer, read));
    if (by_log.empty() && !anybodys.empty()) return anybodys.front().with_context("scan " + file.name());
    std::vector<ScannedLog> logs;
    for (auto& [key, segments] : by_log) {
        std::ranges::stable_sort(segments, {}, [](const ScannedSegment& segment) { return segment.header.order; });
        FOREBAY_TRY(check_tails(file, segments, buffer));
        ScannedLog& log = logs.emplace_back(assemble(std::move(segments)));
        log.damage.insert(log.damage.end(), anybodys.begin(), anybodys.end());
        if (!anybodys.empty() && !log.durable) log.lost_after = 0;
        // Such a segment may have the records of a log that has no readable one.
        if (anybodys.empty() || !log.target.path.empty()) continue;
        log.hides_record = true;
        log.hides_commit = true;
    }
    return logs;
}

namespace {

// Finds a log, by the headers of its segments, whose first record is gone: a segment without records is older than
// another one. A durable log may lose the records of any segment with the power (check_tails).
class EmptySegments {
  public:
    void add(std::uint64_t begin, const SegmentHeader& header) {
        Log& log = logs_[key_of(header)];
        if (!log.newest || *log.newest < header.order) log.newest = header.order;
        if (header.tail > kSegmentHeaderBytes || (log.empty && *log.empty < header.order)) return;
        log.empty = header.order;
        log.empty_at = begin;
    }
    void note_durable(const SegmentHeader& header) { logs_[key_of(header)].durable = true; }
    // The place of such a segment; none: there is none.
    [[nodiscard]] std::optional<std::uint64_t> find_older() const {
        for (const auto& [key, log] : logs_)
            if (!log.durable && log.empty && *log.empty < *log.newest) return log.empty_at;
        return std::nullopt;
    }

  private:
    struct Log {
        std::optional<std::uint64_t> newest, empty;   // orders
        std::uint64_t empty_at = 0;
        bool durable = false;
    };
    std::map<decltype(key_of({})), Log> logs_;
};

}   // namespace

Result<std::vector<OpenPayload>> scan_targets(io::File& file, Status* unread) {
    std::vector<OpenPayload> targets;
    EmptySegments empty;
    std::vector<std::byte> buffer;
    const auto note = [&](std::uint64_t begin, const Status& why) {
        if (!why && unread != nullptr && unread->is_ok())
            *unread = why.with_context(fmt::format("scan {}: segment at offset {}", file.name(), begin));
    };
    FOREBAY_TRY(visit_segments(file, kOpenRecordMax, buffer, [&](std::uint64_t begin, const auto& header) {
        Status why = header.status();
        if (header) empty.add(begin, header.value());
        if (header && header.value().tail > kSegmentHeaderBytes) {
            const auto front = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), kOpenRecordMax));
            FileSegment bytes(file, begin, front, front.size());
            RecordCursor cursor(header.value().use);
            if (cursor.look(bytes, front.size(), PayloadCheck::kVerify) == Found::kRecord) {
                targets.push_back(cursor.opening()->target);
                if (cursor.opening()->header.durable) empty.note_durable(header.value());
            } else {
                why = cursor.why();
            }
        }
        note(begin, why);
        return Status::ok();
    }));
    if (const auto begin = empty.find_older()) note(*begin, tail_moved());
    return targets;
}

Status store_target_state(io::File& file, const ScannedLog& log, const TargetState& state) {
    return file.write_at(log.state_at + state_offset(state.serial), encode(state, log.state_use));
}

Status free_segments(io::File& file, std::span<const std::uint64_t> oldest_first, bool durable) {
    const std::array<std::byte, 8> no_magic{};
    if (oldest_first.empty()) return Status::ok();
    const std::uint64_t newest = oldest_first.back();
    const auto others = oldest_first.first(oldest_first.size() - 1);
    if (durable && !others.empty()) {
        std::array<std::byte, 8> order{};
        const auto got = file.read_at(newest + kOrderOffset, order);
        if (!got) return got.status();
        FOREBAY_TRY(file.write_at(newest + kNeededOffset, order));
        FOREBAY_TRY(file.sync());
    }
    for (const std::uint64_t begin : others) FOREBAY_TRY(file.write_at(begin, no_magic));
    if (durable && !others.empty()) FOREBAY_TRY(file.sync());
    FOREBAY_TRY(file.write_at(newest, no_magic));
    return durable ? file.sync() : Status::ok();
}

}   // namespace forebay::log
