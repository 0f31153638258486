#include "drain/planner.h"

#include <algorithm>
#include <new>
#include <vector>

#include "extent/stripe.h"

namespace forebay::drain {

namespace {

constexpr std::size_t kPlanPiecesMax = 65536;
constexpr std::uint64_t kPlanWrites = 8;   // of the largest size, per plan
// The bytes in pieces below a stripe that may wait for neighbours, and their share of the log.
constexpr std::uint64_t kSmallPiecesMax = std::uint64_t{128} << 20;
constexpr std::uint64_t kSmallPiecesShare = 8;

// The begin of the run that ends with the last piece. `pieces` is not empty.
std::uint64_t begin_of_last_run(const std::vector<plan::Piece>& pieces) noexcept {
    std::size_t at = pieces.size() - 1;
    while (at > 0 && pieces[at - 1].range.end == pieces[at].range.begin) --at;
    return pieces[at].range.begin;
}

plan::Piece part_of(const plan::Piece& piece, ByteRange part) noexcept {
    return {part, piece.bytes == nullptr ? nullptr : piece.bytes + (part.begin - piece.range.begin), piece.sequence,
            piece.keeper};
}

}   // namespace

struct Planner::Candidates {
    std::vector<plan::Piece> pieces;
    std::uint64_t end = 0;     // of the last extent visited
    bool incomplete = false;   // an extent's record lacks older ones
    bool to_the_end = true;    // no extent follows
};

void Planner::open() noexcept {
    order_ = nullptr;
    cursor_ = planned_since_start_bytes_ = plan_from_bytes_ = 0;
    wraps_ = urgent_ = at_once_ = paused_ = false;
}

void Planner::share(group::RecordOrder& order, bool at_once) noexcept {
    order_ = &order;
    at_once_ = at_once;
    paused_ = paused_ && !at_once;
}

void Planner::plan() {
    if (!worth_draining()) return;
    try {
        plan_next();
    } catch (const std::bad_alloc&) {
        drop_planned();   // no thread would take them
        throw;
    }
}

// The plan begins where the last one ended. If nothing may go there, it begins at the file's start: the end of the file
// may still grow while writes have filled gaps before it.
void Planner::plan_next() {
    // Pieces that clog the log may lie before the cursor, where a stream of new bytes behind it would never let a plan
    // begin. Below twice the ready bytes, sweeps over many growing places would end before the last place.
    const Backlog backlog = parts_.listener.backlog();
    const WriteQueue& queue = parts_.queue;
    if (planned_since_start_bytes_ >= 2 * backlog.ready_bytes && backlog.clogged) cursor_ = 0;
    const bool from_within = cursor_ > 0;
    Found found = plan_from(cursor_);
    // If pieces wait for neighbours, bytes that arrive before the writes in flight end go with them.
    wraps_ = from_within && found == Found::kTooLittle && !queue.none_in_flight();
    if (from_within && !wraps_ && (found == Found::kNothing || found == Found::kTooLittle)) found = plan_from(0);
    // kNothing: all is in flight or incomplete. The next plan waits for that, not for more bytes.
    if (found != Found::kNothing)
        plan_from_bytes_ = queue.planned().empty() ? parts_.listener.backlog().ready_bytes + parts_.facts.stripe() : 0;
}

// Leaves out ranges in flight.
Planner::Candidates Planner::find_candidates(std::uint64_t begin) const {
    const std::uint64_t bytes_max = kPlanWrites * parts_.options.write_max;
    const std::uint64_t complete_below = order_ != nullptr ? order_->complete_below() : kOffsetMax;
    const RangeSet& unreadable = parts_.failures.unreadable();
    Candidates found;
    found.end = begin;
    std::uint64_t bytes_total = 0;
    walk_ready(begin, [&](const plan::Piece& piece) {
        found.end = piece.range.end;
        found.incomplete = found.incomplete || piece.sequence >= complete_below;
        if (piece.sequence >= complete_below) return true;
        const auto take_part = [&](ByteRange part) {
            found.pieces.push_back(part_of(piece, part));
            bytes_total += part.size();
        };
        parts_.queue.in_flight().for_each_gap(piece.range, [&](ByteRange part) {
            if (unreadable.empty()) take_part(part);
            else unreadable.for_each_gap(part, take_part);
        });
        return found.to_the_end = found.pieces.size() < kPlanPiecesMax && bytes_total < bytes_max;
    });
    return found;
}

// Plans writes from `begin` on, and moves the cursor.
Planner::Found Planner::plan_from(std::uint64_t begin) {
    if (begin == 0) planned_since_start_bytes_ = 0;
    const Candidates found = find_candidates(begin);
    if (found.pieces.empty()) {
        if (found.incomplete && order_ != nullptr) order_->await_complete();
        cursor_ = found.end;
        return found.to_the_end ? Found::kNothing : Found::kMore;
    }

    const Options& options = parts_.options;
    const std::uint64_t stripe = parts_.facts.stripe();
    const Backlog backlog = parts_.listener.backlog();
    plan::Policy policy{stripe, options.write_max};
    if (!urgent_ && !at_once_ && !backlog.clogged) {
        policy.growing_at = backlog.logical_size;
        if (backlog.ready_bytes < std::min(kSmallPiecesMax, options.size / kSmallPiecesShare))
            policy.run_min = stripe / 2;
    }
    // More extents follow: the next plan begins at a stripe boundary.
    const std::uint64_t begin_of_run = begin_of_last_run(found.pieces);
    if (!found.to_the_end && found.pieces.back().range.end == found.end && align_down(found.end, stripe) > begin_of_run)
        policy.growing_at = found.end;
    for (plan::TargetWrite& write : plan::merge(found.pieces, policy)) add(std::move(write));
    // The next plan begins at this one's end, but takes a run that still grows there as a whole.
    const auto& planned = parts_.queue.planned();
    cursor_ = planned.empty() ? begin_of_run : planned.back().range.end;
    if (planned.empty() && found.end != backlog.logical_size) cursor_ = found.end;
    return !planned.empty() ? Found::kWrites : found.to_the_end ? Found::kTooLittle : Found::kMore;
}

void Planner::add(plan::TargetWrite write) {
    const ByteRange range = write.range;
    parts_.queue.add(std::move(write));
    planned_since_start_bytes_ += range.size();
    parts_.target.reaches(range.end);
}

// The next plan begins at their lowest offset, so that writes still ascend.
void Planner::drop_planned() { cursor_ = std::min(cursor_, parts_.queue.drop_planned()); }

void Planner::put_back(const plan::TargetWrite& write) {
    parts_.queue.put_back(write);
    cursor_ = std::min(cursor_, write.range.begin);
}

// A few bytes wait for more, unless the drain is urgent.
bool Planner::worth_draining() const noexcept {
    if (parts_.failures.halted()) return false;
    if (parts_.target.cut_due()) return true;
    if (paused_) return false;
    const Backlog backlog = parts_.listener.backlog();
    if (backlog.ready_bytes == 0 && !backlog.any_ready) return false;
    // Nodes wait for each other's bytes, which go as soon as a write may be in flight.
    if (urgent_ || at_once_ || backlog.clogged) return true;
    return backlog.ready_bytes >= std::max(plan_from_bytes_, parts_.queue.in_flight_bytes() + parts_.facts.stripe());
}

bool Planner::look_again() noexcept {
    if (wraps_ && parts_.queue.none_in_flight()) plan_from_bytes_ = 0;
    return !parts_.queue.planned().empty() || worth_draining() ||
           parts_.target.size() < parts_.listener.backlog().committed_size;
}

Planner::RoomDrain Planner::drain_for_room() {
    Failures& failures = parts_.failures;
    failures.end_pause();   // a writer without room cannot wait for this file
    paused_ = false;
    const bool cut_due = parts_.target.cut_due().has_value();
    bool anything = !failures.halted() && (parts_.listener.backlog().any_ready || cut_due);
    if (anything) urgent_ = true;
    if (anything && !failures.unreadable().empty() && !cut_due) {   // unreadable bytes will not drain
        if (parts_.queue.planned().empty()) plan();
        anything = !parts_.queue.planned().empty();
    }
    return {anything, anything || !parts_.queue.idle()};
}

bool Planner::drained_below(std::uint64_t below) const {
    bool any = false;
    walk_ready(0, [&](const plan::Piece& piece) { return !(any = piece.sequence < below); });
    return !any;
}

bool Planner::readable_left() const {
    const RangeSet& unreadable = parts_.failures.unreadable();
    if (unreadable.empty()) return parts_.listener.backlog().any_ready;
    bool any = false;
    walk_ready(0, [&](const plan::Piece& piece) {
        unreadable.for_each_gap(piece.range, [&](ByteRange) { any = true; });
        return !any;
    });
    return any;
}

}   // namespace forebay::drain
