// Segments for one staged file: taking them, waiting for them, giving them back.
#include <algorithm>

#include "base/clock.h"
#include "stage/staged_file.h"

namespace forebay::stage {

namespace {

// A write is not shredded into records smaller than this at the end of a segment.
constexpr std::uint64_t kRecordPayloadMin = 4096;
// Only a log of at least this many segments is worth compacting.
constexpr std::size_t kCompactFrom = 4;

}   // namespace

// The job ends soon: before more is staged, some of what there is goes to its target. Nothing fails for that; what is
// held until a commit is not waited for.
void StagedFile::await_deadline(log::SegmentPool::Take take) {
    if (take == log::SegmentPool::Take::kWarm) return;
    log::SegmentPool& pool = *context_.pool();
    drain::Wait wait({context_.options(), context_.scheduler(), context_.progress()});
    while (context_.too_much_for_deadline()) {
        const std::uint64_t seen = pool.changes();
        {
            const LockGuard lock(mutex());
            if (!outflow_.failures().error().is_ok()) return;
            outflow_.arrivals().wait_out_pause(mutex(), outflow_.failures());
        }
        const bool others_under_way = context_.press_files(*this);
        if ((!press() && !others_under_way) || wait.over()) return;
        const std::uint64_t begin = monotonic_ns();
        pool.wait_for_change(seen, wait.until());
        slot_->stall_ns.fetch_add(monotonic_ns() - begin, std::memory_order_relaxed);
    }
}

// How many payload bytes may be appended now. 0: none, and waiting would not help, or is not wanted
// (option full, or only a warm segment would do); the caller writes through.
Result<std::uint64_t> StagedFile::make_room(std::uint64_t wanted_bytes, log::SegmentPool::Take take) {
    if (log_failed_) return std::uint64_t{0};
    if (const std::uint64_t room = log_->room(false); room >= std::min(wanted_bytes, kRecordPayloadMin)) return room;
    if (follows()) return await_room(take);
    log::SegmentPool& pool = *context_.pool();
    compact();
    drain::Wait wait({context_.options(), context_.scheduler(), context_.progress()});
    if (!group_) await_deadline(take);
    for (;;) {
        const std::uint64_t seen = pool.changes();
        if (auto segment = log_->acquire(take)) {
            if (!adopt(segment.value())) {
                FOREBAY_TRY(give_up_log());
                return std::uint64_t{0};
            }
            sync_opening();
            return log_->room(false);
        }
        if (durable_) {
            const LockGuard lock(mutex());
            if (recycle_durably()) continue;
            if (outflow_.arrivals().sync_hangs())
                return outflow_.arrivals().timed_out().with_context("write to " + path_ + ": the staging log is full");
        }
        if (take == log::SegmentPool::Take::kWarm) return std::uint64_t{0};
        {
            const LockGuard lock(mutex());
            FOREBAY_TRY(outflow_.failures().error());
            outflow_.arrivals().wait_out_pause(mutex(), outflow_.failures());
        }
        const bool under_way = context_.press_files(*this);
        if (context_.options().full == WhenFull::kThrough) return std::uint64_t{0};
        const std::uint64_t begin = monotonic_ns();
        if (press() || under_way) {
            if (wait.over()) {
                const LockGuard lock(mutex());
                return outflow_.arrivals().timed_out().with_context("write to " + path_ + ": the staging log is full");
            }
            pool.wait_for_change(seen, wait.until());
        } else if (!context_.promote_held()) return std::uint64_t{0};
        slot_->stall_ns.fetch_add(monotonic_ns() - begin, std::memory_order_relaxed);
        compact();
    }
}

// The same for a process that does not drain: only the drainer can make room.
Result<std::uint64_t> StagedFile::await_room(log::SegmentPool::Take take) {
    for (;;) {
        const std::uint64_t released = group_->log().released();
        {
            const LockGuard lock(mutex());
            index::FollowedBytes::release(group_->log(), *log_, 0);
        }
        if (auto segment = log_->acquire(take)) {
            if (!adopt(segment.value())) return log_failure().with_context("write to " + path_);
            return log_->room(false);
        }
        if (take == log::SegmentPool::Take::kWarm || group_->target().bypasses_log()) return std::uint64_t{0};
        const std::uint64_t begin = monotonic_ns();
        const Status waited = group_->log().wait_for_room(released);
        // The drainer of this file may have nothing to give: files that were closed have the room.
        if (waited && group_->log().released() == released) (void)context_.await_a_close();
        slot_->stall_ns.fetch_add(monotonic_ns() - begin, std::memory_order_relaxed);
        if (!waited) return waited.with_context("write to " + path_);
    }
}

// False: the log has failed.
bool StagedFile::adopt(log::Segment* segment) {
    const LockGuard lock(mutex());
    const std::uint64_t sequence = next_sequence();
    group::DrawnNumber drawn(order());
    const bool begun = log_->adopt(segment, {commit_sequence_, committed_size_, commit_time_ns_}, sequence);
    if (!group_) return begun;
    segment->participant = group_->log().index();
    drawn.publish();
    group_->log().adopted(*segment, log_->oldest_order() + log_->segments() - 1);
    return begun && group_->lost().is_ok();
}

Status StagedFile::log_failure() const { return group_ && !group_->lost().is_ok() ? group_->lost() : log_->fault(); }

// Held bytes cannot drain, and a segment can only go when it is the oldest: a few metadata blocks would
// keep the whole log. So the held bytes of the oldest segments are copied to the newest one, provided
// nothing else in them is needed.
void StagedFile::compact() {
    for (;;) {
        std::vector<index::ExtentIndex::Map::Extent> held;
        log::Segment* source;
        {
            const LockGuard lock(mutex());
            recycle();
            if (log_->segments() < kCompactFrom) return;
            log::Segment& oldest = *log_->oldest();
            if (oldest.live_bytes == 0 || oldest.pins > 0 || oldest.unindexed.load() > 0 ||
                oldest.live_bytes > log_->room(true) / 2)
                return;
            held = bytes_.index().held_in(&oldest);
            std::uint64_t held_bytes = 0, needed = 0;
            for (const auto& extent : held) {
                held_bytes += extent.range.size();
                needed += log::record_bytes(1, extent.range.size());
            }
            if (held_bytes != oldest.live_bytes || needed > log_->room(true)) return;
            // Another file in want of room may have them drained meanwhile: the bytes must stay put, and
            // only what is still held is moved.
            source = &oldest;
            bytes_.index().pin(index::StagedPlace{source}.keeper());
        }
        bool moved = true;
        for (const auto& [range, bytes] : held) {
            const auto position = log_->copy_data(range.begin, *source, {bytes.data(), range.size()},
                                                  log::DataClass::kMetadata, bytes.sequence, realtime_ns());
            moved = position.segment != nullptr;
            if (!moved) break;   // the bytes stay where they are; whoever needs them finds out more
            const LockGuard lock(mutex());
            bytes_.index().relocate_held(range, {position.segment, position.offset, bytes.sequence,
                                                 static_cast<std::uint32_t>(position.segment->own_generation),
                                                 log::DataClass::kMetadata});
        }
        const LockGuard lock(mutex());
        bytes_.index().unpin(index::StagedPlace{source}.keeper());
        if (!moved) return;
    }
}

// Of a shared file: what is done to it beside the log, the others learn from a record only. If need be everything
// is drained to make room for it.
Status StagedFile::make_marker_room() {
    while (log_->empty() || !log_->marker_fits()) {
        if (follows()) {
            const auto room = await_room(log::SegmentPool::Take::kAny);
            if (!room) return room.status();
            if (room.value() == 0)
                return {Code::kNoSpace,
                        "the staging log of " + path_ +
                            " is full, and the process that drains for this node cannot write the file"};
            continue;
        }
        if (auto segment = log_->acquire()) {
            if (!adopt(segment.value())) return log_failure().with_context("write to " + path_);
            continue;
        }
        if (log_->empty() && context_.await_a_close()) continue;
        if (log_->empty()) return {Code::kNoSpace, "other files use up the staging log that " + path_ + " needs"};
        {
            const LockGuard lock(mutex());
            follow();
            slot_->guarantee_given_up.fetch_add(bytes_.index().promote_held(), std::memory_order_relaxed);
        }
        const LockGuard lock(mutex());
        FOREBAY_TRY(drain_all());
        while (!(durable_ ? recycle_group_durably(true) : recycle(true))) {
            FOREBAY_TRY(outflow_.failures().error());
            if (outflow_.arrivals().sync_hangs()) return outflow_.arrivals().timed_out();
            group_->order().await_complete();
            FOREBAY_TRY(outflow_.arrivals().await_next(mutex()));
            follow();
            if (!bytes_.index().ready_empty())
                FOREBAY_TRY(drain_all());   // something of another participant keeps the frontier
        }
    }
    return Status::ok();
}

// The record of a truncation is needed until its zeros, or the cut, have reached the target. True if a segment
// of this log was released.
bool StagedFile::recycle(bool newest_too) {
    if (bytes_.index().zero_bytes() > 0 || outflow_.target().cut_due() || follows()) return false;
    if (durable_) {
        // That takes the device's time: whoever wants the room does it.
        if (group_) group_->release().at_rest();
        if (!recycling_ && segments_to_give_back() > 0) context_.pool()->announce_change();
        return false;
    }
    std::optional<log::Frontier> frontier;
    if (group_) {
        if (bytes_.index().empty() && outflow_.queue().none_in_flight()) {
            // The frontier would say that the file is complete, while its size is still to be set.
            if (outflow_.target().size() < committed_size_) return false;
            group_->release().all_drained();
        }
        const bool waits = log_->segments() > (newest_too ? 0 : 1) && log_->oldest()->idle();
        frontier = group_->release().recycle({log_->needed(), bytes_.index().drained_metadata(), waits,
                                              resize_sequence_});
        if (!frontier) return false;
        resize_sequence_ = 0;
    }
    const auto may_go = [&, drained = bytes_.index().drained_metadata()](const log::Segment& segment) {
        return segment.idle() && (!group_ || segment.order.may_go(*frontier, drained));
    };
    const std::size_t keep = newest_too ? 0 : 1;
    bool any = false;
    for (; log_->segments() > keep && may_go(*log_->oldest()); any = true) log_->release_oldest();
    if (group_) group_->log().set_released(log_->oldest_order());
    return any;
}

// Asks for all that may be drained to be drained now; true if anything is under way.
bool StagedFile::press() {
    drain::Planner::RoomDrain pressed;
    {
        const LockGuard lock(mutex());
        if (state_ != State::kStaged) return false;
        if (recycle_durably() || recycling_) return true;
        if (follows()) {
            // The process in want of room must not count on another process's progress.
            index::FollowedBytes::release(group_->log(), *log_, 1);
            return false;
        }
        follow();
        pressed = outflow_.planner().drain_for_room();
    }
    if (pressed.wants_thread) outflow_.wake();
    return pressed.under_way;
}

std::uint64_t StagedFile::promote_held() {
    const LockGuard lock(mutex());
    if (state_ != State::kStaged || outflow_.failures().halted() || follows()) return 0;
    const std::uint64_t bytes = bytes_.index().promote_held();
    slot_->guarantee_given_up.fetch_add(bytes, std::memory_order_relaxed);
    update_ledger();
    return bytes;
}

}   // namespace forebay::stage
