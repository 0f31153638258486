// The staging device fails under the log's mapping (io/guarded_access.h). Effects of each fault: docs/consistency.md.
// Bytes that the log cannot store go to the target. Pages that cannot be read back are lost to this process: the rest
// drains, and the log stays, for a device that comes back.

#include "stage/commit_policy.h"
#include "stage/counting.h"

namespace forebay::stage {

Status StagingLog::give_up() {
    file_.writer.assert_held();
    if (file_.group) return failure().with_context("stage " + file_.name.path);
    {
        const LockGuard lock(file_.mutex());
        failed_ = true;
        file_.count_aside(ledger::AsideReason::kStagingArea);
        add(file_.counters->guarantee_given_up, file_.bytes.index().make_held_ready());
    }
    const LockGuard lock(file_.mutex());
    // The outflow keeps the failure.
    if (!drain() || !file_.outflow.confirms.await(drain::Confirm::kSync)) return Status::ok();
    if (file_.mode != FileMode::kStaged || !file_.bytes.index().empty() || file_.outflow.state.target.cut_due())
        return Status::ok();
    FOREBAY_TRY(await_unpinned());
    if (!file_.commits->release_all()) return Status::ok();
    return stop_staging();
}

}   // namespace forebay::stage
