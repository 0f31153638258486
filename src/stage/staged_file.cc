// Truncations, commits, and drains that the program asks for. Writes are in file_write.cc and file_bypass.cc.
#include "stage/staged_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "stage/counting.h"

namespace forebay::stage {

StagedFile::StagedFile(FileContext& context, FileState::Name name, std::shared_ptr<io::File> target)
    : drained_(*this, file_, log_),
      file_(context, std::move(name), std::move(target), drained_),
      log_(*this, file_),
      reader_(file_, log_),
      lifecycle_(file_, log_),
      membership_(file_, log_) {}

StagedFile::~StagedFile() {
    if (lifecycle_.leaves_log()) file_.log->segments().abandon();
}

Status StagedFile::read(std::uint64_t offset, io::MutableBytes into) {
    const ReadPart part{offset, into};
    return reader_.read({&part, 1});
}

Status StagedFile::truncate(std::uint64_t size) {
    FOREBAY_TRY(file_.refuse_if_inherited("set the size of"));
    const LockGuard writer(file_.writer);
    FileMode state;
    {
        const LockGuard lock(file_.mutex());
        if (file_.follows() && file_.mode == FileMode::kStaged) {
            // The drainer records the truncation, and a later read of this process finds the record.
            file_.sizes.logical = size;
            file_.progress.dirty = true;
            return Status::ok();
        }
        file_.follow();
        state = file_.mode;
        if (size == file_.sizes.logical) return Status::ok();
    }
    if (state == FileMode::kPassive || state == FileMode::kFailed)
        return Status::from_errno(EBADF, "set the size of " + file_.name.path + ", which is not open for writing");
    if (state == FileMode::kStaged) FOREBAY_TRY(meet_size_limit(size));
    const std::uint64_t sequence = state == FileMode::kBypass ? 0 : file_.next_sequence();
    group::DrawnNumber drawn(file_.order());
    if (file_.group) FOREBAY_TRY(file_.group->lost());
    if (state == FileMode::kStaged) {
        FOREBAY_TRY(log_.append_marker(log::RecordKind::kTruncate, size, sequence));
        const LockGuard lock(file_.mutex());
        state = file_.mode;   // the log may have failed
    }
    if (state == FileMode::kBypass) {
        FOREBAY_TRY(file_.target->resize(size));
        file_.outflow.state.facts.note_unsynced();
    }

    const LockGuard lock(file_.mutex());
    if (state == FileMode::kStaged && size < file_.sizes.logical) {
        // Older bytes beyond the cut must stay hidden, also when the file grows again.
        file_.bytes.index().truncate(
            size, std::max({file_.sizes.logical, file_.outflow.state.target.size(), file_.sizes.committed}),
            file_.sizes.committed);
        file_.outflow.state.note_cut();
        log_.recycle();
        file_.update_ledger();
    }
    file_.sizes.logical = size;
    file_.progress.resize_sequence = sequence;
    file_.progress.dirty = true;
    drawn.publish();
    return Status::ok();
}

Status StagedFile::commit() {
    if (file_.context.inherited()) return Status::ok();
    const LockGuard writer(file_.writer);
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode != FileMode::kStaged && !(file_.mode == FileMode::kBypass && file_.durable)) return Status::ok();
        if (file_.follows()) return Status::ok();
    }
    const Call call(file_.counters->close_ns, file_.context.spare_time(), file_.context.trace());
    if (file_.mode == FileMode::kBypass)
        return file_.outflow.state.facts.unsynced() ? file_.sync_target() : Status::ok();
    FOREBAY_TRY(lifecycle_.withheld("flush"));
    FOREBAY_TRY(file_.commits->commit(false));
    const bool drains = file_.context.options().flush == OnFlush::kDrain || file_.context.deadline_presses();
    const LockGuard lock(file_.mutex());
    return drains ? drain_staged() : file_.outflow.show_size();
}

// Asks after the drain has read the log: a byte that was lost before has drained as another one.
Status StagedFile::drain_staged() {
    FOREBAY_TRY(log_.drain());
    return file_.mode == FileMode::kStaged && file_.log ? file_.log->lost() : Status::ok();
}

Status StagedFile::drain(DrainScope scope) {
    if (file_.context.inherited()) return Status::ok();
    const LockGuard writer(file_.writer);
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode != FileMode::kStaged || file_.follows()) return file_.outflow.state.failures.error();
        file_.follow();
        if (scope == DrainScope::kAll) file_.make_held_ready();
    }
    const Call call(file_.counters->close_ns, file_.context.spare_time(), file_.context.trace());
    const LockGuard lock(file_.mutex());
    const Status drained = drain_staged();
    if (drained && scope == DrainScope::kAll) file_.context.spare_time().forgive();
    return drained;
}

Status StagedFile::sync_drained() {
    if (file_.context.inherited()) return Status::ok();
    const LockGuard writer(file_.writer);
    return file_.sync_target();
}

std::uint64_t StagedFile::size() const {
    const LockGuard lock(file_.mutex());
    return std::max(file_.sizes.logical, file_.bytes.own().end());
}

bool StagedFile::staged() const {
    const LockGuard lock(file_.mutex());
    return file_.mode == FileMode::kStaged;
}

}   // namespace forebay::stage
