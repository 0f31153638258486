// A staged file as its outflow sees it (drain/listener.h): what there is to drain, and what comes of it.
#include <utility>

#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

namespace {

// So much of the log may be dead before small pieces have to go.
constexpr std::uint64_t kDeadMax = std::uint64_t{16} << 20;

}   // namespace

// ---- what there is to drain ------------------------------------------------------------------------

bool StagedFile::drains() const noexcept { return state_ == State::kStaged && !follows(); }

bool StagedFile::given_up() const noexcept { return state_ == State::kFailed; }

void StagedFile::catch_up(bool may_wait) {
    mutex().assert_held();
    follow(may_wait);
}

// A few small pieces that wait for neighbours keep every segment behind them: most of the log is dead.
drain::Backlog StagedFile::backlog() const noexcept {
    mutex().assert_held();
    const bool clogged = log_ && log_->segments() * context_.options().segment > 2 * bytes_.pending_bytes() + kDeadMax;
    return {bytes_.ready_bytes(), !bytes_.index().ready_empty(), clogged, logical_size_, committed_size_};
}

// Until nothing with a lower number than `below` is staged.
Status StagedFile::drain_all(std::uint64_t below) {
    Status drained = outflow_.drain(below);
    recycle();
    update_ledger();
    return drained;
}

Status StagedFile::drain_everything() {
    const LockGuard lock(mutex());
    return drain_all();
}

// ---- what comes of it ------------------------------------------------------------------------------

void StagedFile::note(const log::TargetState& state) noexcept {
    if (log_) log_->note(state);
}

bool StagedFile::has_records() const noexcept { return log_ && !log_->empty(); }

// What is written and cannot be forgotten for want of memory is written again.
void StagedFile::written(const plan::TargetWrite& write, bool succeeded, std::uint64_t took_ns) noexcept {
    mutex().assert_held();
    std::uint64_t drained = 0;
    try {
        if (succeeded) drained = bytes_.index().erase_drained(write);
    } catch (const std::bad_alloc&) {
        drained = 0;
    }
    add(slot_->target_writes, 1);
    if (succeeded && (write.pieces.size() > 1 || index::ExtentIndex::is_gathered(write.pieces.front().keeper)))
        add(slot_->merged, write.range.size());
    add(slot_->drain_ns, took_ns);
    add(slot_->drained, drained);
}

void StagedFile::error_kept(int sys_errno) noexcept {
    slot_->error.store(static_cast<std::uint64_t>(sys_errno), std::memory_order_relaxed);
}

void StagedFile::made_good() noexcept {
    slot_->error.store(0, std::memory_order_relaxed);
    context_.count_made_good();
}

void StagedFile::halted(const Status& failure) noexcept {
    mutex().assert_held();
    if (!group_) return;
    const bool through = context_.options().on_error == OnError::kThrough;
    if (through) note_external_writers();
    group_->target().fail(failure.sys_errno(), through && !outflow_.target().cut_due());
    allow_bypass();
}

// By those who do not drain everything has to be staged where the target is waited for or has failed, or where it may
// have to be cut or zeroed.
void StagedFile::pace_changed() noexcept {
    mutex().assert_held();
    if (!group_ || !group_->drains()) return;
    const bool safe = !outflow_.target().was_cut() && !outflow_.facts().may_hang() && !several_nodes_ && !durable_;
    const std::optional<std::uint64_t> pace = safe ? outflow_.facts().pace() : std::nullopt;
    if (pace || outflow_.target().others_extend()) outflow_.target().note_external_growth();
    group_->target().set_memory_pace(pace);
}

void StagedFile::progressed() noexcept {
    mutex().assert_held();
    try {
        if (several_nodes_) follow();   // others may wait to hear that this was all
    } catch (const std::bad_alloc&) {
        // Whoever looks next finds it.
    }
    recycle();
    update_ledger();
    allow_bypass();
    if (outflow_.queue().none_in_flight() && group_) group_->release().at_rest();
}

void StagedFile::synced() noexcept { add(slot_->syncs, 1); }

void StagedFile::reached(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range) {
    context_.wrote(begin_ns, end_ns, range);
}

void StagedFile::came_to_rest() noexcept {
    if (context_.pool() != nullptr) context_.pool()->announce_change();
}

void StagedFile::update_ledger() {
    offer_target();
    if (follows()) return;   // the drainer keeps the accounts; what is in this index was found by reading
    const std::uint64_t pending = bytes_.pending_bytes() + left_bytes_;
    slot_->pending.store(pending + (group_ ? group_->order().found_bytes() : 0), std::memory_order_relaxed);
    slot_->held.store(bytes_.index().held_bytes(), std::memory_order_relaxed);
    slot_->superseded.store(bytes_.index().superseded_bytes(), std::memory_order_relaxed);
    const bool any = pending > 0 && log_ && !log_->empty();
    // A size that the target has not got yet counts as well.
    const bool sized = !drains() || (!outflow_.target().cut_due() && outflow_.target().size() >= committed_size_);
    slot_->oldest_ns.store(any     ? log_->oldest()->first_time_ns
                           : sized ? 0
                                   : commit_time_ns_,
                           std::memory_order_relaxed);
}

}   // namespace forebay::stage
