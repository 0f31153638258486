// The staging device fails under the mapping of the log (io/guarded_access.h): docs/consistency.md, "Each fault and what
// comes of it".
//
// What cannot be stored any more goes to the target. What cannot be read back is lost to this process, page by page: the rest
// is drained, and the log stays, for a device that comes back.
#include <new>

#include "base/attempt.h"
#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

// A record could not be stored. What is staged is drained, and the target alone counts from now on; if that cannot be, the file stays
// staged, but takes nothing more. Ok as long as the program loses nothing by it; what it loses is told by flush and close.
Status StagedFile::give_up_log_writer() {
    if (share_) return log_failure().with_context("stage " + path_);
    {
        const std::lock_guard lock(mutex_);
        log_failed_ = true;
        slot_->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(log::AsideReason::kStagingArea), std::memory_order_relaxed);
        add(slot_->guarantee_given_up, index_.promote_held());
    }
    if (!drain_writer()) return Status::ok();   // kept
    std::unique_lock lock(mutex_);
    if (state_ != State::kStaged || !index_.empty() || shrink_to_) return Status::ok();
    FOREBAY_TRY(await_locked(lock, [this] { return !log_->pinned() && !recycling_; }));
    if (durable_ && !release_all_durably(lock)) return Status::ok();
    const std::uint64_t size = logical_size_;
    const bool sized = target_size_ == size;
    lock.unlock();
    if (!sized) FOREBAY_TRY(target_->resize(size));
    lock.lock();
    log_->release_all();
    target_unsynced_ = true;
    target_size_ = committed_size_ = size;
    state_ = State::kThrough;
    return Status::ok();
}

// Bytes that a target write needed cannot be read. All others go on.
void StagedFile::lost_locked(const std::vector<ByteRange>& unreadable, const Status& fault) {
    try {
        for (const ByteRange& range : unreadable) unreadable_.add(range);
    } catch (const std::bad_alloc&) {
        return keep_error_locked(fault);
    }
    log_failed_ = true;
    slot_->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(log::AsideReason::kStagingArea), std::memory_order_relaxed);
    if (!background_error_.is_ok()) return;
    background_error_ = copy_of(fault, kFailed);
    slot_->error.store(static_cast<std::uint64_t>(fault.sys_errno()), std::memory_order_relaxed);
}

}   // namespace forebay::stage
