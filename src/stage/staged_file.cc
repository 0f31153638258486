// A staged file's states: open, truncate, commit, drain, step aside, finish. Writing, reading, draining, room and
// sharing are in the files beside this one.
#include "stage/staged_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/crash_safety.h"
#include "stage/counting.h"

namespace forebay::stage {

StagedFile::StagedFile(Surroundings& surroundings, Setup setup)
    : surroundings_(surroundings),
      identity_(setup.identity),
      path_(std::move(setup.path)),
      log_number_(setup.log_number),
      target_(std::move(setup.target)),
      concurrency_(surroundings.options().drain_threads),
      slot_(nullptr),
      own_slot_(std::make_unique<log::LedgerSlot>()) {
    slot_ = own_slot_.get();
}

StagedFile::~StagedFile() {
    if (leaves_log()) log_->abandon();
}

Status StagedFile::refuse_if_inherited(const char* what) const {
    if (!surroundings_.inherited()) return Status::ok();
    return {Code::kUnsupported,
            fmt::format("{} {}: the file was opened before this process was forked; open it again here", what, path_)};
}

// ---- truncate, commit ------------------------------------------------------------------------------

Status StagedFile::truncate(std::uint64_t size) {
    FOREBAY_TRY(refuse_if_inherited("set the size of"));
    const std::lock_guard writer(writer_);
    State state;
    {
        const std::lock_guard lock(mutex_);
        if (follows() && state_ == State::kStaged) {
            // The drainer records it; here it only becomes the file's size. What is read after that is found with the record.
            logical_size_ = size;
            dirty_ = true;
            return Status::ok();
        }
        follow_locked();
        if (size == logical_size_) return Status::ok();
        state = state_;
    }
    if (state == State::kPassive || state == State::kFailed)
        return Status::from_errno(EBADF, "set the size of " + path_ + ", which is not open for writing");
    const std::uint64_t sequence = state == State::kThrough ? 0 : next_sequence();
    DrawnNumber drawn(share_.get());
    if (share_) FOREBAY_TRY(share_->lost());
    if (state == State::kStaged) {
        FOREBAY_TRY(append_marker_writer(log::RecordKind::kTruncate, size, sequence));
        const std::lock_guard lock(mutex_);
        state = state_;   // the log may have failed
    }
    if (state == State::kThrough) {
        FOREBAY_TRY(target_->resize(size));
        target_unsynced_ = true;
    }

    const std::lock_guard lock(mutex_);
    if (state == State::kStaged && size < logical_size_) {
        // Whatever older bytes there are beyond the cut must stay hidden, also when the file grows again.
        index_.truncate(size, std::max({logical_size_, target_size_, committed_size_}), committed_size_);
        was_cut_ = true;
        tell_pace_locked();
        recycle_locked();
        update_ledger_locked();
    }
    logical_size_ = size;
    resize_sequence_ = sequence;
    dirty_ = true;
    drawn.publish();
    return Status::ok();
}

// A record that recovery needs. Nothing is logged as long as nothing is staged, the target has it all; but
// for a cut, which only this process knows of until it has reached the target.
Status StagedFile::append_marker_writer(log::RecordKind kind, std::uint64_t argument,
                                        std::uint64_t sequence) {
    const bool cut = kind == log::RecordKind::kTruncate && argument < logical_size_;
    if ((log_->empty() && !cut) || log_failed_) return Status::ok();
    if (share_) {
        FOREBAY_TRY(make_marker_room_writer());
    } else if (!log_->marker_fits()) {
        const auto room = make_room_writer(log::kRecordHeaderBytes, log::SegmentPool::Take::kAny);
        if (!room) return room.status();
        if (room.value() == 0) return log_failed_ ? Status::ok() : leave_log_writer();
    }
    if (log_->append_marker(kind, argument, sequence)) return Status::ok();
    return give_up_log_writer();
}

// Drains everything and gives the log back, so that the target alone tells the file's state.
Status StagedFile::leave_log_writer() {
    {
        const std::lock_guard lock(mutex_);
        follow_locked();
        add(slot_->guarantee_given_up, index_.promote_held());
    }
    FOREBAY_TRY(drain_writer());
    std::unique_lock lock(mutex_);
    FOREBAY_TRY(await_locked(lock, [this] { return !log_->pinned() && !recycling_; }));
    if (durable_) FOREBAY_TRY(share_ ? retire_group(lock) : release_all_durably(lock));
    log_->release_all();
    if (share_) share_->set_released(log_->oldest_order());
    lock.unlock();
    return durable_ && share_ ? sync_given_back() : Status::ok();
}

Status StagedFile::commit() {
    if (surroundings_.inherited()) return Status::ok();
    const std::lock_guard writer(writer_);
    {
        const std::lock_guard lock(mutex_);
        if (state_ != State::kStaged && !(state_ == State::kThrough && durable_)) return Status::ok();
        if (follows()) return Status::ok();
    }
    const Call call(slot_->close_ns, surroundings_.spare_time());
    if (state_ == State::kThrough) return target_unsynced_ ? sync_target(target_) : Status::ok();
    FOREBAY_TRY(commit_writer(false));
    if (surroundings_.options().flush == OnFlush::kDrain) return drain_writer();
    return Status::ok();
}

// After a failure a closing file is committed all the same: what can be drained is, and what stays in the
// log is a state that recovery can bring home.
Status StagedFile::commit_writer(bool closing) {
    bool drain_now = false;
    Status failure;
    {
        const std::lock_guard lock(mutex_);
        follow_locked();
        failure = background_error_locked();
        if (failure) failure = sync_error_;
        if (!failure && !closing) return failure;
        if (!dirty_) return failure;
    }
    if (durable_) {
        bool recorded = false;
        const Status durable = share_ ? append_group_commit_writer(closing) : append_durable_commit_writer(closing, recorded);
        // What the record tells of is the state to go back to, also if this call fails: nothing that comes later may drain into it.
        if (!durable && !closing && !recorded) return durable;
        if (failure) failure = durable;
    }
    const std::uint64_t sequence = durable_ ? durable_commit_ : next_sequence();
    DrawnNumber drawn(share_.get());
    if (share_ && !closing) FOREBAY_TRY(share_->lost());
    if (!durable_ && kCrashSafety) {
        if (failure) FOREBAY_TRY(append_marker_writer(log::RecordKind::kCommit, logical_size_, sequence));
        else if (!log_->marker_fits() || !log_->append_marker(log::RecordKind::kCommit, logical_size_, sequence))
            add(slot_->guarantee_given_up, index_.held_bytes());
    }
    drawn.publish();
    {
        const std::lock_guard lock(mutex_);
        index_.commit(logical_size_);
        unreadable_.clear();
        committed_size_ = logical_size_;
        if (share_) share_->set_committed_size(committed_size_);
        commit_sequence_ = sequence;
        commit_time_ns_ = realtime_ns();
        // A cut that is still to come must not be forgotten for a later, longer one.
        if (target_size_ > logical_size_) shrink_to_ = std::min(shrink_to_.value_or(kOffsetMax), logical_size_);
        tell_pace_locked();
        dirty_ = false;
        add(slot_->commits, 1);
        urgent_ = !index_.ready_empty() || shrink_to_.has_value();
        drain_now = urgent_ || target_size_ < committed_size_;
        recycle_locked();
        update_ledger_locked();
    }
    if (drain_now) wake();
    if (!failure || !log_->empty() || (!durable_ && (!drain_now || share_))) return failure;
    // No record tells of this commit, of its size or of a cut: the target has to be it.
    FOREBAY_TRY(drain_writer());
    return durable_ ? sync_target(target_) : Status::ok();
}

Status StagedFile::drain() {
    if (surroundings_.inherited()) return Status::ok();
    const std::lock_guard writer(writer_);
    {
        const std::lock_guard lock(mutex_);
        if (state_ != State::kStaged || follows()) return background_error_locked();
        follow_locked();
        add(slot_->guarantee_given_up, index_.promote_held());
    }
    const Call call(slot_->close_ns, surroundings_.spare_time());
    const Status drained = drain_writer();
    if (drained) surroundings_.spare_time().forgive();
    return drained;
}

Status StagedFile::step_aside(log::AsideReason reason) {
    FOREBAY_TRY(refuse_if_inherited("step aside for"));
    const std::lock_guard writer(writer_);
    slot_->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(reason), std::memory_order_relaxed);
    give_back_first_writer();
    {
        const std::lock_guard lock(mutex_);
        if (state_ != State::kStaged) return Status::ok();
    }
    FOREBAY_TRY(leave_log_writer());
    // From here on the size of the target is the size of the file; others may be making it longer already.
    if (target_size_ != logical_size_) FOREBAY_TRY(target_->resize(logical_size_));
    const std::lock_guard lock(mutex_);
    target_unsynced_ = true;
    target_size_ = committed_size_ = logical_size_;
    state_ = State::kThrough;
    return Status::ok();
}

// ---- opening and finishing -------------------------------------------------------------------------

Status StagedFile::open_for_writing(std::unique_ptr<io::File> target, log::LedgerSlot* slot,
                                    std::optional<log::AsideReason> aside, TargetTraits traits) {
    const std::lock_guard writer(writer_);
    const auto size = target->size();
    if (!size) return size.status();
    std::unique_lock lock(mutex_);
    if (state_ == State::kFailed) return background_error_locked();
    if (state_ != State::kPassive) return {Code::kInternal, "open " + path_ + ": it is being written already"};
    target_ = std::move(target);
    slot_ = slot;
    may_hang_ = traits.may_hang && surroundings_.options().patience != 0;
    const std::uint64_t asked_for = surroundings_.options().stripe, told = traits.stripe;
    stripe_ = asked_for != 0 ? asked_for : told != 0 ? told : kStripeUnlessTold;
    logical_size_ = committed_size_ = target_size_ = size.value();
    commit_sequence_ = commit_time_ns_ = 0;
    several_nodes_ = left_log_ = false;
    log_failed_ = false;
    unreadable_.clear();
    dirty_ = false;
    urgent_ = halted_ = false;
    attempts_ = 0;
    retry_at_ns_ = 0;
    shrink_to_.reset();
    cursor_ = planned_since_start_bytes_ = plan_from_bytes_ = resize_sequence_ = 0;
    wraps_ = false;
    background_error_ = sync_error_ = target_lost_ = Status::ok();
    durable_ = surroundings_.options().durability == Durability::kNode;
    target_unsynced_ = true;   // emptied or extended by whoever opened it, perhaps
    target_pace_ = {};
    memory_pace_ = 0;
    was_cut_ = told_pace_ = false;
    state_ = aside || surroundings_.pool() == nullptr ? State::kThrough : State::kStaged;
    if (aside)
        slot_->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(*aside), std::memory_order_relaxed);
    if (state_ == State::kStaged)
        log_ = std::make_unique<log::FileLog>(*surroundings_.pool(), log_number_,
                                              log::LogTarget{identity_.device, identity_.inode, path_, {}, durable_},
                                              surroundings_.options().checksum == Checksum::kInline || durable_);
    return Status::ok();
}

Status StagedFile::finish() {
    const std::lock_guard writer(writer_);
    give_back_first_writer();
    const Call call(slot_->close_ns, surroundings_.spare_time());
    std::uint64_t size;
    {
        std::unique_lock lock(mutex_);
        follow_locked();
        if (state_ != State::kStaged) {
            const bool to_sync = state_ == State::kThrough && durable_ && target_unsynced_;
            if (state_ == State::kThrough) state_ = State::kPassive;
            if (!background_error_.is_ok() || !to_sync) return background_error_locked();
            lock.unlock();
            return sync_target(target_);
        }
        if (!withheld_.is_ok()) {
            state_ = State::kFailed;
            keep_error_locked(withheld_);
            return withheld_.with_context(fmt::format(
                "close {}: what was written since the last flush that succeeded is incomplete, and stays in the staging log", path_));
        }
        halted_ = false;   // a closing attempt
        unreadable_.clear();
        retry_at_ns_ = 0;
        size = logical_size_;
    }
    // Fails if draining has failed before; whatever can still be drained is, all the same.
    Status outcome = commit_writer(true);
    if (const Status drained = drain_writer(); outcome) outcome = drained;
    std::unique_lock lock(mutex_);
    if (halted_ && background_error_.sys_errno() == ENOMEM) {
        // What stopped this attempt may be a write that began, and got no memory, before it. None is left now.
        halted_ = false;
        lock.unlock();
        (void)drain_writer();
        lock.lock();
    }
    bool settled = index_.empty() && !shrink_to_ && in_flight_.empty() && !resizing_ && (!share_ || share_->damage().is_ok());
    if (settled && target_size_ != size) {
        lock.unlock();
        const Status resized = target_->resize(size);
        target_unsynced_ = true;
        lock.lock();
        settled = resized.is_ok();
        if (outcome) outcome = resized;
    }
    if (settled) {
        const Status alone = await_locked(lock, [this] { return !log_->pinned() && !recycling_; });
        settled = alone.is_ok();
        if (outcome) outcome = alone;
    }
    if (settled) {
        if (durable_) {
            const Status durable = share_ ? retire_group(lock) : release_all_durably(lock);
            if (outcome) outcome = durable;
            // Bytes that may not be there are in the log still.
            settled = (share_ || log_->empty()) && target_lost_.is_ok() && durable.sys_errno() != ETIMEDOUT;
        }
    }
    if (settled) {
        const bool group = durable_ && share_;
        log_.reset();
        share_.reset();
        state_ = State::kPassive;
        target_size_ = committed_size_ = size;
        lock.unlock();
        surroundings_.spare_time().forgive();
        if (const Status given_back = group ? sync_given_back() : Status::ok(); outcome) outcome = given_back;
        if (outcome) return outcome;
        return outcome.with_context("all staged bytes were written by a later attempt, but before");
    }
    if (const Status alone = await_locked(lock, [this] { return !recycling_; }); outcome) outcome = alone;
    if (outcome && share_) outcome = share_->damage();
    state_ = State::kFailed;
    keep_error_locked(outcome);
    if (log_->marker_fits()) (void)log_->append_marker(log::RecordKind::kClose, logical_size_, next_sequence());
    return outcome.with_context(
        fmt::format("close {}: {} bytes stay in the staging log", path_, pending_bytes_locked()));
}

void StagedFile::withhold(Status why) noexcept {
    const std::lock_guard lock(mutex_);
    withheld_ = std::move(why);
}

std::uint64_t StagedFile::size() const {
    const std::lock_guard lock(mutex_);
    return std::max(logical_size_, own_.end());
}

// Whether a log with bytes that are nowhere else would be lost if it were given back.
bool StagedFile::leaves_log() const {
    const std::lock_guard lock(mutex_);
    return left_log_ || (log_ != nullptr && !log_->empty() && (state_ == State::kFailed || !index_.empty() || own_.bytes() > 0));
}

bool StagedFile::failed() const {
    const std::lock_guard lock(mutex_);
    return state_ == State::kFailed;
}

Status StagedFile::refresh() {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kPassive) return Status::ok();
    const auto size = target_->size();
    if (!size) return size.status();
    logical_size_ = target_size_ = size.value();
    return Status::ok();
}

log::FileCounters StagedFile::counters() const { return log::snapshot(*slot_); }

Status StagedFile::background_error_locked() const {
    return background_error_.is_ok() ? Status::ok() : background_error_.with_context("an earlier background write failed");
}

}   // namespace forebay::stage
