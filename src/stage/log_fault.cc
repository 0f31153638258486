// The staging device fails under the log's mapping (io/guarded_access.h). Effects of each fault: docs/consistency.md.
// Bytes that the log cannot store go to the target. Pages that cannot be read back are lost to this process: the rest
// drains, and the log stays, for a device that comes back. If the device has lost bytes that it had taken
// (FileLog::ever_lost), what has drained may be wrong: the file stays staged, so that each flush and the close fail.

#include "stage/commit_policy.h"

namespace forebay::stage {

Status StagingLog::give_up() {
    file_.writer.assert_held();
    if (file_.group) return failure().with_context("stage " + file_.name.path);
    {
        const LockGuard lock(file_.mutex());
        failed_ = true;
        file_.count_aside(ledger::AsideReason::kStagingArea);
        file_.make_held_ready();
    }
    const LockGuard lock(file_.mutex());
    // The outflow keeps the failure.
    if (!drain() || !file_.outflow.confirms.await(drain::Confirm::kSync)) return Status::ok();
    if (file_.mode != FileMode::kStaged || !file_.bytes.index().empty() || file_.outflow.state.target.cut_due())
        return Status::ok();
    FOREBAY_TRY(await_unpinned());
    if (!file_.log->ever_lost().is_ok()) return Status::ok();   // each commit, and the close, ask too
    if (!file_.commits->release_all()) return Status::ok();
    return stop_staging();
}

}   // namespace forebay::stage
