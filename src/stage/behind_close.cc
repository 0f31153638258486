// A close that does not wait for the drain: its commit, and the file that other programs may change afterwards.
#include "stage/commit_policy.h"
#include "stage/counting.h"
#include "stage/lifecycle.h"

namespace forebay::stage {

std::optional<WaitedClose> Lifecycle::commit_to_finish_later() {
    const LockGuard writer(file_.writer);
    const Call call(file_.counters->close_ns, file_.context.spare_time(), file_.context.trace());
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode == FileMode::kBypass || file_.mode == FileMode::kPassive) return WaitedClose::kNothingLeft;
        if (file_.follows() || file_.several_nodes || (file_.group && file_.durable)) return WaitedClose::kShared;
        if (file_.mode != FileMode::kStaged || log_.failed() || !withheld_.is_ok() ||
            !file_.outflow.state.failures.first_error().is_ok())
            return WaitedClose::kFailing;
    }
    log_.resume_drain();
    if (!file_.commits->commit(true)) return WaitedClose::kFailing;
    if (!file_.commits->recorded()) return WaitedClose::kUnrecorded;
    const LockGuard lock(file_.mutex());
    if (file_.mode != FileMode::kStaged || !file_.outflow.show_size()) return WaitedClose::kFailing;
    const bool all_there = file_.bytes.index().empty() && file_.outflow.state.queue.idle() &&
                           !file_.outflow.state.target.cut_due() &&
                           file_.outflow.state.target.size() == file_.sizes.logical;
    if (all_there) return WaitedClose::kNothingLeft;
    file_.outflow.begin_turns();
    return std::nullopt;
}

bool Lifecycle::has_name() const {
    std::shared_ptr<io::File> target;
    {
        const LockGuard lock(file_.mutex());
        target = file_.target;
    }
    const auto state = target->state();
    return !state || state.value().links > 0;
}

// The content of another program is the file's now. The log stays for `forebay recover`; reads do not see it.
void Lifecycle::leave_to_others() {
    file_.retained_log.log = file_.retained_log.to_others = true;
    file_.retained_log.bytes = file_.bytes.pending_bytes();
    file_.bytes.index().clear();
    file_.update_ledger();
}

// The last statement of a group still counts the log if the close broke off before it could state that none counts.
bool Lifecycle::leaves_log() const {
    const LockGuard lock(file_.mutex());
    return file_.retained_log.log ||
           (file_.log != nullptr && !file_.log->segments().empty() &&
            (file_.mode == FileMode::kFailed || !file_.index().empty() || file_.index().sent().any() ||
             file_.bytes.own().bytes() > 0 || (file_.durable && file_.group != nullptr)));
}

bool Lifecycle::failed() const {
    const LockGuard lock(file_.mutex());
    return file_.mode == FileMode::kFailed;
}

bool Lifecycle::left_to_others() const {
    const LockGuard lock(file_.mutex());
    return file_.retained_log.to_others;
}

std::uint64_t Lifecycle::nameless_bytes() const {
    const LockGuard lock(file_.mutex());
    return file_.outflow.state.turns.nameless_bytes();
}

}   // namespace forebay::stage
