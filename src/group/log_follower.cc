#include "group/log_follower.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/guarded_access.h"

namespace forebay::group {

namespace {

// Bytes of a log in one mapping: a process can have few mappings, and a node has many logs.
constexpr std::uint64_t kMapBytes = std::uint64_t{64} << 20;

// A part of a mapping that another object owns.
class Slice final : public io::Mapping {
  public:
    explicit Slice(io::MutableBytes bytes) noexcept : io::Mapping(bytes) {}
    void touch(io::MutableBytes) noexcept override {}
    bool present(io::Bytes part) noexcept override { return io::find_unreadable(part, part.data()) == nullptr; }
};

// Returns EIO if a page of [begin, end) is unreadable. Reading the other pages raises no SIGBUS.
Status check_readable(const log::Segment& segment, std::uint64_t begin, std::uint64_t end) {
    const std::byte* const fault = io::find_unreadable(segment.bytes().subspan(begin, end - begin), segment.at(begin));
    return fault == nullptr ? Status::ok() : segment.fault(fault);
}

// Checks all bytes of the record at `at` that decoding reads.
Status check_record_readable(const log::Segment& segment, std::uint64_t at, std::uint64_t tail) {
    if (tail - at < log::kRecordHeaderBytes) return check_readable(segment, at, tail);
    FOREBAY_TRY(check_readable(segment, at, at + log::kRecordHeaderBytes));
    return check_readable(segment, at,
                          at + log::bytes_looked_at(segment.bytes().subspan(at, log::kRecordHeaderBytes), tail - at));
}

}   // namespace

LogFollower::LogFollower(const Board& board, std::uint64_t participant, std::unique_ptr<io::File> pool,
                         std::uint64_t segment_bytes)
    : board_(board), participant_(participant), pool_(std::move(pool)), segment_bytes_(segment_bytes) {}

Result<log::Segment*> LogFollower::view(std::uint64_t order) {
    const std::uint64_t place = board_.place(participant_, order).load(std::memory_order_relaxed);
    const auto pool_bytes = pool_->size();
    if (!pool_bytes) return pool_bytes.status();
    if (place >= pool_bytes.value() / segment_bytes_)
        return Status(Code::kCorrupt, fmt::format("{}: there is no segment {}", pool_->name(), place));
    if (place >= views_.size()) views_.resize(place + 1);
    if (!views_[place]) {
        const std::uint64_t at_once = std::max<std::uint64_t>(1, kMapBytes / segment_bytes_), piece = place / at_once;
        if (piece >= maps_.size()) maps_.resize(piece + 1);
        if (!maps_[piece]) {
            // The mapping may reach beyond the pool's end. Those bytes exist by the time a participant publishes their
            // segment.
            auto mapping = pool_->map(piece * at_once * segment_bytes_, at_once * segment_bytes_);
            if (!mapping) return mapping.status();
            maps_[piece] = std::move(mapping).value();
        }
        const auto bytes = maps_[piece]->bytes().subspan(place % at_once * segment_bytes_, segment_bytes_);
        views_[place] = std::make_unique<log::Segment>(place, std::make_unique<Slice>(bytes), pool_.get());
    }
    return views_[place].get();
}

Status LogFollower::read(std::vector<Record>& records) {
    if (!pool_) return Status::ok();
    const BoardRow& row = board_.row(participant_);
    for (;;) {
        const std::uint64_t adopted = row.adopted.load(std::memory_order_acquire);
        if (!open_.empty()) {
            // A segment's tail is final once there is a later segment.
            Open& last = open_.back();
            FOREBAY_TRY(check_readable(*last.segment, 0, log::kSegmentHeaderBytes));
            const std::uint64_t tail = last.segment->published_tail();
            if (tail > last.read_to) FOREBAY_TRY(read_segment(last, tail, records));
            else if (last.segment->generation() != last.generation) return {Code::kNotFound, "used again"};
        }
        if (next_order_ >= adopted) return Status::ok();
        auto segment = view(next_order_);
        if (!segment) return segment.status();
        FOREBAY_TRY(check_readable(*segment.value(), 0, log::kSegmentHeaderBytes));
        segment.value()->participant = participant_;
        segment.value()->order = {};
        open_.push_back({next_order_, segment.value(), log::kSegmentHeaderBytes, segment.value()->generation()});
        if (row.released.load(std::memory_order_acquire) > next_order_) return Status(Code::kNotFound, "released");
        ++next_order_;
    }
}

Status LogFollower::read_segment(Open& open, std::uint64_t tail, std::vector<Record>& records) {
    log::Segment& segment = *open.segment;
    const std::size_t before = records.size();
    const std::uint64_t use = segment.use();
    Status readable;
    while (open.read_to < tail && tail <= segment.size()) {
        readable = check_record_readable(segment, open.read_to, tail);
        if (!readable) break;
        auto decoded = log::decode_record(segment.bytes().subspan(open.read_to, tail - open.read_to), use,
                                          log::PayloadCheck::kTrust);
        if (!decoded) break;
        log::DecodedRecord& record = decoded.value();
        const std::uint64_t payload = open.read_to + log::payload_offset(record.extents.size());
        if (record.header.kind != log::RecordKind::kOpen) {
            records.push_back({record.header.kind, record.header.data_class, record.header.sequence,
                               record.header.argument, std::move(record.extents), &segment, payload, open.generation,
                               record.header.payload_bytes});
            segment.unindexed.fetch_add(1, std::memory_order_relaxed);
        }
        open.read_to += record.bytes;   // only now, so that a failed allocation reads the record again
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (segment.generation() != open.generation) {
        segment.unindexed.fetch_sub(records.size() - before, std::memory_order_relaxed);
        records.resize(before);
        return {Code::kNotFound, "used again"};
    }
    if (open.read_to == tail) return Status::ok();
    if (!readable) return readable;
    return {Code::kCorrupt, fmt::format("{}: segment {} cannot be followed beyond offset {}", pool_->name(),
                                        segment.index(), open.read_to)};
}

void LogFollower::restart() {
    open_.clear();
    next_order_ = board_.row(participant_).released.load(std::memory_order_acquire);
}

log::Frontier LogFollower::needed() const noexcept {
    log::Frontier needed;
    for (const Open& open : open_) needed.lower_to(open.segment->order.needed(open.segment->live_bytes));
    return needed;
}

std::uint64_t LogFollower::end() const noexcept {
    if (open_.empty()) return 0;
    return log::log_position(open_.back().order, open_.back().read_to, segment_bytes_);
}

// The newest segment still grows, unless its owner waits for room. Then the follower has read it to its end.
bool LogFollower::may_release(const Open& open) const noexcept {
    if (&open != &open_.back()) return true;
    const BoardRow& row = board_.row(participant_);
    return open.order + 1 == row.adopted.load(std::memory_order_acquire) &&
           row.wants_room.load(std::memory_order_acquire) != 0 &&
           io::find_unreadable(open.segment->bytes().first(log::kSegmentHeaderBytes), open.segment->at(0)) == nullptr &&
           open.segment->published_tail() == open.read_to;
}

std::uint64_t LogFollower::needed_from(const log::Frontier& frontier, std::uint64_t drained_metadata) const noexcept {
    for (const Open& open : open_)
        if (!open.segment->idle() || !open.segment->order.may_go(frontier, drained_metadata) || !may_release(open))
            return open.order;
    return next_order_;
}

bool LogFollower::release_below(std::uint64_t order) noexcept {
    bool any = false;
    while (!open_.empty() && open_.front().order < order && may_release(open_.front())) {
        board_.row(participant_).released.store(open_.front().order + 1, std::memory_order_release);
        open_.pop_front();
        any = true;
    }
    return any;
}

}   // namespace forebay::group
