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
    : context_(context),
      identity_(setup.identity),
      path_(std::move(setup.path)),
      log_number_(setup.log_number),
      outflow_({context.options(), context.scheduler(), context.progress()}, bytes_, *this, path_),
      target_(std::move(setup.target)),
      slot_(nullptr),
      own_slot_(std::make_unique<ledger::LedgerSlot>()) {
    slot_ = own_slot_.get();
}

StagedFile::~StagedFile() {
    if (leaves_log()) log_->abandon();
}

Status StagedFile::refuse_if_inherited(const char* what) const {
    if (!context_.inherited()) return Status::ok();
    return {Code::kUnsupported,
            fmt::format("{} {}: the file was opened before this process was forked; open it again here", what, path_)};
}

// ---- truncate, commit ------------------------------------------------------------------------------

Status StagedFile::truncate(std::uint64_t size) {
    FOREBAY_TRY(refuse_if_inherited("set the size of"));
    const LockGuard writer(writer_);
    State state;
    {
        const LockGuard lock(mutex());
        if (follows() && state_ == State::kStaged) {
            // The drainer records it; here it only becomes the file's size. What is read after that is found with the
            // record.
            logical_size_ = size;
            dirty_ = true;
            return Status::ok();
        }
        follow();
        state = state_;
        // What others forward to the same server may have made the file longer.
        const bool known = state_ != State::kBypass || target_->forwarded() == nullptr;
        if (known && size == logical_size_) return Status::ok();
    }
    if (state == State::kPassive || state == State::kFailed)
        return Status::from_errno(EBADF, "set the size of " + path_ + ", which is not open for writing");
    if (state == State::kStaged) FOREBAY_TRY(meet_size_limit(size));
    const std::uint64_t sequence = state == State::kBypass ? 0 : next_sequence();
    group::DrawnNumber drawn(order());
    if (group_) FOREBAY_TRY(group_->lost());
    if (state == State::kStaged) {
        FOREBAY_TRY(append_marker(log::RecordKind::kTruncate, size, sequence));
        const LockGuard lock(mutex());
        state = state_;   // the log may have failed
    }
    if (state == State::kBypass) {
        FOREBAY_TRY(target_->resize(size));
        outflow_.facts().note_unsynced();
    }

    const LockGuard lock(mutex());
    if (state == State::kStaged && size < logical_size_) {
        // Whatever older bytes there are beyond the cut must stay hidden, also when the file grows again.
        bytes_.index().truncate(size, std::max({logical_size_, outflow_.target().size(), committed_size_}),
                                committed_size_);
        outflow_.note_cut();
        recycle();
        update_ledger();
    }
    logical_size_ = size;
    resize_sequence_ = sequence;
    dirty_ = true;
    drawn.publish();
    return Status::ok();
}

// A record that recovery needs. Nothing is logged as long as nothing is staged, the target has it all; but
// for a cut, which only this process knows of until it has reached the target.
Status StagedFile::append_marker(log::RecordKind kind, std::uint64_t argument, std::uint64_t sequence) {
    const bool cut = kind == log::RecordKind::kTruncate && argument < logical_size_;
    if ((log_->empty() && !cut) || log_failed_) return Status::ok();
    if (group_) {
        FOREBAY_TRY(make_marker_room());
    } else if (!log_->marker_fits()) {
        const auto room = make_room(log::kRecordHeaderBytes, log::SegmentPool::Take::kAny);
        if (!room) return room.status();
        if (room.value() == 0) return log_failed_ ? Status::ok() : leave_log();
    }
    if (log_->append_marker(kind, argument, sequence)) return Status::ok();
    return give_up_log();
}

Status StagedFile::await_unpinned() {
    return outflow_.arrivals().await(mutex(),
                                     [this]() NO_THREAD_SAFETY_ANALYSIS { return !log_->pinned() && !recycling_; });
}

// Nothing is staged any more: from here on the size of the target is the size of the file. Others may be making it
// longer already.
Status StagedFile::stop_staging() {
    if (outflow_.target().size() != logical_size_) FOREBAY_TRY(outflow_.resize_target(logical_size_));
    log_->release_all();
    outflow_.facts().note_unsynced();
    outflow_.target().set_size(logical_size_);
    committed_size_ = logical_size_;
    state_ = State::kBypass;
    offer_target();
    return Status::ok();
}

// Drains everything and gives the log back, so that the target alone tells the file's state.
Status StagedFile::leave_log() {
    {
        const LockGuard lock(mutex());
        follow();
        add(slot_->guarantee_given_up, bytes_.index().promote_held());
    }
    {
        const LockGuard lock(mutex());
        FOREBAY_TRY(drain_all());
        FOREBAY_TRY(await_unpinned());
        if (durable_) FOREBAY_TRY(group_ ? retire_group() : release_all_durably());
        log_->release_all();
        if (group_) group_->log().set_released(log_->oldest_order());
    }
    return durable_ && group_ ? sync_given_back() : Status::ok();
}

Status StagedFile::commit() {
    if (context_.inherited()) return Status::ok();
    const LockGuard writer(writer_);
    {
        const LockGuard lock(mutex());
        const bool does = state_ == State::kBypass && (durable_ || target_->forwarded() != nullptr);
        if (state_ != State::kStaged && !does) return Status::ok();
        if (follows()) return Status::ok();
    }
    const Call call(slot_->close_ns, context_.spare_time(), context_.trace());
    if (state_ == State::kBypass) {
        FOREBAY_TRY(forward(&io::ForwardedTarget::commit));
        if (context_.options().flush == OnFlush::kDrain) FOREBAY_TRY(forward(&io::ForwardedTarget::drain));
        return durable_ && outflow_.facts().unsynced() ? sync_target() : Status::ok();
    }
    FOREBAY_TRY(make_commit(false));
    const bool drains = context_.options().flush == OnFlush::kDrain || context_.deadline_presses();
    const LockGuard lock(mutex());
    return drains ? drain_all() : outflow_.show_size();
}

// After a failure a closing file is committed all the same: what can be drained is, and what stays in the
// log is a state that recovery can bring home.
Status StagedFile::make_commit(bool closing) {
    bool drain_now = false, recorded_here = true;
    Status failure;
    {
        const LockGuard lock(mutex());
        follow();
        if (!group_) outflow_.make_good();
        failure = outflow_.failures().error();
        if (failure) failure = sync_error_;
        if (!failure && !closing) return failure;
        if (!dirty_) return failure;
    }
    if (durable_) {
        bool recorded = false;
        const Status durable = group_ ? append_group_commit(closing) : append_durable_commit(closing, recorded);
        // What the record tells of is the state to go back to, also if this call fails: nothing that comes later may
        // drain into it.
        if (!durable && !closing && !recorded) return durable;
        if (failure) failure = durable;
    }
    const std::uint64_t sequence = durable_ ? durable_commit_ : next_sequence();
    group::DrawnNumber drawn(order());
    if (group_ && !closing) FOREBAY_TRY(group_->lost());
    if (!durable_) {
        if (failure) FOREBAY_TRY(append_marker(log::RecordKind::kCommit, logical_size_, sequence));
        else if (!log_->marker_fits() || !log_->append_marker(log::RecordKind::kCommit, logical_size_, sequence)) {
            const LockGuard lock(mutex());
            add(slot_->guarantee_given_up, bytes_.index().held_bytes());
            recorded_here = false;
        }
    }
    commit_recorded_ = recorded_here;
    drawn.publish();
    {
        const LockGuard lock(mutex());
        bytes_.index().commit(logical_size_);
        committed_size_ = logical_size_;
        if (group_) group_->target().set_committed_size(committed_size_);
        commit_sequence_ = sequence;
        commit_time_ns_ = realtime_ns();
        dirty_ = false;
        add(slot_->commits, 1);
        drain_now = outflow_.committed();
        recycle();
        update_ledger();
    }
    if (drain_now) outflow_.wake();
    if (!failure || !log_->empty() || (!durable_ && (!drain_now || group_))) return failure;
    // No record tells of this commit, of its size or of a cut: the target has to be it.
    FOREBAY_TRY(drain_everything());
    return durable_ ? sync_target() : Status::ok();
}

Status StagedFile::drain() {
    if (context_.inherited()) return Status::ok();
    const LockGuard writer(writer_);
    FOREBAY_TRY(forward(&io::ForwardedTarget::drain));
    {
        const LockGuard lock(mutex());
        if (state_ != State::kStaged || follows()) return outflow_.failures().error();
        follow();
        add(slot_->guarantee_given_up, bytes_.index().promote_held());
    }
    const Call call(slot_->close_ns, context_.spare_time(), context_.trace());
    const Status drained = drain_everything();
    if (drained) context_.spare_time().forgive();
    return drained;
}

Status StagedFile::drain_ready() {
    if (context_.inherited()) return Status::ok();
    const LockGuard writer(writer_);
    const LockGuard lock(mutex());
    if (state_ != State::kStaged || follows()) return outflow_.failures().error();
    follow();
    const Call call(slot_->close_ns, context_.spare_time(), context_.trace());
    return drain_all();
}

Status StagedFile::sync_drained() {
    if (context_.inherited()) return Status::ok();
    const LockGuard writer(writer_);
    return sync_target();
}

void StagedFile::pause_drain() {
    if (context_.deadline_presses()) return;
    const LockGuard lock(mutex());
    if (state_ == State::kStaged && !context_.inherited()) outflow_.planner().pause();
}

void StagedFile::resume_drain() {
    if (context_.inherited()) return;
    bool drain_now = false;
    {
        const LockGuard lock(mutex());
        drain_now = outflow_.planner().resume() && state_ == State::kStaged;
    }
    if (drain_now) outflow_.wake();
}

bool StagedFile::drain_paused() const {
    const LockGuard lock(mutex());
    return outflow_.planner().paused();
}

Status StagedFile::step_aside(ledger::AsideReason reason) {
    FOREBAY_TRY(refuse_if_inherited("step aside for"));
    const LockGuard writer(writer_);
    slot_->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(reason), std::memory_order_relaxed);
    FOREBAY_TRY(forward(&io::ForwardedTarget::step_aside));
    give_back_first();
    {
        const LockGuard lock(mutex());
        if (state_ != State::kStaged) return Status::ok();
    }
    FOREBAY_TRY(leave_log());
    const LockGuard lock(mutex());
    return stop_staging();
}

void StagedFile::note_addresses_given() {
    context_.addresses_given(identity_);
    slot_->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(ledger::AsideReason::kAddressGiven),
                          std::memory_order_relaxed);
}

Status StagedFile::expose_offsets() {
    context_.addresses_given(identity_);
    {
        const LockGuard lock(mutex());
        if (state_ == State::kPassive) return Status::ok();
        if (state_ == State::kFailed) return outflow_.failures().error();
        // A child writes nothing, and cannot drain for its parent.
        if (context_.inherited() && state_ == State::kStaged && bytes_.pending_bytes() == 0) return Status::ok();
    }
    return step_aside(ledger::AsideReason::kAddressGiven);
}

// ---- opening and finishing -------------------------------------------------------------------------

Status StagedFile::open_for_writing(std::unique_ptr<io::File> target, ledger::LedgerSlot* slot,
                                    std::optional<ledger::AsideReason> aside, io::FileTraits traits,
                                    const std::function<Status()>& prepare) {
    const LockGuard writer(writer_);
    {
        const LockGuard lock(mutex());
        if (state_ == State::kFailed) return outflow_.failures().error();
        if (state_ != State::kPassive) return {Code::kInternal, "open " + path_ + ": it is being written already"};
    }   // nobody else leaves this state while the writer's lock is held
    if (prepare) FOREBAY_TRY(prepare());
    const auto size = target->size();
    if (!size) return size.status();
    const log::Birth born = birth_of(*target, traits);
    const LockGuard lock(mutex());
    unstaged_.replace(target_, std::move(target));
    slot_ = slot;
    logical_size_ = committed_size_ = size.value();
    commit_sequence_ = commit_time_ns_ = 0;
    several_nodes_ = left_log_ = left_to_others_ = false;
    left_bytes_ = 0;
    log_failed_ = false;
    commit_recorded_ = true;
    dirty_ = false;
    within_limit_ = 0;
    resize_sequence_ = 0;
    sync_error_ = Status::ok();
    durable_ = context_.options().durability == Durability::kNode;
    state_ = aside || context_.pool() == nullptr ? State::kBypass : State::kStaged;
    if (aside) slot_->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(*aside), std::memory_order_relaxed);
    if (state_ == State::kStaged) make_log(born);
    outflow_.open(target_, traits, size.value(), log_mount());
    offer_target();
    return Status::ok();
}

void StagedFile::make_log(const log::Birth& born) {
    log_ = std::make_unique<log::FileLog>(*context_.pool(), log_number_,
                                          log::LogTarget{identity_.device, identity_.inode, path_, {}, durable_, born},
                                          durable_);
}

// As opening it anew does: the target alone tells how the file is.
Result<bool> StagedFile::begin_staging() {
    FOREBAY_TRY(refuse_if_inherited("stage"));
    const LockGuard writer(writer_);
    {
        const LockGuard lock(mutex());
        const auto disabled = std::uint64_t{1} << static_cast<unsigned>(ledger::AsideReason::kDisabled);
        if (state_ != State::kBypass || group_ != nullptr || several_nodes_ || log_failed_ ||
            context_.pool() == nullptr || slot_->aside.load(std::memory_order_relaxed) != disabled ||
            !outflow_.failures().error().is_ok())
            return false;
    }   // nobody else leaves this state while the writer's lock is held
    const auto size = target_->size();
    if (!size) return size.status();
    const io::FileTraits traits = target_->traits();
    const log::Birth born = birth_of(*target_, traits);
    const LockGuard lock(mutex());
    FOREBAY_TRY(outflow_.arrivals().await(mutex(),
                                          [this]() NO_THREAD_SAFETY_ANALYSIS { return outflow_.queue().idle(); }));
    logical_size_ = committed_size_ = size.value();
    commit_sequence_ = commit_time_ns_ = 0;
    resize_sequence_ = 0;
    dirty_ = false;
    make_log(born);
    state_ = State::kStaged;
    outflow_.open(target_, traits, size.value(), log_mount());
    offer_target();
    return true;
}

// Of a durable log: where it is mounted. Only then somebody asks whether a device was gone meanwhile. 0: unknown.
std::uint64_t StagedFile::log_mount() {
    if (!durable_ || context_.pool() == nullptr) return 0;
    Result<io::FileState> state = out_of_memory();
    (void)attempt([&] { state = context_.pool()->state(); });
    return state ? state.value().mount : 0;
}

std::uint64_t StagedFile::size() const {
    const LockGuard lock(mutex());
    return std::max(logical_size_, bytes_.own().end());
}

// Whether a log with bytes that are nowhere else would be lost if it were given back. Or one that the last statement of
// a group counts: the close broke off before it could state that none does.
bool StagedFile::leaves_log() const {
    const LockGuard lock(mutex());
    return left_log_ || (log_ != nullptr && !log_->empty() &&
                         (state_ == State::kFailed || !index().empty() || bytes_.own().bytes() > 0 ||
                          (durable_ && group_ != nullptr)));
}

bool StagedFile::failed() const {
    const LockGuard lock(mutex());
    return state_ == State::kFailed;
}

Status StagedFile::refresh() {
    const LockGuard lock(mutex());
    if (state_ != State::kPassive && !left_to_others_) return Status::ok();
    const auto size = target_->size();
    if (!size) return size.status();
    logical_size_ = size.value();
    outflow_.target().set_size(logical_size_);
    offer_target();
    return Status::ok();
}

ledger::FileCounters StagedFile::counters() const { return ledger::snapshot(*slot_); }

}   // namespace forebay::stage
