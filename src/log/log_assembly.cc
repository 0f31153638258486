#include "log/log_assembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace forebay::log {

namespace {

bool same_target(const OpenPayload& one, const OpenPayload& other) {
    return one.device == other.device && one.inode == other.inode && one.born == other.born && one.path == other.path &&
           one.sharing == other.sharing;
}

// A log is durable in all segments or in none. Any readable one tells.
const ScannedSegment* find_durable(std::span<const ScannedSegment> segments) {
    const auto found = std::ranges::find_if(segments, [](const ScannedSegment& segment) {
        return segment.open() && segment.open()->header.durable;
    });
    return found == segments.end() ? nullptr : &*found;
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

// The order of the segment that has the record of the last commit; none: there was no commit, or its record is gone.
std::optional<std::uint64_t> order_of_last_commit(std::span<const ScannedSegment> segments) {
    std::optional<std::uint64_t> order;
    std::uint64_t sequence = 0;
    for (const ScannedSegment& segment : segments) {
        if (!segment.open()) continue;
        if (segment.open()->target.commit_sequence > sequence) {
            sequence = segment.open()->target.commit_sequence;
            order.reset();
        }
        for (const ScannedRecord& record : segment.records) {
            if (record.header.kind != RecordKind::kCommit || record.header.sequence < sequence) continue;
            sequence = record.header.sequence;
            order = segment.header.order;
        }
    }
    return order;
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
        commit_order_ = order_of_last_commit(segments_);
    }

    ScannedLog assemble() && {
        for (const ScannedSegment& segment : segments_) take_facts(segment);
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
    void take_facts(const ScannedSegment& segment) {
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
        if (target.commit_sequence > log_.commit_sequence) take_commit(log_, target.commit_sequence, header);
        for (const ScannedRecord& record : segment.records)
            if (record.header.kind == RecordKind::kCommit && record.header.sequence >= log_.commit_sequence)
                take_commit(log_, record.header.sequence, record.header);
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
    // Order of the segment that has the last commit's record; none: there was no commit, or its record is gone.
    std::optional<std::uint64_t> commit_order_;
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

}   // namespace

std::uint64_t tails_right_below(std::span<const ScannedSegment> segments) {
    const ScannedSegment* const durable = find_durable(segments);
    if (durable == nullptr) return segments.back().header.order;
    if (durable->open()->target.sharing.kind != Sharing::Kind::kAlone) return 0;
    return order_of_last_commit(segments).value_or(0);
}

ScannedLog assemble(std::vector<ScannedSegment> segments) {
    if (const ScannedSegment* const durable = find_durable(segments))
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

}   // namespace forebay::log
