#include "stage/drained_file.h"

#include <new>

#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

namespace {

// When more of the log than this is dead, small pieces drain without their neighbours.
constexpr std::uint64_t kDeadMax = std::uint64_t{16} << 20;

}   // namespace

std::shared_ptr<void> DrainedFile::hold() { return owner_.shared_from_this(); }

void DrainedFile::catch_up(bool may_wait) {
    file_.mutex().assert_held();
    file_.follow(may_wait);
}

// A log is clogged if most of it is dead: a few small pieces that wait for neighbours keep every segment behind them.
drain::Backlog DrainedFile::backlog() const noexcept {
    file_.mutex().assert_held();
    const std::uint64_t needed_bytes = file_.bytes.pending_bytes() + file_.bytes.index().sent().bytes();
    const bool clogged = file_.log &&
                         file_.log->segments().size() * file_.context.options().segment > 2 * needed_bytes + kDeadMax;
    return {file_.bytes.ready_bytes(), !file_.bytes.index().ready().empty(), clogged, file_.sizes.logical,
            file_.sizes.committed};
}

void DrainedFile::note(const log::TargetState& state) noexcept {
    if (file_.log) file_.log->note(state);
}

bool DrainedFile::has_records() const noexcept { return file_.log && !file_.log->segments().empty(); }

// Without memory the index keeps the written bytes, and they are written again.
void DrainedFile::written(const plan::TargetWrite& write, bool succeeded, std::uint64_t took_ns) noexcept {
    file_.mutex().assert_held();
    std::uint64_t drained = 0;
    try {
        if (succeeded)
            drained = file_.outflow.state.facts.keeps_sent() ? file_.bytes.index().send_drained(write)
                                                             : file_.bytes.index().erase_drained(write);
    } catch (const std::bad_alloc&) {
        drained = 0;
    }
    add(file_.counters->target_writes, 1);
    if (succeeded && (write.pieces.size() > 1 || index::gathered_of(write.pieces.front().keeper) != nullptr))
        add(file_.counters->merged, write.range.size());
    add(file_.counters->drain_ns, took_ns);
    add(file_.counters->drained, drained);
}

void DrainedFile::lost() noexcept {
    log_.note_failure();
    file_.count_aside(ledger::AsideReason::kStagingArea);
}

void DrainedFile::error_kept(int sys_errno) noexcept {
    file_.counters->error.store(static_cast<std::uint64_t>(sys_errno), std::memory_order_relaxed);
}

void DrainedFile::made_good() noexcept {
    file_.counters->error.store(0, std::memory_order_relaxed);
    file_.context.count_made_good();
}

// The listener learns the end of the pause from `GroupMembership::poll`. A file without a group needs the target for no
// other process: its next write, or a call that waits for the target, wakes the drain.
void DrainedFile::paused() noexcept {
    file_.mutex().assert_held();
    if (file_.group) file_.group->call_listener();
}

void DrainedFile::halted(const Status& failure) noexcept {
    file_.mutex().assert_held();
    if (!file_.group) return;
    const bool through = file_.context.options().on_error == OnError::kThrough;
    if (through && file_.group->drains()) file_.outflow.state.target.note_external_writers();
    file_.group->target().fail(failure.sys_errno(), through && !file_.outflow.state.target.cut_due());
    allow_bypass();
}

// Other processes may write only once no older bytes are on their way to the target, and never while a cut is due: it
// would take their bytes. Then all go on staging. After a failure, no new cut becomes due before the close.
void DrainedFile::allow_bypass() noexcept {
    file_.mutex().assert_held();
    if (file_.group && file_.group->drains() && file_.outflow.state.failures.halted() &&
        file_.outflow.state.queue.idle() && !file_.outflow.state.target.cut_due() &&
        file_.context.options().on_error == OnError::kThrough)
        file_.group->target().allow_bypass();
}

// Processes that do not drain stage everything while the target is slow or failed, or may have to be cut or zeroed.
void DrainedFile::pace_changed() noexcept {
    file_.mutex().assert_held();
    if (!file_.group || !file_.group->drains()) return;
    const bool safe = !file_.outflow.state.target.was_cut() && !file_.outflow.state.facts.may_hang() &&
                      !file_.several_nodes && !file_.durable;
    const std::optional<std::uint64_t> pace = safe ? file_.outflow.state.facts.pace() : std::nullopt;
    if (pace || file_.outflow.state.target.others_extend()) file_.outflow.state.target.note_external_growth();
    file_.group->target().set_memory_pace(pace);
}

void DrainedFile::progressed() noexcept {
    file_.mutex().assert_held();
    try {
        if (file_.several_nodes) file_.follow();   // others may wait for the news that this was all
    } catch (const std::bad_alloc&) {
        // The next call finds the records.
    }
    log_.recycle();
    file_.update_ledger();
    allow_bypass();
    if (file_.outflow.state.queue.none_in_flight() && file_.group) file_.group->release().at_rest();
}

void DrainedFile::synced() noexcept { add(file_.counters->syncs, 1); }

void DrainedFile::reached(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range) {
    file_.context.wrote(begin_ns, end_ns, range);
}

void DrainedFile::came_to_rest() noexcept {
    if (file_.context.pool() != nullptr) file_.context.pool()->announce_change();
}

}   // namespace forebay::stage
