#include "stage/lifecycle.h"

#include <fmt/format.h>

#include <utility>

#include "base/attempt.h"
#include "stage/commit_policy.h"
#include "stage/counting.h"

namespace forebay::stage {

namespace {

// A birth that the file system does not tell stays unknown.
log::Birth birth_of(io::File& target, const io::FileTraits& traits) {
    const auto state = target.state(traits.local ? io::File::Ask::kWithGeneration : io::File::Ask::kTimes);
    return state ? log::Birth{state.value().born_ns, state.value().generation} : log::Birth{};
}

}   // namespace

Status Lifecycle::may_be_opened() {
    const LockGuard lock(file_.mutex());
    if (file_.mode == FileMode::kFailed) return file_.outflow.state.failures.error();
    if (file_.mode != FileMode::kPassive)
        return {Code::kInternal, "open " + file_.name.path + ": it is being written already"};
    return Status::ok();   // the mode stays, as this thread has the writer's lock
}

// Forgets the file's earlier use. A drainer that has stepped aside keeps its group, and an empty log in it, until now.
void Lifecycle::begin(std::shared_ptr<io::File> target, ledger::LedgerSlot* slot, std::uint64_t size) {
    file_.unstaged.replace(file_.target, std::move(target));
    file_.counters.use(slot);
    file_.sizes = {size, size};
    file_.outflow.state.calls.open();
    file_.log.reset();
    file_.group.reset();
    file_.several_nodes = false;
    file_.retained_log = {};
    log_.forget_failure();
    file_.progress.dirty = false;
    file_.progress.resize_sequence = 0;
    withheld_ = Status::ok();
}

Status Lifecycle::read_through(std::shared_ptr<io::File> target, ledger::LedgerSlot* slot, io::FileTraits traits,
                               const std::function<Status()>& prepare) {
    const LockGuard writer(file_.writer);
    FOREBAY_TRY(may_be_opened());
    if (prepare) FOREBAY_TRY(prepare());
    const auto size = target->size();
    if (!size) return size.status();
    const LockGuard lock(file_.mutex());
    begin(std::move(target), slot, size.value());
    file_.outflow.state.open(file_.target, traits, size.value(), 0);
    file_.offer_target();
    return Status::ok();
}

Status Lifecycle::open_for_writing(std::unique_ptr<io::File> target, ledger::LedgerSlot* slot,
                                   std::optional<ledger::AsideReason> aside, io::FileTraits traits,
                                   const std::function<Status()>& prepare) {
    const LockGuard writer(file_.writer);
    FOREBAY_TRY(may_be_opened());
    if (prepare) FOREBAY_TRY(prepare());
    const auto size = target->size();
    if (!size) return size.status();
    const log::Birth born = birth_of(*target, traits);
    const bool durable = file_.context.options().durability == Durability::kNode;
    std::unique_ptr<CommitPolicy> commits;
    if (durable) commits = std::make_unique<PowerLossCommits>(file_, log_);
    else commits = std::make_unique<ProcessCommits>(file_, log_);
    const LockGuard lock(file_.mutex());
    begin(std::move(target), slot, size.value());
    file_.commits = std::move(commits);
    file_.durable = durable;
    file_.mode = aside || file_.context.pool() == nullptr ? FileMode::kBypass : FileMode::kStaged;
    if (aside) file_.count_aside(*aside);
    if (file_.mode == FileMode::kStaged) log_.open(born);
    file_.outflow.state.open(file_.target, traits, size.value(), log_mount());
    file_.offer_target();
    return Status::ok();
}

Status Lifecycle::refresh() {
    const LockGuard lock(file_.mutex());
    if (file_.mode != FileMode::kPassive && !file_.retained_log.to_others) return Status::ok();
    const auto size = file_.target->size();
    if (!size) return size.status();
    file_.sizes.logical = size.value();
    file_.outflow.state.target.set_size(file_.sizes.logical);
    file_.offer_target();
    return Status::ok();
}

// Begins as an open does: the target alone tells the file's state.
Result<bool> Lifecycle::begin_staging() {
    FOREBAY_TRY(file_.refuse_if_inherited("stage"));
    const LockGuard writer(file_.writer);
    {
        const LockGuard lock(file_.mutex());
        const auto disabled = std::uint64_t{1} << static_cast<unsigned>(ledger::AsideReason::kDisabled);
        if (file_.mode != FileMode::kBypass || file_.group != nullptr || file_.several_nodes || log_.failed() ||
            file_.context.pool() == nullptr || file_.counters->aside.load(std::memory_order_relaxed) != disabled ||
            !file_.outflow.state.failures.error().is_ok())
            return false;
    }
    const auto size = file_.target->size();
    if (!size) return size.status();
    const io::FileTraits traits = file_.target->traits();
    const log::Birth born = birth_of(*file_.target, traits);
    const LockGuard lock(file_.mutex());
    FOREBAY_TRY(file_.outflow.state.arrivals.await(file_.mutex(), [this]() NO_THREAD_SAFETY_ANALYSIS {
        return file_.outflow.state.queue.idle();
    }));
    FOREBAY_TRY(file_.outflow.state.failures.error());   // of an earlier sync, which has ended meanwhile
    file_.sizes = {size.value(), size.value()};
    file_.progress.resize_sequence = 0;
    file_.progress.dirty = false;
    log_.open(born);
    file_.mode = FileMode::kStaged;
    file_.outflow.state.open(file_.target, traits, size.value(), log_mount());
    file_.offer_target();
    return true;
}

// The mount of a durable log, by which the outflow notices that a device was gone meanwhile. 0: unknown.
std::uint64_t Lifecycle::log_mount() {
    if (!file_.durable || file_.context.pool() == nullptr) return 0;
    Result<io::FileState> state = out_of_memory();
    (void)attempt([&] { state = file_.context.pool()->file().state(); });
    return state ? state.value().mount : 0;
}

Status Lifecycle::step_aside(ledger::AsideReason reason) {
    FOREBAY_TRY(file_.refuse_if_inherited("step aside for"));
    const LockGuard writer(file_.writer);
    bool staged = false;
    {
        const LockGuard lock(file_.mutex());
        staged = file_.mode == FileMode::kStaged;
        if (staged && file_.group)
            return {Code::kUnsupported,
                    "stop staging " + file_.name.path + ": other processes write it too, and would not know"};
    }
    file_.count_aside(reason);
    log_.give_back_first_segment();
    if (!staged) return Status::ok();
    FOREBAY_TRY(withheld("drain"));
    FOREBAY_TRY(log_.drain_and_release());
    const LockGuard lock(file_.mutex());
    FOREBAY_TRY(file_.log->ever_lost());   // the drained bytes may be wrong
    return log_.stop_staging();
}

void Lifecycle::note_addresses_given() {
    file_.context.addresses_given(file_.name.identity);
    file_.count_aside(ledger::AsideReason::kAddressGiven);
}

Status Lifecycle::expose_offsets() {
    file_.context.addresses_given(file_.name.identity);
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode == FileMode::kPassive) return Status::ok();
        if (file_.mode == FileMode::kFailed) return file_.outflow.state.failures.error();
        // A child writes nothing, and cannot drain for its parent.
        if (file_.context.inherited() && file_.mode == FileMode::kStaged && file_.bytes.pending_bytes() == 0)
            return Status::ok();
    }
    return step_aside(ledger::AsideReason::kAddressGiven);
}

Status Lifecycle::finish(Finish how) {
    const LockGuard writer(file_.writer);
    const Status closed = close_staged(how);
    if (how == Finish::kProgramWaits) let_others_open();
    return closed;
}

void Lifecycle::let_others_open() noexcept {
    const LockGuard lock(file_.mutex());
    file_.outflow.state.turns.let_others_open();
}

Status Lifecycle::finish_unclosed() {
    if (!file_.writer.try_lock()) return {Code::kUnavailable, "a thread of the program is in a call of the file"};
    const LockGuard writer(file_.writer, kLocked);
    {
        const LockGuard lock(file_.mutex());
        if (file_.mode == FileMode::kFailed)
            return withheld_.is_ok() ? file_.outflow.state.failures.error() : withheld_;
        if (file_.mode == FileMode::kPassive) return withheld_;   // a failure of the members' end
        if (file_.group)
            return withheld_.is_ok() ? Status(Code::kUnavailable, "other processes share the file") : withheld_;
    }
    return close_staged(Finish::kProgramWaits);
}

// The other process may still write the file, or recovery may have to.
void Lifecycle::fail(const Status& why) {
    const LockGuard writer(file_.writer);
    const LockGuard lock(file_.mutex());
    file_.mode = FileMode::kFailed;
    file_.offer_target();
    file_.outflow.state.halt(why);
}

Status Lifecycle::close_staged(Finish how) {
    log_.give_back_first_segment();
    const bool program_waits = how == Finish::kProgramWaits;
    std::optional<Call> call;
    if (program_waits) call.emplace(file_.counters->close_ns, file_.context.spare_time(), file_.context.trace());
    {
        const LockGuard lock(file_.mutex());
        file_.follow();
        if (file_.mode != FileMode::kStaged) return close_unstaged();
        if (!withheld_.is_ok()) {
            file_.mode = FileMode::kFailed;
            file_.offer_target();
            file_.outflow.state.halt(withheld_);
            return withheld_.with_context(why_withheld("close"));
        }
        file_.outflow.state.failures.try_again();
    }
    // Fails if the drain has failed before; the bytes that still can drain do so all the same.
    Status outcome = file_.commits->commit(true);
    bool group = false;
    Status lost;
    {
        const LockGuard lock(file_.mutex());
        group = file_.durable && file_.group;
        if (!settle_for_close(outcome)) return close_keeping_log(std::move(outcome));
        lost = file_.log->lost();
        if (file_.group) file_.group->release().complete();
        file_.log.reset();
        file_.group.reset();
        file_.follower.reset();
        file_.mode = FileMode::kPassive;
        file_.sizes.committed = file_.sizes.logical;
        file_.outflow.state.target.set_size(file_.sizes.logical);
        file_.update_ledger();
    }
    if (program_waits) file_.context.spare_time().forgive();
    if (const Status given_back = group ? file_.commits->log_given_back() : Status::ok(); outcome) outcome = given_back;
    if (outcome || !lost) return lost;
    return outcome.with_context("all staged bytes were written by a later attempt, but before");
}

// The descriptor stays open for readers. When it is closed, no call of the program can report a loss any more.
Status Lifecycle::close_unstaged() {
    const bool bypass = file_.mode == FileMode::kBypass;
    if (bypass) file_.mode = FileMode::kPassive;
    file_.offer_target();
    const Status failed = file_.outflow.state.failures.error();
    if (!failed || !bypass) return failed;
    if (!file_.durable) return file_.outflow.confirms.await(drain::Confirm::kClose);
    return file_.outflow.state.facts.unsynced() ? file_.outflow.syncs.sync() : Status::ok();
}

bool Lifecycle::settle_for_close(Status& outcome) {
    if (const Status drained = log_.drain(); outcome) outcome = drained;
    if (file_.outflow.state.failures.halted() && file_.outflow.state.failures.first_error().sys_errno() == ENOMEM) {
        // A write that began before this attempt, and got no memory, may have stopped it. No such write is left now.
        file_.outflow.state.failures.resume();
        (void)log_.drain();
    }
    if (!file_.bytes.index().empty() || file_.outflow.state.target.cut_due() || !file_.outflow.state.queue.idle() ||
        (file_.group && !file_.group->order().damage().is_ok()))
        return false;
    if (file_.outflow.state.target.size() != file_.sizes.logical) {
        const Status resized = file_.outflow.resize_target(file_.sizes.logical);
        if (outcome) outcome = resized;
        if (!resized) return false;
    }
    if (!file_.durable && !confirm_for_close(outcome)) return false;
    const Status alone = log_.await_unpinned();
    if (outcome) outcome = alone;
    if (!alone) return false;
    if (!file_.durable) return true;
    const Status durable = file_.commits->release_all();
    if (outcome) outcome = durable;
    // The log may still have bytes that the target lacks, or segments that the last statement counts.
    return (file_.group ? durable.is_ok() : file_.log->segments().empty()) &&
           file_.outflow.state.failures.target_lost().is_ok() && durable.sys_errno() != ETIMEDOUT;
}

// The target may report only now that it has lost bytes. Returns true if it has all of them.
bool Lifecycle::confirm_for_close(Status& outcome) {
    using drain::Confirm;
    if (const Status confirmed = file_.outflow.confirms.await(Confirm::kClose); outcome) outcome = confirmed;
    if (!outcome && !file_.group) {
        file_.outflow.make_good();
        if (file_.outflow.state.failures.first_error().is_ok()) outcome = file_.outflow.confirms.await(Confirm::kClose);
    }
    return file_.bytes.index().empty() && !file_.bytes.index().sent().any();
}

Status Lifecycle::close_keeping_log(Status outcome) {
    const Status alone = file_.outflow.state.arrivals.await(file_.mutex(), [this]() NO_THREAD_SAFETY_ANALYSIS {
        return !file_.commits->recycling();
    });
    if (outcome) outcome = alone;
    if (outcome && file_.group) outcome = file_.group->order().damage();
    if (outcome) outcome = Status(Code::kInternal, "the target lacks staged bytes");   // never a success
    file_.mode = FileMode::kFailed;
    file_.offer_target();
    file_.outflow.state.halt(outcome);
    if (file_.log->marker_fits())
        (void)file_.log->append_marker(log::RecordKind::kClose, file_.sizes.logical, file_.next_sequence());
    Status told = outcome.with_context(fmt::format("close {}: {} bytes stay in the staging log", file_.name.path,
                                                   file_.bytes.pending_bytes()));
    if (file_.outflow.state.turns.changed()) leave_to_others();
    return told;
}

void Lifecycle::withhold(Status why) noexcept {
    const LockGuard lock(file_.mutex());
    withheld_ = std::move(why);
}

std::string Lifecycle::why_withheld(const char* doing) const {
    return fmt::format("{} {}: what was written since the last flush that succeeded is incomplete, and stays in the "
                       "staging log",
                       doing, file_.name.path);
}

Status Lifecycle::withheld(const char* doing) const {
    const LockGuard lock(file_.mutex());
    return withheld_.is_ok() ? Status::ok() : withheld_.with_context(why_withheld(doing));
}

}   // namespace forebay::stage
