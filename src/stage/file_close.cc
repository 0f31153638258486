// The end of a staged file: its last commit, its drain, and what stays in its log.
#include <fmt/format.h>

#include "base/attempt.h"
#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

Status StagedFile::finish(Finish how) {
    const LockGuard writer(writer_);
    const Status closed = close_staged(how);
    if (how == Finish::kProgramWaits) let_others_open();
    return closed;
}

void StagedFile::let_others_open() noexcept {
    const LockGuard lock(mutex());
    outflow_.turns().let_others_open();
}

Status StagedFile::finish_unclosed() {
    if (!writer_.try_lock()) return {Code::kUnavailable, "a thread of the program is in a call of the file"};
    const LockGuard writer(writer_, kLocked);
    {
        const LockGuard lock(mutex());
        if (state_ == State::kFailed) return withheld_.is_ok() ? outflow_.failures().error() : withheld_;
        if (state_ == State::kPassive) return Status::ok();
        if (group_) return withheld_.is_ok() ? Status(Code::kUnavailable, "other processes share the file") : withheld_;
    }
    return close_staged(Finish::kProgramWaits);
}

Status StagedFile::close_staged(Finish how) {
    give_back_first();
    const bool program_waits = how == Finish::kProgramWaits;
    std::optional<Call> call;
    if (program_waits) call.emplace(slot_->close_ns, context_.spare_time(), context_.trace());
    const Status forwarded = forward(&io::ForwardedTarget::close);
    {
        const LockGuard lock(mutex());
        follow();
        if (state_ != State::kStaged) {
            const bool to_sync = state_ == State::kBypass && durable_ && outflow_.facts().unsynced();
            // What the other process could not close it may still write, or have to be recovered from it.
            if (state_ == State::kBypass) state_ = forwarded ? State::kPassive : State::kFailed;
            offer_target();
            if (!forwarded) {
                outflow_.halt(forwarded);
                return forwarded;
            }
            return outflow_.failures().first_error().is_ok() && to_sync ? outflow_.sync() : outflow_.failures().error();
        }
        if (!withheld_.is_ok()) {
            state_ = State::kFailed;
            offer_target();
            outflow_.halt(withheld_);
            return withheld_.with_context(fmt::format("close {}: what was written since the last flush that "
                                                      "succeeded is incomplete, and stays in the staging log",
                                                      path_));
        }
        outflow_.failures().try_again();
    }
    // Fails if draining has failed before; whatever can still be drained is, all the same.
    Status outcome = make_commit(true);
    bool group = false;
    {
        const LockGuard lock(mutex());
        group = durable_ && group_;
        if (!settle_for_close(outcome)) return leave_in_log(std::move(outcome));
        log_.reset();
        group_.reset();
        follower_.reset();
        state_ = State::kPassive;
        committed_size_ = logical_size_;
        outflow_.target().set_size(logical_size_);
        update_ledger();
    }
    if (program_waits) context_.spare_time().forgive();
    if (const Status given_back = group ? sync_given_back() : Status::ok(); outcome) outcome = given_back;
    if (outcome) return outcome;
    return outcome.with_context("all staged bytes were written by a later attempt, but before");
}

// True: the target has everything, and nobody needs the log any more. `outcome` keeps the first failure.
bool StagedFile::settle_for_close(Status& outcome) {
    if (const Status drained = drain_all(); outcome) outcome = drained;
    if (outflow_.failures().halted() && outflow_.failures().first_error().sys_errno() == ENOMEM) {
        // What stopped this attempt may be a write that began, and got no memory, before it. None is left now.
        outflow_.failures().resume();
        (void)drain_all();
    }
    if (!bytes_.index().empty() || outflow_.target().cut_due() || !outflow_.queue().idle() ||
        (group_ && !group_->order().damage().is_ok()))
        return false;
    if (outflow_.target().size() != logical_size_) {
        const Status resized = outflow_.resize_target(logical_size_);
        if (outcome) outcome = resized;
        if (!resized) return false;
    }
    if (!outcome && !group_ && !durable_) {
        outflow_.make_good();
        if (outflow_.failures().first_error().is_ok()) outcome = Status::ok();
    }
    const Status alone = await_unpinned();
    if (outcome) outcome = alone;
    if (!alone) return false;
    if (!durable_) return true;
    const Status durable = group_ ? retire_group() : release_all_durably();
    if (outcome) outcome = durable;
    // Bytes that may not be there are in the log still. So is what the last statement counts, if none came after it.
    return (group_ ? durable.is_ok() : log_->empty()) && outflow_.failures().target_lost().is_ok() &&
           durable.sys_errno() != ETIMEDOUT;
}

Status StagedFile::leave_in_log(Status outcome) {
    const Status alone = outflow_.arrivals().await(mutex(), [this]() NO_THREAD_SAFETY_ANALYSIS { return !recycling_; });
    if (outcome) outcome = alone;
    if (outcome && group_) outcome = group_->order().damage();
    state_ = State::kFailed;
    offer_target();
    outflow_.halt(outcome);
    if (log_->marker_fits()) (void)log_->append_marker(log::RecordKind::kClose, logical_size_, next_sequence());
    Status told = outcome.with_context(fmt::format("close {}: {} bytes stay in the staging log", path_,
                                                   bytes_.pending_bytes()));
    if (outflow_.turns().changed()) leave_to_others();
    return told;
}

void StagedFile::withhold(Status why) noexcept {
    const LockGuard lock(mutex());
    if (state_ == State::kBypass && target_->forwarded() != nullptr) target_->forwarded()->withhold(why);
    withheld_ = std::move(why);
}

}   // namespace forebay::stage
