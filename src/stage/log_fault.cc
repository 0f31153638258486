// The staging device fails under the mapping of the log (io/guarded_access.h): docs/consistency.md, "Each fault and
// what comes of it".
//
// What cannot be stored any more goes to the target. What cannot be read back is lost to this process, page by page:
// the rest is drained, and the log stays, for a device that comes back.
#include <new>

#include "base/attempt.h"
#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

// A record could not be stored. What is staged is drained, and the target alone counts from now on; if that cannot be,
// the file stays staged, but takes nothing more. Ok as long as the program loses nothing by it; what it loses is told
// by flush and close.
Status StagedFile::give_up_log() {
    if (group_) return log_failure().with_context("stage " + path_);
    {
        const LockGuard lock(mutex());
        log_failed_ = true;
        slot_->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(ledger::AsideReason::kStagingArea),
                              std::memory_order_relaxed);
        add(slot_->guarantee_given_up, bytes_.index().promote_held());
    }
    const LockGuard lock(mutex());
    if (!drain_all()) return Status::ok();   // kept
    if (state_ != State::kStaged || !bytes_.index().empty() || outflow_.target().cut_due()) return Status::ok();
    FOREBAY_TRY(await_unpinned());
    if (durable_ && !release_all_durably()) return Status::ok();
    return stop_staging();
}

void StagedFile::lost() noexcept {
    log_failed_ = true;
    slot_->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(ledger::AsideReason::kStagingArea),
                          std::memory_order_relaxed);
}

}   // namespace forebay::stage
