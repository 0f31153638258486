// What an outflow writes next.
#include <algorithm>
#include <utility>
#include <vector>

#include "drain/outflow.h"
#include "extent/stripe.h"

namespace forebay::drain {

namespace {

constexpr std::size_t kPlanPiecesMax = 65536;
constexpr std::uint64_t kPlanWrites = 8;   // of the largest size, per plan
// So much may be left staged in pieces smaller than a stripe, in the hope for neighbours: no more than
// this, and than this share of the log.
constexpr std::uint64_t kSmallPiecesMax = std::uint64_t{128} << 20;
constexpr std::uint64_t kSmallPiecesShare = 8;

// Where the pieces that adjoin up to the last one begin. `pieces` is not empty.
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

// Makes target writes of what is ready from where the last plan ended, or of what lies before, if nothing behind may go
// yet: what is written last in file order may be growing still, while others have filled gaps before it.
void Outflow::plan() {
    if (!worth_draining()) return;
    // What keeps a clogged log may lie before the cursor, and a stream of new bytes behind it would never let the plans
    // begin anew. Twice what is ready: less would end sweeps over many growing places before they have come to the last
    // ones.
    const Backlog backlog = listener_.backlog();
    if (planned_since_start_bytes_ >= 2 * backlog.ready_bytes && backlog.clogged) cursor_ = 0;
    const bool from_within = cursor_ > 0;
    Found found = plan_from(cursor_);
    // Where something waits for its neighbours, what arrives before the writes in flight have ended goes together.
    wraps_ = from_within && found == Found::kTooLittle && !in_flight_.empty();
    if (from_within && !wraps_ && (found == Found::kNothing || found == Found::kTooLittle)) found = plan_from(0);
    // Nothing: all is in flight, or not complete yet. Its end is what to wait for, not more bytes.
    if (found != Found::kNothing) plan_from_bytes_ = planned_.empty() ? listener_.backlog().ready_bytes + stripe() : 0;
}

// Takes ready extents from `begin` on, in file order, leaving out what overlaps a write in flight, and makes target
// writes of them. All of these are in flight from now on. Moves the cursor.
Outflow::Found Outflow::plan_from(std::uint64_t begin) {
    const Options& options = process_.options;
    const std::uint64_t bytes_max = kPlanWrites * options.write_max;
    std::vector<plan::Piece> pieces;
    std::uint64_t bytes_total = 0, last_end = begin;
    const std::uint64_t complete_below = order_ != nullptr ? order_->complete_below() : kOffsetMax;
    bool incomplete = false, to_the_end = true;
    if (begin == 0) planned_since_start_bytes_ = 0;
    walk_ready(begin, [&](const plan::Piece& piece) NO_THREAD_SAFETY_ANALYSIS {
        last_end = piece.range.end;
        incomplete = incomplete || piece.sequence >= complete_below;
        if (piece.sequence >= complete_below) return true;
        const auto take_part = [&](ByteRange part) {
            pieces.push_back(part_of(piece, part));
            bytes_total += part.size();
        };
        in_flight_.for_each_gap(piece.range, [&](ByteRange part) NO_THREAD_SAFETY_ANALYSIS {
            if (unreadable_.empty()) take_part(part);
            else unreadable_.for_each_gap(part, take_part);
        });
        return to_the_end = pieces.size() < kPlanPiecesMax && bytes_total < bytes_max;
    });
    if (pieces.empty()) {
        if (incomplete && order_ != nullptr) order_->await_complete();
        cursor_ = last_end;
        return to_the_end ? Found::kNothing : Found::kMore;
    }

    const Backlog backlog = listener_.backlog();
    plan::Policy policy{stripe(), options.write_max};
    if (!urgent_ && !at_once_ && !backlog.clogged) {
        policy.growing_at = backlog.logical_size;
        if (backlog.ready_bytes < std::min(kSmallPiecesMax, options.size / kSmallPiecesShare))
            policy.run_min = stripe() / 2;
    }
    // More follows what was taken: the next plan begins at a stripe boundary.
    if (!to_the_end && pieces.back().range.end == last_end &&
        align_down(last_end, stripe()) > begin_of_last_run(pieces))
        policy.growing_at = last_end;
    for (plan::TargetWrite& write : plan::merge(pieces, policy)) add_planned(std::move(write));
    // The next plan begins where this one ends; a run that is still growing there is looked at as a whole.
    cursor_ = planned_.empty() ? begin_of_last_run(pieces) : planned_.back().range.end;
    if (planned_.empty() && last_end != backlog.logical_size) cursor_ = last_end;
    return !planned_.empty() ? Found::kWrites : to_the_end ? Found::kTooLittle : Found::kMore;
}

void Outflow::add_planned(plan::TargetWrite write) {
    in_flight_.add(write.range);
    try {
        planned_.push_back(std::move(write));
    } catch (...) {
        in_flight_.remove(write.range);
        throw;
    }
    const plan::TargetWrite& planned = planned_.back();
    in_flight_bytes_ += planned.range.size();
    planned_since_start_bytes_ += planned.range.size();
    target_size_ = std::max(target_size_, planned.range.end);
    for (const plan::Piece& piece : planned.pieces) bytes_.index().pin(piece.keeper);
}

// What was planned stays staged, and is planned again.
void Outflow::drop_planned() {
    for (const plan::TargetWrite& write : planned_) drop(write);
    planned_.clear();
}

// The next plan begins with it, so that writes still come in ascending order.
void Outflow::drop(const plan::TargetWrite& write) {
    release(write);
    cursor_ = std::min(cursor_, write.range.begin);
}

// The end of a write in flight: its range may be written again, its segments may go.
void Outflow::release(const plan::TargetWrite& write) {
    in_flight_.remove(write.range);
    in_flight_bytes_ -= write.range.size();
    for (const plan::Piece& piece : write.pieces) bytes_.index().unpin(piece.keeper);
}

// Little is left to gather more, unless everything is wanted out.
bool Outflow::worth_draining() const noexcept {
    if (halted_) return false;
    if (cut_due_) return true;
    if (paused_) return false;
    const Backlog backlog = listener_.backlog();
    if (backlog.ready_bytes == 0 && !backlog.any_ready) return false;
    // Nodes wait for each other's bytes: they go as soon as a write can be in flight.
    if (urgent_ || at_once_ || backlog.clogged) return true;
    return backlog.ready_bytes >= std::max(plan_from_bytes_, in_flight_bytes_ + stripe());
}

bool Outflow::look_again() noexcept {
    if (wraps_ && in_flight_.empty()) plan_from_bytes_ = 0;
    return !planned_.empty() || worth_draining() || target_size_ < listener_.backlog().committed_size;
}

}   // namespace forebay::drain
