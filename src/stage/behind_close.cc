// A staged file whose close does not wait for the drain: its commit, and what other programs do to it since.
#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

std::optional<WaitedClose> StagedFile::commit_to_finish_later() {
    const LockGuard writer(writer_);
    const Call call(slot_->close_ns, context_.spare_time(), context_.trace());
    {
        const LockGuard lock(mutex());
        if (state_ == State::kBypass || state_ == State::kPassive) return WaitedClose::kNothingLeft;
        if (follows() || several_nodes_ || (group_ && durable_)) return WaitedClose::kShared;
        if (state_ != State::kStaged || log_failed_ || !withheld_.is_ok() || !outflow_.failures().first_error().is_ok())
            return WaitedClose::kFailing;
    }
    resume_drain();
    if (!make_commit(true)) return WaitedClose::kFailing;
    if (!commit_recorded_) return WaitedClose::kUnrecorded;
    const LockGuard lock(mutex());
    if (state_ != State::kStaged || !outflow_.show_size()) return WaitedClose::kFailing;
    const bool all_there = bytes_.index().empty() && outflow_.queue().idle() && !outflow_.target().cut_due() &&
                           outflow_.target().size() == logical_size_;
    if (all_there) return WaitedClose::kNothingLeft;
    outflow_.begin_turns();
    return std::nullopt;
}

bool StagedFile::has_name() const {
    std::shared_ptr<io::File> target;
    {
        const LockGuard lock(mutex());
        target = target_;
    }
    const auto state = target->state();
    return !state || state.value().links > 0;
}

// Another program's content is the file's now. The log stays for `forebay recover`; reads do not see it.
void StagedFile::leave_to_others() {
    left_log_ = left_to_others_ = true;
    left_bytes_ = bytes_.pending_bytes();
    bytes_.index().clear();
    update_ledger();
}

bool StagedFile::left_to_others() const {
    const LockGuard lock(mutex());
    return left_to_others_;
}

std::uint64_t StagedFile::nameless_bytes() const {
    const LockGuard lock(mutex());
    return outflow_.turns().nameless_bytes();
}

}   // namespace forebay::stage
