// A staged file's states: open, truncate, commit, drain, step aside, finish. Writing, reading, draining, room and
// sharing are in the files beside this one.
#include "stage/staged_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/attempt.h"
#include "stage/counting.h"

namespace forebay::stage {

namespace {

// What cannot be had of it is not known.
log::Birth birth_of(io::File& target, const io::FileTraits& traits) {
    const auto state = target.state(traits.local ? io::File::Ask::kWithGeneration : io::File::Ask::kTimes);
    return state ? log::Birth{state.value().born_ns, state.value().generation} : log::Birth{};
}

}   // namespace

StagedFile::StagedFile(FileContext& context, Setup setup)
    : drained_(*this, file_, log_),
      file_(context, {setup.identity, std::move(setup.path), setup.log_number}, std::move(setup.target), drained_),
      log_(*this, file_) {}

StagedFile::~StagedFile() {
    if (leaves_log()) file_.log->abandon();
}

// ---- truncate, commit ------------------------------------------------------------------------------

Status StagedFile::truncate(std::uint64_t size) {
    FOREBAY_TRY(file_.refuse_if_inherited("set the size of"));
    const LockGuard writer(file_.writer);
    FileMode state;
    {
        const LockGuard lock(file_.mutex());
        if (file_.follows() && file_.mode == FileMode::kStaged) {
            // The drainer records it; here it only becomes the file's size. What is read after that is found with the
            // record.
            file_.sizes.logical = size;
            file_.progress.dirty = true;
            return Status::ok();
        }
        file_.follow();
        state = file_.mode;
        // What others forward to the same server may have made the file longer.
        const bool known = file_.mode != FileMode::kBypass || file_.target->forwarded() == nullptr;
        if (known && size == file_.sizes.logical) return Status::ok();
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
        file_.outflow.facts().note_unsynced();
    }

    const LockGuard lock(file_.mutex());
    if (state == FileMode::kStaged && size < file_.sizes.logical) {
        // Whatever older bytes there are beyond the cut must stay hidden, also when the file grows again.
        file_.bytes.index().truncate(
            size, std::max({file_.sizes.logical, file_.outflow.target().size(), file_.sizes.committed}),
            file_.sizes.committed);
        file_.outflow.note_cut();
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
        const bool does = file_.mode == FileMode::kBypass && (file_.durable || file_.target->forwarded() != nullptr);
        if (file_.mode != FileMode::kStaged && !does) return Status::ok();
        if (file_.follows()) return Status::ok();
    }
    const Call call(file_.slot->close_ns, file_.context.spare_time(), file_.context.trace());
    if (file_.mode == FileMode::kBypass) {
        FOREBAY_TRY(file_.forward(&io::ForwardedTarget::commit));
        if (file_.context.options().flush == OnFlush::kDrain) FOREBAY_TRY(file_.forward(&io::ForwardedTarget::drain));
        return file_.durable && file_.outflow.facts().unsynced() ? file_.sync_target() : Status::ok();
    }
    FOREBAY_TRY(file_.commits->commit(false));
    const bool drains = file_.context.options().flush == OnFlush::kDrain || file_.context.deadline_presses();
    const LockGuard lock(file_.mutex());
    return drains ? log_.drain() : file_.outflow.show_size();
}

Status StagedFile::drain() {
    if (file_.context.inherited()) return Status::ok();
    const LockGuard writer(file_.writer);
    FOREBAY_TRY(file_.forward(&io::ForwardedTarget::drain));
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode != FileMode::kStaged || file_.follows()) return file_.outflow.failures().error();
        file_.follow();
        add(file_.slot->guarantee_given_up, file_.bytes.index().promote_held());
    }
    const Call call(file_.slot->close_ns, file_.context.spare_time(), file_.context.trace());
    const LockGuard lock(file_.mutex());
    const Status drained = log_.drain();
    if (drained) file_.context.spare_time().forgive();
    return drained;
}

Status StagedFile::drain_ready() {
    if (file_.context.inherited()) return Status::ok();
    const LockGuard writer(file_.writer);
    const LockGuard lock(file_.mutex());
    if (file_.mode != FileMode::kStaged || file_.follows()) return file_.outflow.failures().error();
    file_.follow();
    const Call call(file_.slot->close_ns, file_.context.spare_time(), file_.context.trace());
    return log_.drain();
}

Status StagedFile::sync_drained() {
    if (file_.context.inherited()) return Status::ok();
    const LockGuard writer(file_.writer);
    return file_.sync_target();
}

void StagedFile::pause_drain() {
    if (file_.context.deadline_presses()) return;
    const LockGuard lock(file_.mutex());
    if (file_.mode == FileMode::kStaged && !file_.context.inherited()) file_.outflow.planner().pause();
}

void StagedFile::resume_drain() {
    if (file_.context.inherited()) return;
    bool drain_now = false;
    {
        const LockGuard lock(file_.mutex());
        drain_now = file_.outflow.planner().resume() && file_.mode == FileMode::kStaged;
    }
    if (drain_now) file_.outflow.wake();
}

bool StagedFile::drain_paused() const {
    const LockGuard lock(file_.mutex());
    return file_.outflow.planner().paused();
}

Status StagedFile::step_aside(ledger::AsideReason reason) {
    FOREBAY_TRY(file_.refuse_if_inherited("step aside for"));
    const LockGuard writer(file_.writer);
    file_.count_aside(reason);
    FOREBAY_TRY(file_.forward(&io::ForwardedTarget::step_aside));
    log_.give_back_first_segment();
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode != FileMode::kStaged) return Status::ok();
    }
    FOREBAY_TRY(log_.leave());
    const LockGuard lock(file_.mutex());
    return log_.stop_staging();
}

void StagedFile::note_addresses_given() {
    file_.context.addresses_given(file_.name.identity);
    file_.count_aside(ledger::AsideReason::kAddressGiven);
}

Status StagedFile::expose_offsets() {
    file_.context.addresses_given(file_.name.identity);
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode == FileMode::kPassive) return Status::ok();
        if (file_.mode == FileMode::kFailed) return file_.outflow.failures().error();
        // A child writes nothing, and cannot drain for its parent.
        if (file_.context.inherited() && file_.mode == FileMode::kStaged && file_.bytes.pending_bytes() == 0)
            return Status::ok();
    }
    return step_aside(ledger::AsideReason::kAddressGiven);
}

// ---- opening and finishing -------------------------------------------------------------------------

Status StagedFile::open_for_writing(std::unique_ptr<io::File> target, ledger::LedgerSlot* slot,
                                    std::optional<ledger::AsideReason> aside, io::FileTraits traits,
                                    const std::function<Status()>& prepare) {
    const LockGuard writer(file_.writer);
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode == FileMode::kFailed) return file_.outflow.failures().error();
        if (file_.mode != FileMode::kPassive)
            return {Code::kInternal, "open " + file_.name.path + ": it is being written already"};
    }   // nobody else leaves this state while the writer's lock is held
    if (prepare) FOREBAY_TRY(prepare());
    const auto size = target->size();
    if (!size) return size.status();
    const log::Birth born = birth_of(*target, traits);
    const bool durable = file_.context.options().durability == Durability::kNode;
    std::unique_ptr<CommitPolicy> commits;
    if (durable) commits = std::make_unique<PowerLossCommits>(file_, log_);
    else commits = std::make_unique<ProcessCommits>(file_, log_);
    const LockGuard lock(file_.mutex());
    file_.unstaged.replace(file_.target, std::move(target));
    file_.slot.use(slot);
    file_.commits = std::move(commits);
    file_.sizes.logical = file_.sizes.committed = size.value();
    file_.sizes.commit_sequence = file_.sizes.commit_time_ns = 0;
    file_.several_nodes = file_.left.log = file_.left.to_others = false;
    file_.left.bytes = 0;
    log_.forget_failure();
    file_.progress.dirty = false;
    within_limit_ = 0;
    file_.progress.resize_sequence = 0;
    file_.durable = durable;
    file_.mode = aside || file_.context.pool() == nullptr ? FileMode::kBypass : FileMode::kStaged;
    if (aside) file_.count_aside(*aside);
    if (file_.mode == FileMode::kStaged) log_.open(born);
    file_.outflow.open(file_.target, traits, size.value(), log_mount());
    file_.offer_target();
    return Status::ok();
}

// As opening it anew does: the target alone tells how the file is.
Result<bool> StagedFile::begin_staging() {
    FOREBAY_TRY(file_.refuse_if_inherited("stage"));
    const LockGuard writer(file_.writer);
    {
        const LockGuard lock(file_.mutex());
        const auto disabled = std::uint64_t{1} << static_cast<unsigned>(ledger::AsideReason::kDisabled);
        if (file_.mode != FileMode::kBypass || file_.group != nullptr || file_.several_nodes || log_.failed() ||
            file_.context.pool() == nullptr || file_.slot->aside.load(std::memory_order_relaxed) != disabled ||
            !file_.outflow.failures().error().is_ok())
            return false;
    }   // nobody else leaves this state while the writer's lock is held
    const auto size = file_.target->size();
    if (!size) return size.status();
    const io::FileTraits traits = file_.target->traits();
    const log::Birth born = birth_of(*file_.target, traits);
    const LockGuard lock(file_.mutex());
    FOREBAY_TRY(file_.outflow.arrivals().await(file_.mutex(), [this]() NO_THREAD_SAFETY_ANALYSIS {
        return file_.outflow.queue().idle();
    }));
    file_.sizes.logical = file_.sizes.committed = size.value();
    file_.sizes.commit_sequence = file_.sizes.commit_time_ns = 0;
    file_.progress.resize_sequence = 0;
    file_.progress.dirty = false;
    log_.open(born);
    file_.mode = FileMode::kStaged;
    file_.outflow.open(file_.target, traits, size.value(), log_mount());
    file_.offer_target();
    return true;
}

// Of a durable log: where it is mounted. Only then somebody asks whether a device was gone meanwhile. 0: unknown.
std::uint64_t StagedFile::log_mount() {
    if (!file_.durable || file_.context.pool() == nullptr) return 0;
    Result<io::FileState> state = out_of_memory();
    (void)attempt([&] { state = file_.context.pool()->state(); });
    return state ? state.value().mount : 0;
}

std::uint64_t StagedFile::size() const {
    const LockGuard lock(file_.mutex());
    return std::max(file_.sizes.logical, file_.bytes.own().end());
}

// Whether a log with bytes that are nowhere else would be lost if it were given back. Or one that the last statement of
// a group counts: the close broke off before it could state that none does.
bool StagedFile::leaves_log() const {
    const LockGuard lock(file_.mutex());
    return file_.left.log || (file_.log != nullptr && !file_.log->empty() &&
                              (file_.mode == FileMode::kFailed || !file_.index().empty() ||
                               file_.bytes.own().bytes() > 0 || (file_.durable && file_.group != nullptr)));
}

bool StagedFile::failed() const {
    const LockGuard lock(file_.mutex());
    return file_.mode == FileMode::kFailed;
}

Status StagedFile::refresh() {
    const LockGuard lock(file_.mutex());
    if (file_.mode != FileMode::kPassive && !file_.left.to_others) return Status::ok();
    const auto size = file_.target->size();
    if (!size) return size.status();
    file_.sizes.logical = size.value();
    file_.outflow.target().set_size(file_.sizes.logical);
    file_.offer_target();
    return Status::ok();
}

ledger::FileCounters StagedFile::counters() const { return ledger::snapshot(*file_.slot); }

}   // namespace forebay::stage
