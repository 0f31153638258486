#include <algorithm>

#include "base/clock.h"
#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

// Writes bytes that must not wait for room in the log. Older records of them stop counting, here and for recovery.
Status StagedFile::bypass(std::uint64_t offset, io::Bytes bytes) {
    if (file_.group) {
        FOREBAY_TRY(log_.make_marker_room());   // for the record that tells the others
    } else if (!file_.log->segments().empty() && !file_.log->marker_fits() && !log_.failed()) {
        if (auto segment = file_.log->acquire(); !segment) FOREBAY_TRY(log_.drain_and_release());
        else if (!log_.adopt(segment.value())) FOREBAY_TRY(log_.give_up());
    }
    const ByteRange range{offset, offset + bytes.size()};
    group::BypassCount* bypasses_now = nullptr;
    drain::TargetCalls::Call call;
    {
        const LockGuard lock(file_.mutex());
        file_.follow();   // earlier writes of others are older than this one
        const auto begun = file_.outflow.bypass.begin(offset, bytes);
        if (!begun) return begun.status();
        call = begun.value();
        if (range.begin < file_.sizes.committed)
            add(file_.counters->guarantee_given_up, std::min(range.end, file_.sizes.committed) - range.begin);
        bypasses_now = &drained_.bypasses();
    }
    const std::uint64_t begin_ns = monotonic_ns();
    // No exception may pass before `end`: the range would stay in flight for ever.
    const Status outcome = drain::reported([&] {
        const group::BypassInFlight under_way(*bypasses_now);
        return file_.target->write_at(offset, bytes);
    });
    const std::uint64_t end_ns = monotonic_ns();
    bool more = false;
    {
        const LockGuard lock(file_.mutex());
        file_.outflow.bypass.end(range, call, outcome);
        drained_.allow_bypass();
        file_.context.pool()->announce_change();
        // After a failure, older staged bytes of the range stay staged.
        if (outcome) note_bypassed(range);
        more = file_.outflow.state.planner.look_again();
    }
    if (outcome) file_.context.wrote(begin_ns, end_ns, range);
    if (more) file_.outflow.wake();
    else if (!file_.outflow.state.facts.may_hang()) file_.outflow.inspector.note_rest();
    return outcome;
}

// The target has the range, and no older bytes of it may drain.
void StagedFile::note_bypassed(ByteRange range) {
    file_.bytes.index().drop(range);
    if (!file_.log->segments().empty() && (!file_.log->marker_fits() || !append_bypass_record(range))) {
        // After a crash, recovery would bring older bytes back.
        log_.note_failure();
        add(file_.counters->guarantee_given_up, range.size());
    }
    add(file_.counters->through, range.size());
    add(file_.counters->target_writes, 1);
    file_.sizes.logical = std::max(file_.sizes.logical, range.end);
    file_.progress.dirty = true;
    log_.recycle();
    file_.update_ledger();
}

Status StagedFile::write_unstaged(std::uint64_t offset, io::Bytes bytes) {
    FOREBAY_TRY(file_.target->write_at(offset, bytes));
    add(file_.counters->through, bytes.size());
    add(file_.counters->target_writes, 1);
    const LockGuard lock(file_.mutex());
    file_.outflow.state.facts.note_unsynced();
    file_.outflow.state.calls.note_final();
    file_.sizes.logical = std::max(file_.sizes.logical, offset + bytes.size());
    return Status::ok();
}

// Records that the target's bytes are newer than all earlier records. False: the log has failed, and lacks the record.
bool StagedFile::append_bypass_record(ByteRange range, Place place) {
    const std::uint64_t sequence = file_.next_sequence();
    group::DrawnNumber drawn(file_.order());
    if (file_.group && !file_.group->lost().is_ok()) return false;
    const bool supersedes = place == Place::kPerhapsStaged;
    const bool recorded = file_.log->append_through(range, sequence, supersedes);
    if (file_.group && recorded) file_.log->segments().newest()->order.note_bypass(sequence, supersedes);
    return recorded;
}

// Writes to the target at once. No older staged bytes of the place can follow: they drained, drain no more before the
// close, or never were there. The record makes followers of this log forget them, and tells the file's length.
Status StagedFile::bypass_beside_others(std::span<const Part> parts, Place place) {
    for (const Part& part : parts) {
        const ByteRange range{part.offset, part.offset + part.bytes.size()};
        if (range.empty()) continue;
        FOREBAY_TRY(log_.make_marker_room());
        const std::uint64_t begin_ns = monotonic_ns();
        {
            const group::BypassInFlight under_way(file_.group->target().bypasses());
            if (Status written = drain::reported([&] { return file_.target->write_at(part.offset, part.bytes); });
                !written) {
                file_.outflow.state.note_failed_beside(written);
                return written;
            }
        }
        file_.context.wrote(begin_ns, monotonic_ns(), range);
        file_.outflow.state.facts.note_unsynced();
        add(file_.counters->through, range.size());
        add(file_.counters->target_writes, 1);
        const LockGuard lock(file_.mutex());
        file_.outflow.state.calls.note_final();
        if (!append_bypass_record(range, place)) return log_.failure().with_context("write to " + file_.name.path);
        if (!file_.follows()) {
            index::FileBounds noted = file_.bounds();
            file_.bytes.take_in_own(noted);
            file_.bytes.index().drop(range);
            file_.outflow.state.target.reaches(range.end);
        }
        file_.sizes.logical = std::max(file_.sizes.logical, range.end);
    }
    return Status::ok();
}

}   // namespace forebay::stage
