#include "log/scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace forebay::log {

namespace {

// Segments are mapped, so their sizes are whole pages.
constexpr std::uint64_t kPage = 4096;
// A segment's header and open record with the longest path that the system allows.
constexpr std::uint64_t kOpenRecordMax = 2 * kPage;

struct ScannedSegment {
    std::uint64_t begin = 0;   // in the file
    SegmentHeader header;
    std::optional<RecordHeader> open;   // none: the segment was taken, but nothing written
    OpenPayload target;
    std::vector<ScannedRecord> records;
    std::optional<TargetState> state;
    std::optional<Status> damage;   // the error that ended it before its tail
    std::uint64_t unread_bytes = 0;
    bool hides_commit = false;   // a commit follows the damage
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
        const bool begun = stated || begin > 0 || std::any_of(header.begin(), header.begin() + 8, [](std::byte byte) {
                               return byte != std::byte{0};
                           });
        anything = anything || (begun && header != std::array<std::byte, kSegmentHeaderBytes>{});
        if (!stated && begun) continue;
        const std::uint64_t bytes = stated ? stated.value() : segment_bytes_being_begun(header);
        if (bytes >= kPage && bytes % kPage == 0 && begin % bytes == 0 && bytes <= file_bytes - begin) return bytes;
    }
    if (anything) return Status(Code::kCorrupt, "no segment header");
    return std::uint64_t{0};
}

// Looks for a commit in a part of a segment that does not begin with a record.
bool has_commit(io::Bytes part, std::uint64_t use) {
    for (std::uint64_t at = 0; at < part.size();) {
        const auto record = decode_record(part.subspan(at), use, PayloadCheck::kTrust);
        if (record && record.value().header.kind == RecordKind::kCommit) return true;
        at += record ? record.value().bytes : kRecordAlignment;
    }
    return false;
}

// One segment below its tail. It reads on demand: a log of large writes is mostly payloads without checksum. The buffer
// is undefined where nothing was read.
class BelowTail {
  public:
    // The first `loaded` bytes of the buffer `bytes` are read already.
    BelowTail(io::File& file, std::uint64_t begin, io::MutableBytes bytes, std::uint64_t loaded)
        : file_(file), begin_(begin), bytes_(bytes), loaded_(loaded) {}

    [[nodiscard]] std::uint64_t size() const noexcept { return bytes_.size(); }
    [[nodiscard]] io::Bytes from(std::uint64_t at) const noexcept { return bytes_.subspan(at); }
    // Reads [at, until), and no bytes between the last part read and `at`.
    Status need(std::uint64_t at, std::uint64_t until) {
        until = std::min(until, size());
        if (until <= loaded_) return Status::ok();
        at = std::max(at, loaded_);
        const std::uint64_t end = std::min(size(), std::max(until, at + kAhead));
        FOREBAY_TRY(read_or_zeros(file_, begin_ + at, bytes_.subspan(at, end - at)));
        loaded_ = end;
        return Status::ok();
    }
    Status need_all_from(std::uint64_t at) { return read_or_zeros(file_, begin_ + at, bytes_.subspan(at)); }

  private:
    static constexpr std::uint64_t kAhead = 64 << 10;
    io::File& file_;
    const std::uint64_t begin_;
    const io::MutableBytes bytes_;
    std::uint64_t loaded_;
};

// Reads the records below the tail, up to the first damaged one. Returns the error of reading the file.
Status read_records(BelowTail& below_tail, ScannedSegment& segment, Payloads payloads) {
    std::uint64_t at = kSegmentHeaderBytes;
    const auto wrong = [&](std::string_view what) {
        FOREBAY_TRY(below_tail.need_all_from(at));
        segment.unread_bytes = below_tail.size() - at;
        segment.hides_commit = has_commit(below_tail.from(at), segment.header.use);
        segment.damage = Status(Code::kCorrupt, fmt::format("record at offset {}: {}", segment.begin + at, what));
        return Status::ok();
    };
    while (at < below_tail.size()) {
        FOREBAY_TRY(below_tail.need(at, payloads == Payloads::kCopied ? below_tail.size() : at + kRecordHeaderBytes));
        const std::uint64_t left = below_tail.size() - at;
        if (left >= kRecordHeaderBytes)
            FOREBAY_TRY(below_tail.need(at, at + bytes_looked_at(below_tail.from(at), left)));
        auto decoded = decode_record(below_tail.from(at), segment.header.use);
        if (!decoded) return wrong(decoded.status().message());
        DecodedRecord& record = decoded.value();
        if (segment.open.has_value() == (record.header.kind == RecordKind::kOpen))
            return wrong(segment.open ? "a second open record" : "the segment does not begin with an open record");
        if (segment.open) {
            const auto payload_at = segment.begin + at + payload_offset(record.extents.size());
            segment.records.push_back({record.header, std::move(record.extents), {}, payload_at});
            if (payloads == Payloads::kCopied)
                segment.records.back().payload.assign(record.payload.begin(), record.payload.end());
        } else {
            auto target = decode_open_payload(record.payload);
            if (!target) return wrong(target.status().message());
            segment.open = record.header;
            segment.target = std::move(target).value();
        }
        at += record.bytes;
    }
    return Status::ok();
}

// Returns true if a record of this use of the segment follows the tail. The newest segment may have such a record,
// which was never published. In any other the tail is wrong; it has no checksum.
Result<bool> goes_on(io::File& file, const ScannedSegment& segment) {
    if (!segment.open || segment.damage) return false;
    const std::uint64_t tail = segment.header.tail, left = segment.header.segment_bytes - tail;
    if (left < kRecordHeaderBytes) return false;
    std::vector<std::byte> rest(kRecordHeaderBytes);
    FOREBAY_TRY(read_or_zeros(file, segment.begin + tail, rest));
    if (!begins_like_a_record(rest)) return false;
    rest.resize(left);
    FOREBAY_TRY(read_or_zeros(file, segment.begin + tail, rest));
    return bool(decode_record(rest, segment.header.use, PayloadCheck::kTrust));
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
    return std::ranges::find_if(segments,
                                [](const ScannedSegment& segment) { return segment.open && segment.open->durable; });
}

void sort_by_sequence(std::vector<ScannedRecord>& records) {
    std::stable_sort(records.begin(), records.end(), [](const ScannedRecord& one, const ScannedRecord& other) {
        return one.header.sequence < other.header.sequence;
    });
}

Status damage_of(const ScannedSegment& segment, std::string_view what) {
    return {Code::kCorrupt, fmt::format("segment {} at offset {}: {}", segment.header.order, segment.begin, what)};
}

// Joins the segments of a durable log. All data of the last commit was on the device before its record, so any damage
// there counts. Bytes behind the last commit may be anything, and do not count.
class DurableAssembly {
  public:
    // `segments` are ascending in order.
    explicit DurableAssembly(std::vector<ScannedSegment> segments) : segments_(std::move(segments)) {
        log_.durable = true;
        log_.process = segments_.front().header.process;
        log_.log = segments_.front().header.log;
        for (const ScannedSegment& segment : segments_) {
            log_.segments.push_back(segment.begin);
            needed_from_ = std::max(needed_from_, segment.header.needed_from);
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
            (!segments_.front().open || segments_.front().target.commit_sequence < log_.commit_sequence))
            broken(segments_.front(), "the last commit is missing");
        sort_by_sequence(log_.records);
        return std::move(log_);
    }

  private:
    void find_last_commit(const ScannedSegment& segment) {
        log_.unread_bytes += segment.unread_bytes;
        if (segment.damage) log_.damage.push_back(damage_of(segment, segment.damage->message()));
        if (!segment.open) return;
        if (!std::exchange(opened_, true)) {
            log_.target = segment.target;
            log_.committed_size = segment.open->argument;
        }
        if (segment.target.commit_sequence > log_.commit_sequence) {
            log_.commit_sequence = segment.target.commit_sequence;
            log_.committed_size = segment.open->argument;
            log_.commit_time_ns = segment.open->time_ns;
            commit_order_.reset();
        }
        for (const ScannedRecord& record : segment.records) {
            if (record.header.kind != RecordKind::kCommit || record.header.sequence < log_.commit_sequence) continue;
            log_.commit_sequence = record.header.sequence;
            log_.committed_size = record.header.argument;
            log_.commit_time_ns = record.header.time_ns;
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
        if (promised(segment) && (!segment.open || !same_target(log_.target, segment.target)))
            broken(segment, "it does not say whose it is");
        if (promised(segment) && order < *commit_order_ && segment.damage) log_.lost_after = 0;
        if (segment.open && segment.hides_commit) log_.lost_after = 0;
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
    ScannedLog log;
    log.durable = true;
    log.process = segments.front().header.process;
    log.log = segments.front().header.log;
    for (ScannedSegment& segment : segments) {
        log.segments.push_back(segment.begin);
        log.segment_bytes = segment.header.segment_bytes;
        log.unread_bytes += segment.unread_bytes;
        if (segment.damage) log.damage.push_back(damage_of(segment, segment.damage->message()));
        if (!segment.open) continue;
        log.target = segment.target;   // that of the newest one
        if (segment.target.commit_sequence > log.commit_sequence) {
            log.commit_sequence = segment.target.commit_sequence;
            log.committed_size = segment.open->argument;
            log.commit_time_ns = segment.open->time_ns;
        }
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
        return durable->target.sharing.kind == Sharing::Kind::kAlone ? DurableAssembly(std::move(segments)).assemble()
                                                                     : assemble_durable_member(std::move(segments));
    ScannedLog log;
    log.process = segments.front().header.process;
    log.log = segments.front().header.log;
    bool opened = false;
    std::optional<std::uint64_t> last_order;
    const auto committed = [&](std::uint64_t sequence, std::uint64_t size, std::uint64_t time_ns) {
        if (sequence < log.commit_sequence) return;
        log.commit_sequence = sequence;
        log.committed_size = size;
        log.commit_time_ns = time_ns;
    };
    for (ScannedSegment& segment : segments) {
        const std::uint64_t order = segment.header.order;
        const auto wrong = [&](std::string_view what) {
            log.damage.push_back(damage_of(segment, what));
            if (!log.lost_after) log.lost_after = log.commit_sequence;
        };
        log.segments.push_back(segment.begin);
        if (last_order && order == *last_order) {
            wrong("another segment has the same place in the log");
            log.lost_after = 0;
            continue;
        }
        if (last_order && order != *last_order + 1) wrong(fmt::format("the one before it is segment {}", *last_order));
        last_order = order;
        log.unread_bytes += segment.unread_bytes;
        if (segment.damage && !segment.open) wrong(segment.damage->message());
        if (segment.hides_commit) log.lost_after = 0;
        if (!segment.open) continue;
        if (opened && !same_target(log.target, segment.target)) {
            wrong(fmt::format("its target is {}, that of the log {}", segment.target.path, log.target.path));
            log.lost_after = 0;
            continue;
        }
        opened = true;
        log.target = segment.target;
        committed(segment.target.commit_sequence, segment.open->argument, segment.open->time_ns);
        for (ScannedRecord& record : segment.records) {
            if (record.header.kind == RecordKind::kCommit)
                committed(record.header.sequence, record.header.argument, record.header.time_ns);
            log.records.push_back(std::move(record));
        }
        if (segment.damage) wrong(segment.damage->message());
        if (segment.hides_commit) log.lost_after = 0;
    }
    sort_by_sequence(log.records);
    return log;
}

struct FoundSegments {
    std::map<decltype(key_of({})), std::vector<ScannedSegment>> by_log;
    std::vector<Status> anybodys;   // damage of segments whose log is unknown
};

Result<FoundSegments> read_segments(io::File& file, Payloads payloads) {
    const auto file_bytes = file.size();
    if (!file_bytes) return file_bytes.status();
    const auto segment_bytes = find_segment_bytes(file, file_bytes.value());
    if (!segment_bytes) return segment_bytes.status().with_context("scan " + file.name());
    FoundSegments found;
    std::vector<std::byte> buffer(segment_bytes.value());
    for (std::uint64_t begin = 0; !buffer.empty() && begin < file_bytes.value(); begin += buffer.size()) {
        FOREBAY_TRY(read_or_zeros(file, begin, std::span(buffer).first(kSegmentHeaderBytes)));
        const auto header = decode_segment_header(buffer);
        if (!header) {
            const Status status = header.status();
            if (status.code() == Code::kUnsupported) return status.with_context("scan " + file.name());
            if (status.code() != Code::kNotFound)
                found.anybodys.push_back(status.with_context(fmt::format("segment at offset {}", begin)));
            continue;
        }
        BelowTail below_tail(file, begin, std::span(buffer).first(header.value().tail), kSegmentHeaderBytes);
        ScannedSegment segment;
        segment.begin = begin;
        segment.header = header.value();
        segment.state = newest_target_state(std::span(buffer).first(kSegmentHeaderBytes), segment.header.use);
        FOREBAY_TRY(read_records(below_tail, segment, payloads));
        found.by_log[key_of(segment.header)].push_back(std::move(segment));
    }
    return found;
}

// Finds segments of one log, in ascending order, whose records continue behind the tail.
Status check_tails(io::File& file, std::vector<ScannedSegment>& segments) {
    // A durable log tells by other means. Its newest segment may even have lost its open record with the power.
    if (find_durable(segments) != segments.end()) return Status::ok();
    for (std::size_t i = 0; i + 1 < segments.size(); ++i) {
        ScannedSegment& segment = segments[i];
        // The first record is appended before a later segment begins.
        const auto more = !segment.open && !segment.damage ? Result<bool>(true) : goes_on(file, segment);
        if (!more) return more.status();
        if (!more.value()) continue;
        segment.damage = Status(Code::kCorrupt, "its tail is not where it was");
        segment.hides_commit = true;
    }
    return Status::ok();
}

// Joins the segments of one log, in ascending order, and adds the newest state of the target.
ScannedLog assemble_with_state(std::vector<ScannedSegment> segments) {
    std::optional<TargetState> state;
    std::uint64_t state_at = 0, state_use = 0;
    for (const ScannedSegment& segment : segments) {
        if (!segment.open) continue;
        // Recovery notes its state in the newest segment, which is freed last.
        state_at = segment.begin;
        state_use = segment.header.use;
        if (segment.state && (!state || state->serial < segment.state->serial)) state = segment.state;
    }
    ScannedLog log = assemble(std::move(segments));
    log.state = std::move(state);
    log.state_at = state_at;
    log.state_use = state_use;
    return log;
}

}   // namespace

Result<std::vector<ScannedLog>> scan(io::File& file, Payloads payloads) {
    auto found = read_segments(file, payloads);
    if (!found) return found.status();
    auto& [by_log, anybodys] = found.value();
    if (by_log.empty() && !anybodys.empty()) return anybodys.front().with_context("scan " + file.name());
    std::vector<ScannedLog> logs;
    for (auto& [key, segments] : by_log) {
        std::ranges::stable_sort(segments, {}, [](const ScannedSegment& segment) { return segment.header.order; });
        FOREBAY_TRY(check_tails(file, segments));
        ScannedLog& log = logs.emplace_back(assemble_with_state(std::move(segments)));
        log.damage.insert(log.damage.end(), anybodys.begin(), anybodys.end());
        if (!anybodys.empty() && !log.durable) log.lost_after = 0;
    }
    return logs;
}

Result<std::vector<OpenPayload>> scan_targets(io::File& file, Status* unread) {
    const auto file_bytes = file.size();
    if (!file_bytes) return file_bytes.status();
    const auto segment_bytes = find_segment_bytes(file, file_bytes.value());
    if (!segment_bytes) return segment_bytes.status();
    std::vector<OpenPayload> targets;
    const auto pass_over = [&](std::uint64_t begin, const Status& why) {
        if (unread != nullptr && unread->is_ok())
            *unread = why.with_context(fmt::format("scan {}: segment at offset {}", file.name(), begin));
    };
    std::vector<std::byte> buffer(segment_bytes.value());
    for (std::uint64_t begin = 0; !buffer.empty() && begin < file_bytes.value(); begin += buffer.size()) {
        const auto front = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), kOpenRecordMax));
        FOREBAY_TRY(read_or_zeros(file, begin, front));
        const auto header = decode_segment_header(buffer);
        if (!header && header.status().code() != Code::kNotFound) pass_over(begin, header.status());
        if (!header || header.value().tail <= kSegmentHeaderBytes) continue;
        const auto open = decode_record(front.subspan(kSegmentHeaderBytes), header.value().use);
        auto target = open && open.value().header.kind == RecordKind::kOpen
                          ? decode_open_payload(open.value().payload)
                          : Result<OpenPayload>(Status(Code::kCorrupt, "no open record"));
        if (target) targets.push_back(std::move(target).value());
        else pass_over(begin, open ? target.status() : open.status());
    }
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
