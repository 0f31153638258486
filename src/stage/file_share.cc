// A staged file that several processes write together (group/group.h): taking part, and following what others write.
#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

namespace {

// So many bytes in small pieces wait for their neighbours before they are staged each for itself: no more than this,
// and than this share of the log.
constexpr std::uint64_t kWaitingMax = std::uint64_t{32} << 20;
constexpr std::uint64_t kWaitingShare = 8;
// So many drain threads at most for the sake of other processes.
constexpr std::size_t kDrainThreadsMax = 64;

}   // namespace

// Whatever the target has for the range now is newer than any record before this one, of whichever class.
// False: the log has failed, and has no record of it.
bool StagedFile::append_bypass_record(ByteRange range, Place place) {
    const std::uint64_t sequence = next_sequence();
    group::DrawnNumber drawn(order());
    if (group_ && !group_->lost().is_ok()) return false;
    const bool supersedes = place == Place::kPerhapsStaged;
    const bool recorded = log_->append_through(range, sequence, supersedes);
    if (group_ && recorded) index::ExtentIndex::note_bypass(*log_->newest(), sequence, supersedes);
    return recorded;
}

// To the target at once, past the log. What is staged for the same place was drained before it came to
// be used otherwise, or is not drained any more before the close, or was never there; the record tells whoever follows
// this log to forget what it still knows of that, and how long the file is.
Status StagedFile::bypass_beside_others(std::span<const Part> parts, Place place) {
    for (const Part& part : parts) {
        const ByteRange range{part.offset, part.offset + part.bytes.size()};
        if (range.empty()) continue;
        FOREBAY_TRY(make_marker_room());   // the others have to be told
        const std::uint64_t begin_ns = monotonic_ns();
        {
            const group::BypassInFlight under_way(group_->target().bypasses());
            FOREBAY_TRY(target_->write_at(part.offset, part.bytes));
        }
        context_.wrote(begin_ns, monotonic_ns(), range);
        outflow_.facts().note_unsynced();
        add(slot_->through, range.size());
        add(slot_->target_writes, 1);
        const LockGuard lock(mutex());
        if (!append_bypass_record(range, place)) return log_failure().with_context("write to " + path_);
        if (!follows()) {
            index::FileBounds noted = bounds();
            bytes_.take_in_own(noted);
            bytes_.index().drop(range);
            outflow_.target().reaches(range.end);
        }
        logical_size_ = std::max(logical_size_, range.end);
    }
    return Status::ok();
}

Status StagedFile::take_first_segment() {
    const LockGuard writer(writer_);
    if (first_segment_ != nullptr) return Status::ok();
    auto segment = log_->acquire();
    while (!segment && context_.await_a_close()) segment = log_->acquire();
    if (!segment) return segment.status().with_context("share " + path_ + " with the other processes of the node");
    first_segment_ = segment.value();
    return Status::ok();
}

void StagedFile::give_back_first() {
    if (first_segment_ != nullptr) context_.pool()->release(std::exchange(first_segment_, nullptr));
}

Status StagedFile::join(std::shared_ptr<group::Group> group, bool several_nodes) {
    FOREBAY_TRY(take_first_segment());
    const LockGuard writer(writer_);
    log::Segment* const segment = std::exchange(first_segment_, nullptr);
    {
        const LockGuard lock(mutex());
        group_ = std::move(group);
        unstaged_.withdraw();
        durable_ = group_->release().durable();
        log_->share(group_->log().sharing(), durable_);
        several_nodes_ = several_nodes;
        if (several_nodes) committed_size_ = 0;   // all raw data lies beyond: it drains at once
        if (group_->drains()) {
            group_->target().set_committed_size(committed_size_);
            outflow_.share(group_->order(), std::min<std::size_t>(group_->participants(), kDrainThreadsMax),
                           several_nodes);
        } else {
            follower_ = std::make_unique<index::FollowedBytes>(group_->order());
        }
        if (several_nodes) note_external_writers();
        bytes_.index().clear();   // numbers begin afresh
    }
    if (!adopt(segment)) return log_failure().with_context("share " + path_ + " with the other processes of the node");
    return sync_own_log();
}

void StagedFile::poll_group(bool room_wanted) {
    bool drain_now = false;
    {
        const LockGuard lock(mutex());
        try {
            drain_now = find_work(room_wanted);
        } catch (const std::bad_alloc&) {
            // Nothing is lost: what was not taken in is found again.
        }
        outflow_.arrivals().announce();   // somebody may wait to drain what was not complete
    }
    if (drain_now) outflow_.wake();
}

// True if a drain thread is to be woken.
bool StagedFile::find_work(bool room_wanted) {
    if (state_ != State::kStaged || follows()) return false;
    follow(!room_wanted);
    if (room_wanted)
        outflow_.arrivals().wait_out_pause(mutex(), outflow_.failures());   // this thread has nothing else to do
    if (state_ != State::kStaged || !group_) return false;
    if (room_wanted && recycle_durably() && (state_ != State::kStaged || !group_)) return false;
    if (room_wanted && !outflow_.failures().halted() &&
        (outflow_.arrivals().stalled(outflow_.queue()) || outflow_.arrivals().sync_hangs()))
        outflow_.halt(outflow_.arrivals().timed_out());
    if (room_wanted && !outflow_.failures().halted()) {
        recycle();   // first: a participant that gets room by this needs no bytes of an unfinished commit to drain
        if (bytes_.index().ready_empty() && outflow_.queue().idle() && !outflow_.target().cut_due() &&
            group_->lacks_room())
            add(slot_->guarantee_given_up, bytes_.index().promote_held());
        (void)outflow_.planner().resume();
        outflow_.planner().hurry();
    }
    recycle();
    update_ledger();
    return outflow_.planner().wants_thread();
}

void StagedFile::collective_write_done() {
    {
        const LockGuard lock(mutex());
        if (state_ != State::kStaged || !group_) return;
        all_written_ = true;
    }
    outflow_.wake();
}

// After a failure, with on_error=through: the others may write to the target once no older bytes are on their way
// there. Never where the target could not be cut: that is made up for in the close, and would take with it what they
// write. Then all go on staging, as with the other policies. Nothing that comes after a failure asks for a cut before
// the close.
void StagedFile::allow_bypass() noexcept {
    if (group_ && group_->drains() && outflow_.failures().halted() && outflow_.queue().idle() &&
        !outflow_.target().cut_due() && context_.options().on_error == OnError::kThrough)
        group_->target().allow_bypass();
}

// Other processes of the node write to the target by themselves from now on, or may.
void StagedFile::note_external_writers() noexcept {
    if (group_ && group_->drains()) outflow_.target().note_external_writers();
}

bool StagedFile::staged() const {
    const LockGuard lock(mutex());
    return state_ == State::kStaged;
}

bool StagedFile::shared() const {
    const LockGuard lock(mutex());
    return group_ != nullptr;
}

Status StagedFile::finish_followed(const Status& outcome) {
    const LockGuard writer(writer_);
    {
        const LockGuard lock(mutex());
        if (state_ != State::kStaged) return outcome;
        follower_.reset();
        if (outcome) {
            log_.reset();
            state_ = State::kPassive;
            committed_size_ = logical_size_;
            outflow_.target().set_size(logical_size_);
        } else {
            log_->abandon();
            left_log_ = true;
            state_ = State::kFailed;
            outflow_.halt(outcome);
        }
        group_.reset();
        offer_target();
    }
    return outcome && durable_ ? sync_given_back() : outcome;
}

Status StagedFile::drain_present() {
    const LockGuard writer(writer_);
    std::shared_ptr<group::Group> group;
    std::uint64_t below = 0;
    {
        const LockGuard lock(mutex());
        if (state_ != State::kStaged || !group_) return outflow_.failures().error();
        group = group_;
        below = group->order().present_below();
        if (group->drains()) {
            follow();
            add(slot_->guarantee_given_up, bytes_.index().promote_held());
        }
    }
    const Call call(slot_->close_ns, context_.spare_time(), context_.trace());
    if (!group->drains()) return group->log().drain_below(below);
    Status drained;
    bool drain_now = false;
    {
        const LockGuard lock(mutex());
        drained = drain_all(below);
        drain_now = outflow_.planner().wants_thread();   // for later records, which were followed here
    }
    if (drain_now) outflow_.wake();
    return drained;
}

Status StagedFile::resize_beside(std::uint64_t size) {
    const LockGuard writer(writer_);
    const auto present = target_->size();
    FOREBAY_TRY(present.status());
    return present.value() == size ? Status::ok()
                                   : target_->resize(size);   // a file server is told of nothing that is so
}

Status StagedFile::note_size(std::uint64_t size) {
    const LockGuard writer(writer_);
    if (!follows() && log_ != nullptr && !log_->empty()) {
        FOREBAY_TRY(make_marker_room());
        const std::uint64_t sequence = next_sequence();
        group::DrawnNumber drawn(order());
        FOREBAY_TRY(group_->lost());
        const bool noted = log_->append_marker(log::RecordKind::kTruncate, size, sequence);
        drawn.publish();
        if (!noted) return log_failure().with_context("set the size of " + path_);
    }
    const LockGuard lock(mutex());
    logical_size_ = size;
    outflow_.target().set_size(size);
    index().drop({size, kOffsetMax});
    return Status::ok();
}

void StagedFile::guard_target(const std::function<std::shared_ptr<io::File>(std::shared_ptr<io::File>)>& guard) {
    const LockGuard writer(writer_);
    const LockGuard lock(mutex());
    unstaged_.replace(target_, guard(target_));
    offer_target();
    outflow_.target().reach_through(target_);
}

void StagedFile::waited_since(std::uint64_t begin_ns) noexcept {
    const LockGuard writer(writer_);
    const std::uint64_t now = monotonic_ns();
    context_.spare_time().enter(begin_ns);
    context_.spare_time().leave(now);
    context_.spare_time().forgive();
    add(slot_->close_ns, now - begin_ns);
    if (const io::Trace* const trace = context_.trace()) trace->waited(begin_ns, now);
}

void StagedFile::count_given_up(std::uint64_t bytes) noexcept { add(slot_->guarantee_given_up, bytes); }

Status StagedFile::go_through(ledger::AsideReason reason) {
    const LockGuard writer(writer_);
    slot_->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(reason), std::memory_order_relaxed);
    {
        const LockGuard lock(mutex());
        if (state_ != State::kStaged) return Status::ok();
        bytes_.index().clear();
        follower_.reset();
        log_->release_all();
        group_.reset();
        state_ = State::kBypass;
        offer_target();
    }
    return durable_ ? sync_given_back() : Status::ok();
}

// The rest of appending a record, for the drainer: others look at the index meanwhile, and nobody waits for them here.
void StagedFile::append_own(std::span<const Part> parts, const index::OwnRecords::Record& record) {
    std::uint64_t bytes = 0;
    for (const Part& part : parts) bytes += part.bytes.size();
    // Nodes wait for each other's bytes: they go at once.
    const bool drain_now = own_records().note(parts, record, several_nodes_ ? 1 : stripe());
    group_->order().published();
    add(slot_->staged, bytes);
    // Counted as pending before the write returns. If the record is in the index already, nobody may come to set that
    // right.
    slot_->pending.fetch_add(bytes, std::memory_order_relaxed);
    if (own_records().bytes() == 0) {
        const LockGuard lock(mutex());
        update_ledger();
    }
    if (several_nodes_) group_->log().appended(parts);
    if (drain_now) outflow_.wake();
}

index::FileBounds StagedFile::bounds() noexcept {
    return {logical_size_, dirty_, committed_size_, outflow_.target().size(), several_nodes_};
}

// Takes in what others have appended. With `may_wait` scattered pieces may wait for their neighbours.
void StagedFile::follow(bool may_wait) {
    if (!group_ || state_ != State::kStaged) return;
    index::FileBounds found = bounds();
    while (!group_->order().find()) {
        index().clear();
        group_->order().restart();
        // What has been released is in the target, whose size tells of the rest.
        if (const auto size = target_->size()) {
            outflow_.target().reaches(size.value());
            found.reach(size.value());
        }
    }
    if (follower_) return follower_->take_in(found);
    group_->order().count_found(slot_->pending);
    if (!group_->order().damage().is_ok() && !outflow_.failures().halted()) outflow_.halt(group_->order().damage());
    const Options& options = context_.options();
    const bool gathers = may_wait && !outflow_.planner().urgent() && !several_nodes_ && !all_written_ &&
                         !group_->order().completeness_awaited();
    if (!bytes_.take_in(group_->order(), found, options.write_max,
                        gathers ? std::min(kWaitingMax, options.size / kWaitingShare) : 0))
        return;
    outflow_.target().reaches(found.target_size);
    update_ledger();   // of what was found, some was superseded
    all_written_ = false;
}

}   // namespace forebay::stage
