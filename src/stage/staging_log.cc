#include "stage/staging_log.h"

#include <algorithm>
#include <utility>

#include "base/attempt.h"
#include "base/clock.h"
#include "stage/commit_policy.h"

namespace forebay::stage {

namespace {

// A write gets no record smaller than this at the end of a segment.
constexpr std::uint64_t kRecordPayloadMin = 4096;
// Only a log of at least this many segments is worth compacting.
constexpr std::size_t kCompactFrom = 4;

}   // namespace

void StagingLog::open(const log::Birth& born) {
    file_.mutex().assert_held();
    const FileState::Name& name = file_.name;
    file_.log = std::make_unique<log::FileLog>(
        *file_.context.pool(), name.log_number,
        log::LogTarget{name.identity.device, name.identity.inode, name.path, {}, file_.durable, born}, file_.durable);
}

Status StagingLog::await_unpinned() {
    file_.mutex().assert_held();
    return file_.outflow.state.arrivals.await(file_.mutex(), [this]() NO_THREAD_SAFETY_ANALYSIS {
        return !file_.log->segments().pinned() && !file_.commits->recycling();
    });
}

Status StagingLog::stop_staging() {
    file_.mutex().assert_held();
    if (file_.outflow.state.target.size() != file_.sizes.logical)
        FOREBAY_TRY(file_.outflow.resize_target(file_.sizes.logical));
    release_all();
    file_.outflow.state.facts.note_unsynced();
    file_.outflow.state.target.set_size(file_.sizes.logical);
    file_.sizes.committed = file_.sizes.logical;
    file_.mode = FileMode::kBypass;
    file_.offer_target();
    return Status::ok();
}

// First `released`, as in CommitPolicy::release_oldest.
void StagingLog::release_all() {
    file_.mutex().assert_held();
    log::SegmentList& segments = file_.log->segments();
    if (file_.group) file_.group->log().set_released(segments.oldest_order() + segments.size());
    segments.release_all();
}

Status StagingLog::drain_and_release() {
    file_.writer.assert_held();
    {
        const LockGuard lock(file_.mutex());
        file_.follow();
        file_.make_held_ready();
    }
    {
        const LockGuard lock(file_.mutex());
        FOREBAY_TRY(drain());
        FOREBAY_TRY(file_.outflow.confirms.await(drain::Confirm::kSync));
        FOREBAY_TRY(await_unpinned());
        if (!file_.bytes.empty()) return {Code::kInternal, "bytes of " + file_.name.path + " are still staged"};
        FOREBAY_TRY(file_.commits->release_all());
        release_all();
    }
    return file_.commits->log_given_back();
}

Status StagingLog::append_marker(log::RecordKind kind, std::uint64_t argument, std::uint64_t sequence) {
    file_.writer.assert_held();
    const bool cut = kind == log::RecordKind::kTruncate && argument < file_.sizes.logical;
    if ((file_.log->segments().empty() && !cut) || failed_) return Status::ok();
    if (file_.group) {
        FOREBAY_TRY(make_marker_room());
    } else if (!file_.log->marker_fits()) {
        const auto room = make_room(log::kRecordHeaderBytes, log::SegmentPool::Take::kAny);
        if (!room) return room.status();
        if (room.value() == 0) return failed_ ? Status::ok() : drain_and_release();
    }
    if (file_.log->append_marker(kind, argument, sequence)) return Status::ok();
    return give_up();
}

Status StagingLog::take_first_segment() {
    file_.writer.assert_held();
    if (first_segment_ != nullptr) return Status::ok();
    auto segment = file_.log->acquire();
    while (!segment && file_.context.await_a_close()) segment = file_.log->acquire();
    if (!segment)
        return segment.status().with_context("share " + file_.name.path + " with the other processes of the node");
    first_segment_ = segment.value();
    return Status::ok();
}

void StagingLog::give_back_first_segment() {
    file_.writer.assert_held();
    if (first_segment_ != nullptr) file_.context.pool()->release(std::exchange(first_segment_, nullptr));
}

bool StagingLog::adopt_first_segment() {
    file_.writer.assert_held();
    return adopt(std::exchange(first_segment_, nullptr));
}

// When the job ends soon, bytes drain before more are staged. Never fails a write, nor waits for uncommitted bytes.
void StagingLog::await_deadline(log::SegmentPool::Take take) {
    if (take == log::SegmentPool::Take::kWarm) return;
    log::SegmentPool& pool = *file_.context.pool();
    drain::Wait wait({file_.context.options(), file_.context.scheduler(), file_.context.progress()});
    while (file_.context.too_much_for_deadline()) {
        const std::uint64_t seen = pool.changes();
        {
            const LockGuard lock(file_.mutex());
            if (!file_.outflow.state.failures.error().is_ok()) return;
            file_.outflow.state.arrivals.wait_out_pause(file_.mutex(), file_.outflow.state.failures);
        }
        const bool others_under_way = file_.context.drain_others_for_room(owner_);
        if ((!drain_for_room() && !others_under_way) || wait.over()) return;
        const std::uint64_t begin = monotonic_ns();
        pool.wait_for_change(seen, wait.until());
        file_.counters->stall_ns.fetch_add(monotonic_ns() - begin, std::memory_order_relaxed);
    }
}

Result<std::uint64_t> StagingLog::make_room(std::uint64_t wanted_bytes, log::SegmentPool::Take take) {
    file_.writer.assert_held();
    if (failed_) return std::uint64_t{0};
    if (const std::uint64_t room = file_.log->room(false); room >= std::min(wanted_bytes, kRecordPayloadMin))
        return room;
    if (file_.follows()) return await_room(take);
    log::SegmentPool& pool = *file_.context.pool();
    compact();
    drain::Wait wait({file_.context.options(), file_.context.scheduler(), file_.context.progress()});
    if (!file_.group) await_deadline(take);
    for (;;) {
        const std::uint64_t seen = pool.changes();
        if (auto segment = file_.log->acquire(take)) {
            if (!adopt(segment.value())) {
                FOREBAY_TRY(give_up());
                return std::uint64_t{0};
            }
            file_.commits->sync_opening();
            return file_.log->room(false);
        }
        if (file_.durable) {
            const LockGuard lock(file_.mutex());
            const auto recycled = file_.commits->recycle_durably(false);
            if (recycled == CommitPolicy::Recycled::kNoMemory) return out_of_memory();
            if (recycled == CommitPolicy::Recycled::kSome) continue;
            if (file_.outflow.state.arrivals.sync_hangs())
                return file_.outflow.state.arrivals.timed_out().with_context("write to " + file_.name.path +
                                                                             ": the staging log is full");
        }
        if (take == log::SegmentPool::Take::kWarm) return std::uint64_t{0};
        {
            const LockGuard lock(file_.mutex());
            FOREBAY_TRY(file_.outflow.state.failures.error());
            file_.outflow.state.arrivals.wait_out_pause(file_.mutex(), file_.outflow.state.failures);
        }
        const bool under_way = file_.context.drain_others_for_room(owner_);
        if (file_.context.options().full == WhenFull::kThrough) return std::uint64_t{0};
        const std::uint64_t begin = monotonic_ns();
        if (drain_for_room() || under_way) {
            if (wait.over()) {
                const LockGuard lock(file_.mutex());
                return file_.outflow.state.arrivals.timed_out().with_context("write to " + file_.name.path +
                                                                             ": the staging log is full");
            }
            pool.wait_for_change(seen, wait.until());
        } else if (!file_.context.make_held_ready()) return std::uint64_t{0};
        file_.counters->stall_ns.fetch_add(monotonic_ns() - begin, std::memory_order_relaxed);
        compact();
    }
}

// Waits for room in a process that does not drain: only the drainer can make room.
Result<std::uint64_t> StagingLog::await_room(log::SegmentPool::Take take) {
    for (;;) {
        const std::uint64_t released = file_.group->log().released();
        {
            const LockGuard lock(file_.mutex());
            index::FollowedBytes::release(file_.group->log(), *file_.log, 0);
        }
        if (auto segment = file_.log->acquire(take)) {
            if (!adopt(segment.value())) return failure().with_context("write to " + file_.name.path);
            return file_.log->room(false);
        }
        if (take == log::SegmentPool::Take::kWarm || file_.group->target().bypasses_log()) return std::uint64_t{0};
        const std::uint64_t begin = monotonic_ns();
        const Status waited = file_.group->log().wait_for_room(released);
        // The drainer of this file may have nothing to give: files that were closed have the room.
        if (waited && file_.group->log().released() == released) (void)file_.context.await_a_close();
        file_.counters->stall_ns.fetch_add(monotonic_ns() - begin, std::memory_order_relaxed);
        if (!waited) return waited.with_context("write to " + file_.name.path);
    }
}

bool StagingLog::adopt(log::Segment* segment) {
    file_.writer.assert_held();
    const LockGuard lock(file_.mutex());
    const std::uint64_t sequence = file_.next_sequence();
    group::DrawnNumber drawn(file_.order());
    const bool begun = file_.log->adopt(
        segment, {file_.sizes.commit_sequence, file_.sizes.committed, file_.sizes.commit_time_ns}, sequence);
    if (!file_.group) return begun;
    segment->participant = file_.group->log().index();
    drawn.publish();
    file_.group->log().adopted(*segment, file_.log->segments().oldest_order() + file_.log->segments().size() - 1);
    return begun && file_.group->lost().is_ok();
}

Status StagingLog::failure() const {
    return file_.group && !file_.group->lost().is_ok() ? file_.group->lost() : file_.log->fault();
}

// Held bytes cannot drain, and only the oldest segment can go, so a few metadata blocks would keep the whole log. So
// this copies the held bytes of the oldest segments to the newest one, if nothing else in them is needed.
void StagingLog::compact() {
    for (;;) {
        std::vector<index::StagedExtents::Extent> held;
        log::Segment* source;
        {
            const LockGuard lock(file_.mutex());
            recycle();
            if (file_.log->segments().size() < kCompactFrom) return;
            log::Segment& oldest = *file_.log->segments().oldest();
            if (oldest.live_bytes == 0 || oldest.pins > 0 || oldest.unindexed.load() > 0 ||
                oldest.live_bytes > file_.log->room(true) / 2)
                return;
            held = file_.bytes.index().held().in(&oldest);
            std::uint64_t held_bytes = 0, needed = 0;
            for (const auto& extent : held) {
                held_bytes += extent.range.size();
                needed += log::record_bytes(1, extent.range.size());
            }
            if (held_bytes != oldest.live_bytes || needed > file_.log->room(true)) return;
            // Another file that needs room may let them drain meanwhile: they stay in place, and only held ones move.
            source = &oldest;
            file_.bytes.index().keepers().pin(index::StagedPlace{source}.keeper());
        }
        // Bytes that did not move stay where they are. A later append, or read, reports a fault.
        const Status moved = attempt([&]() NO_THREAD_SAFETY_ANALYSIS { return move_held(held, *source); });
        const LockGuard lock(file_.mutex());
        file_.bytes.index().keepers().unpin(index::StagedPlace{source}.keeper());
        if (!moved) return;
    }
}

Status StagingLog::move_held(std::span<const index::StagedExtents::Extent> held, const log::Segment& source) {
    for (const auto& [range, bytes] : held) {
        const auto position = file_.log->copy_data(range.begin, source, {bytes.data(), range.size()},
                                                   log::DataClass::kMetadata, bytes.sequence, realtime_ns());
        if (position.segment == nullptr) return file_.log->fault();
        const LockGuard lock(file_.mutex());
        file_.bytes.index().relocate_held(range, {position.segment, position.offset, bytes.sequence,
                                                  static_cast<std::uint32_t>(position.segment->own_generation),
                                                  log::DataClass::kMetadata});
    }
    return Status::ok();
}

Status StagingLog::make_marker_room() {
    file_.writer.assert_held();
    while (file_.log->segments().empty() || !file_.log->marker_fits()) {
        if (file_.follows()) {
            const auto room = await_room(log::SegmentPool::Take::kAny);
            if (!room) return room.status();
            if (room.value() == 0)
                return {Code::kNoSpace,
                        "the staging log of " + file_.name.path +
                            " is full, and the process that drains for this node cannot write the file"};
            continue;
        }
        if (auto segment = file_.log->acquire()) {
            if (!adopt(segment.value())) return failure().with_context("write to " + file_.name.path);
            continue;
        }
        if (file_.log->segments().empty() && file_.context.await_a_close()) continue;
        if (file_.log->segments().empty())
            return {Code::kNoSpace, "other files use up the staging log that " + file_.name.path + " needs"};
        {
            const LockGuard lock(file_.mutex());
            file_.follow();
            file_.make_held_ready();
        }
        const LockGuard lock(file_.mutex());
        FOREBAY_TRY(drain());
        FOREBAY_TRY(file_.outflow.confirms.await(drain::Confirm::kSync));
        for (;;) {
            using Recycled = CommitPolicy::Recycled;
            const Recycled recycled = file_.durable   ? file_.commits->recycle_durably(true)
                                      : recycle(true) ? Recycled::kSome
                                                      : Recycled::kNothing;
            if (recycled == Recycled::kNoMemory) return out_of_memory();
            if (recycled == Recycled::kSome) break;
            FOREBAY_TRY(file_.outflow.state.failures.error());
            if (file_.outflow.state.arrivals.sync_hangs()) return file_.outflow.state.arrivals.timed_out();
            file_.group->order().await_complete();
            FOREBAY_TRY(file_.outflow.state.arrivals.await_next(file_.mutex()));
            file_.follow();
            if (!file_.bytes.index().ready().empty())
                FOREBAY_TRY(drain());   // bytes of another participant keep the frontier
            FOREBAY_TRY(file_.outflow.confirms.await(drain::Confirm::kSync));
        }
    }
    return Status::ok();
}

bool StagingLog::recycle(bool newest_too) {
    file_.mutex().assert_held();
    if (file_.bytes.index().zero_bytes() > 0 || file_.outflow.state.target.cut_due() || file_.follows()) return false;
    return file_.commits->recycle(newest_too);
}

Status StagingLog::drain(std::uint64_t below) {
    file_.mutex().assert_held();
    Status drained = file_.outflow.drain(below);
    recycle();
    file_.update_ledger();
    return drained;
}

void StagingLog::pause_drain() {
    if (file_.context.deadline_presses()) return;
    const LockGuard lock(file_.mutex());
    if (file_.mode == FileMode::kStaged && !file_.context.inherited()) file_.outflow.state.planner.pause();
}

void StagingLog::resume_drain() {
    if (file_.context.inherited()) return;
    bool drain_now = false;
    {
        const LockGuard lock(file_.mutex());
        drain_now = file_.outflow.state.planner.resume() && file_.mode == FileMode::kStaged;
    }
    if (drain_now) file_.outflow.wake();
}

bool StagingLog::drain_paused() const {
    const LockGuard lock(file_.mutex());
    return file_.outflow.state.planner.paused();
}

bool StagingLog::drain_for_room() {
    drain::Planner::RoomDrain wanted;
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode != FileMode::kStaged) return false;
        if (file_.commits->recycle_durably(false) == CommitPolicy::Recycled::kSome || file_.commits->recycling())
            return true;
        if (file_.follows()) {
            // The process in want of room must not count on another process's progress.
            index::FollowedBytes::release(file_.group->log(), *file_.log, 1);
            return false;
        }
        file_.follow();
        wanted = file_.outflow.state.planner.drain_for_room();
    }
    if (wanted.wants_thread) file_.outflow.wake();
    // The confirmation of a target gives room, too.
    return wanted.under_way || file_.outflow.confirms.ask();
}

std::uint64_t StagingLog::make_held_ready() {
    const LockGuard lock(file_.mutex());
    if (file_.mode != FileMode::kStaged || file_.outflow.state.failures.halted() || file_.follows()) return 0;
    const std::uint64_t bytes = file_.make_held_ready();
    file_.update_ledger();
    return bytes;
}

}   // namespace forebay::stage
