#include "group/log_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "io/guarded_access.h"

namespace forebay::group {

namespace {

// Bytes of a log in one mapping: a process can have few mappings, and a node has many logs.
constexpr std::uint64_t kMapBytes = std::uint64_t{64} << 20;

// A mapped segment of a living process. Bytes that it loaded raise no SIGBUS at their next use. The words of the header
// are read again later, and guarded each time.
class LiveSegment final : public log::SegmentBytes {
  public:
    explicit LiveSegment(const log::Segment& segment) noexcept : SegmentBytes(segment.bytes()), segment_(segment) {}
    // EIO: a page is unreadable.
    Status load(std::uint64_t begin, std::uint64_t end) override {
        const std::byte* const fault = io::find_unreadable(bytes().subspan(begin, end - begin), segment_.at(begin));
        return fault == nullptr ? Status::ok() : segment_.fault(fault);
    }
    // EIO: the page is unreadable.
    [[nodiscard]] Result<std::uint64_t> generation() const override {
        std::uint64_t now = 0;
        const std::byte* const fault = io::guarded(segment_.bytes(), [&]() noexcept { now = segment_.generation(); });
        if (fault != nullptr) return segment_.fault(fault);
        return now;
    }

  private:
    const log::Segment& segment_;
};

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
            // The mapping may reach beyond the pool's end. Those bytes exist once a participant publishes the segment.
            auto mapping = pool_->map(piece * at_once * segment_bytes_, at_once * segment_bytes_);
            if (!mapping) return mapping.status();
            maps_[piece] = std::move(mapping).value();
        }
        auto part = std::make_unique<io::MappingPart>(*maps_[piece], place % at_once * segment_bytes_, segment_bytes_);
        views_[place] = std::make_unique<log::Segment>(place, std::move(part), pool_.get());
    }
    return views_[place].get();
}

Status LogFollower::read(std::vector<Record>& records) {
    if (!pool_) return Status::ok();
    const BoardRow& row = board_.row(participant_);
    for (;;) {
        const std::uint64_t adopted = row.adopted.load(std::memory_order_acquire);
        // A segment's tail is final once there is a later segment.
        if (!open_.empty()) FOREBAY_TRY(read_segment(open_.back(), records));
        if (next_order_ >= adopted) return Status::ok();
        const auto viewed = view(next_order_);
        if (!viewed) return viewed.status();
        log::Segment& segment = *viewed.value();
        std::uint64_t generation = 0, use = 0;
        const std::byte* const fault = io::guarded(segment.bytes(), [&]() noexcept {
            generation = segment.generation();
            use = segment.use();
        });
        if (fault != nullptr) return segment.fault(fault);
        segment.participant = participant_;
        segment.order = {};
        if (row.released.load(std::memory_order_acquire) > next_order_) return reused(next_order_);
        open_.push_back({next_order_, &segment, log::RecordCursor(use, generation)});
        ++next_order_;
    }
}

Status LogFollower::reused(std::uint64_t order) const {
    return {Code::kNotFound, fmt::format("{}: segment {} was used again", pool_->name(), order)};
}

Status LogFollower::read_segment(Open& open, std::vector<Record>& records) {
    using Found = log::RecordCursor::Found;
    auto& [order, segment, cursor] = open;
    LiveSegment bytes(*segment);
    const std::optional<std::uint64_t> tail = segment->published_tail();
    if (!tail) return segment->fault(segment->at(log::kTailOffset));
    const std::size_t before = records.size();
    const std::uint64_t begin = cursor.position();
    Found found;
    for (; (found = cursor.look(bytes, *tail, log::PayloadCheck::kTrust)) == Found::kRecord; cursor.advance()) {
        log::DecodedRecord& record = cursor.record();
        if (record.header.kind == log::RecordKind::kOpen) continue;
        records.push_back({record.header.kind, record.header.data_class, record.header.sequence, record.header.argument,
                           std::move(record.extents), segment, cursor.payload_position(), cursor.generation(),
                           record.header.payload_bytes});
        segment->unindexed.fetch_add(1, std::memory_order_relaxed);
    }
    if (Status same = cursor.confirm(bytes); !same) {
        segment->unindexed.fetch_sub(records.size() - before, std::memory_order_relaxed);
        records.resize(before);
        cursor.return_to(begin);   // the segment must not seem read to its end
        return same.code() == Code::kNotFound ? reused(order) : same;
    }
    if (found == Found::kEnd) return Status::ok();
    if (found == Found::kUnreadable) return cursor.why();
    return {Code::kCorrupt, fmt::format("{}: segment {} cannot be followed beyond offset {}", pool_->name(),
                                        segment->index(), cursor.position())};
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
    return log::log_position(open_.back().order, open_.back().cursor.position(), segment_bytes_);
}

// The newest segment still grows, unless its owner waits for room. Then the follower has read it to its end.
bool LogFollower::may_release(const Open& open) const noexcept {
    if (&open != &open_.back()) return true;
    const BoardRow& row = board_.row(participant_);
    return open.order + 1 == row.adopted.load(std::memory_order_acquire) &&
           row.wants_room.load(std::memory_order_acquire) != 0 &&
           open.segment->published_tail() == std::optional(open.cursor.position());
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
