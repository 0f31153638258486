#include "log/scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/bytes.h"
#include "log/record_cursor.h"

namespace forebay::log {

namespace {

// Segments are mapped, so their sizes are whole pages.
constexpr std::uint64_t kPage = 4096;
// A segment's header and open record with the longest path that the system allows.
constexpr std::uint64_t kOpenRecordMax = 2 * kPage;

using Found = RecordCursor::Found;

struct ScannedSegment {
    std::uint64_t begin = 0;   // in the file
    SegmentHeader header;
    std::optional<TargetState> state;
    RecordCursor cursor{header.use};   // behind the valid records
    std::vector<ScannedRecord> records{};
    std::optional<Status> damage{};   // the error that ended it before its tail
    std::uint64_t unread_bytes = 0;
    bool hides_record = false;   // a record follows the damage
    bool hides_commit = false;   // a commit does

    // None: the segment was taken, but nothing written.
    [[nodiscard]] const std::optional<RecordCursor::Opening>& open() const noexcept { return cursor.opening(); }
};

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

bool same_target(const OpenPayload& one, const OpenPayload& other) {
    return one.device == other.device && one.inode == other.inode && one.born == other.born && one.path == other.path &&
           one.sharing == other.sharing;
}

// A log is durable in all segments or in none. Any readable one tells.
std::vector<ScannedSegment>::const_iterator find_durable(const std::vector<ScannedSegment>& segments) {
    return std::ranges::find_if(segments, [](const ScannedSegment& segment) {
        return segment.open() && segment.open()->header.durable;
    });
}

void sort_by_sequence(std::vector<ScannedRecord>& records) {
    std::ranges::stable_sort(records, {}, [](const ScannedRecord& record) { return record.header.sequence; });
}

Status damage_of(const ScannedSegment& segment, std::string_view what) {
    return {Code::kCorrupt, fmt::format("segment {} at offset {}: {}", segment.header.order, segment.begin, what)};
}

// `header` is that of the commit's record, or of an open record that repeats the commit.
void take_commit(ScannedLog& log, std::uint64_t sequence, const RecordHeader& header) {
    log.commit_sequence = sequence;
    log.committed_size = header.argument;
    log.commit_time_ns = header.time_ns;
}

// Begins a log with the facts that its segments tell even if records are damaged. The segments are in ascending order.
ScannedLog begin_log(std::span<const ScannedSegment> segments) {
    ScannedLog log;
    log.process = segments.front().header.process;
    log.log = segments.front().header.log;
    for (const ScannedSegment& segment : segments) {
        log.segments.push_back(segment.begin);
        if (!segment.open()) continue;
        // Recovery notes its state in the newest segment, which is freed last.
        log.state_at = segment.begin;
        log.state_use = segment.header.use;
        if (segment.state && (!log.state || log.state->serial < segment.state->serial)) log.state = segment.state;
    }
    return log;
}

// Joins the segments of a durable log. All data of the last commit was on the device before its record, so any damage
// there counts. Bytes behind the last commit may be anything, and do not count.
class DurableAssembly {
  public:
    // `segments` are ascending in order.
    explicit DurableAssembly(std::vector<ScannedSegment> segments)
        : segments_(std::move(segments)), log_(begin_log(segments_)) {
        log_.durable = true;
        for (const ScannedSegment& segment : segments_) {
            // No writer gives back the segment that tells of it.
            const std::uint64_t needed = segment.header.needed_from;
            if (needed <= segment.header.order) needed_from_ = std::max(needed_from_, needed);
            else broken(segment, fmt::format("it tells that all segments before {} were given back", needed));
        }
        // Segments that were given back may be there again.
        std::erase_if(segments_, [&](const ScannedSegment& segment) { return segment.header.order < needed_from_; });
    }

    ScannedLog assemble() && {
        for (const ScannedSegment& segment : segments_) find_last_commit(segment);
        std::uint64_t expected = needed_from_;
        for (ScannedSegment& segment : segments_) {
            check(segment, expected);
            expected = segment.header.order + 1;
            keep_records(segment);
        }
        // The commit's record is gone. It may only be gone if the oldest segment was begun after it.
        if (!commit_order_ && log_.commit_sequence > 0 &&
            (!segments_.front().open() || segments_.front().open()->target.commit_sequence < log_.commit_sequence))
            broken(segments_.front(), "the last commit is missing");
        sort_by_sequence(log_.records);
        return std::move(log_);
    }

  private:
    void find_last_commit(const ScannedSegment& segment) {
        log_.unread_bytes += segment.unread_bytes;
        log_.hides_record = log_.hides_record || segment.hides_record;
        log_.hides_commit = log_.hides_commit || segment.hides_commit;
        if (segment.damage) log_.damage.push_back(damage_of(segment, segment.damage->message()));
        if (!segment.open()) return;
        const auto& [header, target] = *segment.open();
        if (!std::exchange(opened_, true)) {
            log_.target = target;
            log_.committed_size = header.argument;
        }
        if (target.commit_sequence > log_.commit_sequence) {
            take_commit(log_, target.commit_sequence, header);
            commit_order_.reset();
        }
        for (const ScannedRecord& record : segment.records) {
            if (record.header.kind != RecordKind::kCommit || record.header.sequence < log_.commit_sequence) continue;
            take_commit(log_, record.header.sequence, record.header);
            commit_order_ = segment.header.order;
        }
    }
    // True if the last commit covers the segment or a part of it.
    [[nodiscard]] bool promised(const ScannedSegment& segment) const noexcept {
        return commit_order_ && segment.header.order <= *commit_order_;
    }
    void check(const ScannedSegment& segment, std::uint64_t expected) {
        const std::uint64_t order = segment.header.order;
        if (promised(segment) && order != expected)
            broken(segment, fmt::format("segment {} should be there", expected));
        if (promised(segment) && (!segment.open() || !same_target(log_.target, segment.open()->target)))
            broken(segment, "its first record is missing, or names another file");
        if (promised(segment) && order < *commit_order_ && segment.damage) log_.lost_after = 0;
        if (segment.open() && segment.hides_commit) log_.lost_after = 0;
    }
    void keep_records(ScannedSegment& segment) {
        bool behind = !promised(segment);
        for (ScannedRecord& record : segment.records) {
            const bool commit = record.header.kind == RecordKind::kCommit &&
                                record.header.sequence == log_.commit_sequence;
            if (!behind || (record.header.kind == RecordKind::kData && record.header.sequence > log_.commit_sequence))
                log_.records.push_back(std::move(record));
            behind = behind || (commit && commit_order_ == segment.header.order);
        }
    }
    void broken(const ScannedSegment& segment, std::string_view what) {
        log_.damage.push_back(damage_of(segment, what));
        log_.lost_after = 0;
        log_.hides_record = log_.hides_commit = true;
    }

    std::vector<ScannedSegment> segments_;
    ScannedLog log_;
    std::uint64_t needed_from_ = 0;
    bool opened_ = false;
    std::optional<std::uint64_t> commit_order_;   // the segment that has the last commit's record; none: it is gone
};

// Joins the segments of one member's durable log. The board's statement decides which records count, and finds missing
// ones, so this function treats no state as wrong.
ScannedLog assemble_durable_member(std::vector<ScannedSegment> segments) {
    ScannedLog log = begin_log(segments);
    log.durable = true;
    for (ScannedSegment& segment : segments) {
        log.segment_bytes = segment.header.segment_bytes;
        log.unread_bytes += segment.unread_bytes;
        if (segment.damage) log.damage.push_back(damage_of(segment, segment.damage->message()));
        if (!segment.open()) continue;
        log.target = segment.open()->target;   // that of the newest one
        if (log.target.commit_sequence > log.commit_sequence)
            take_commit(log, log.target.commit_sequence, segment.open()->header);
        log.pieces.push_back({segment.header.order, segment.begin, segment.header.tail - segment.unread_bytes,
                              !segment.damage});
        std::move(segment.records.begin(), segment.records.end(), std::back_inserter(log.records));
    }
    sort_by_sequence(log.records);
    return log;
}

// Joins the segments of one log, in ascending order.
ScannedLog assemble(std::vector<ScannedSegment> segments) {
    if (const auto durable = find_durable(segments); durable != segments.end())
        return durable->open()->target.sharing.kind == Sharing::Kind::kAlone
                   ? DurableAssembly(std::move(segments)).assemble()
                   : assemble_durable_member(std::move(segments));
    ScannedLog log = begin_log(segments);
    bool opened = false;
    std::optional<std::uint64_t> last_order;
    const auto committed = [&](std::uint64_t sequence, const RecordHeader& header) {
        if (sequence >= log.commit_sequence) take_commit(log, sequence, header);
    };
    for (ScannedSegment& segment : segments) {
        const std::uint64_t order = segment.header.order;
        const auto wrong = [&](std::string_view what) {
            log.damage.push_back(damage_of(segment, what));
            if (!log.lost_after) log.lost_after = log.commit_sequence;
        };
        if (last_order && order == *last_order) {
            wrong("another segment has the same place in the log");
            log.lost_after = 0;
            continue;
        }
        if (last_order && order != *last_order + 1) wrong(fmt::format("the one before it is segment {}", *last_order));
        last_order = order;
        log.unread_bytes += segment.unread_bytes;
        log.hides_record = log.hides_record || segment.hides_record;
        log.hides_commit = log.hides_commit || segment.hides_commit;
        if (segment.damage && !segment.open()) wrong(segment.damage->message());
        if (segment.hides_commit) log.lost_after = 0;
        if (!segment.open()) continue;
        const auto& [header, target] = *segment.open();
        if (opened && !same_target(log.target, target)) {
            wrong(fmt::format("its target is {}, that of the log {}", target.path, log.target.path));
            log.lost_after = 0;
            continue;
        }
        opened = true;
        log.target = target;
        committed(target.commit_sequence, header);
        for (ScannedRecord& record : segment.records) {
            if (record.header.kind == RecordKind::kCommit) committed(record.header.sequence, record.header);
            log.records.push_back(std::move(record));
        }
        if (segment.damage) wrong(segment.damage->message());
        if (segment.hides_commit) log.lost_after = 0;
    }
    sort_by_sequence(log.records);
    return log;
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
    // A durable log tells by other means. Its newest segment may even have lost its open record with the power.
    if (find_durable(segments) != segments.end()) return Status::ok();
    for (std::size_t i = 0; i + 1 < segments.size(); ++i) {
        ScannedSegment& segment = segments[i];
        if (segment.damage) continue;
        FileSegment bytes(file, segment.begin, buffer, segment.header.tail);
        // The first record is appended before a later segment begins.
        const Found found = segment.open() ? segment.cursor.look(bytes, buffer.size(), PayloadCheck::kTrust)
                                           : Found::kRecord;
        if (found == Found::kUnreadable) return segment.cursor.why();
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
