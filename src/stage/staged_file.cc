// The program's side of a staged file: write, read, truncate, commit, open, finish.
#include "stage/staged_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace forebay::stage {

namespace {

// Raw writes of at least this size may go straight to a target that is as fast as the log.
constexpr std::size_t kDirectMin = 256 * 1024;
constexpr std::size_t kPage = 4096;
// Larger parts of a write get a record of their own.
constexpr std::size_t kSharedRecordMax = 64 * 1024;

void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
    counter.fetch_add(amount, std::memory_order_relaxed);
}

// Adds the time it lives to a counter.
class Stopwatch {
  public:
    explicit Stopwatch(std::atomic<std::uint64_t>& counter) noexcept : counter_(counter), begin_(monotonic_ns()) {}
    ~Stopwatch() { add(counter_, monotonic_ns() - begin_); }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

  private:
    std::atomic<std::uint64_t>& counter_;
    const std::uint64_t begin_;
};

// Reads all of `into`; what the file does not have is zeros.
Status read_or_zeros(io::File& file, std::uint64_t offset, io::MutableBytes into) {
    auto got = file.read_at(offset, into);
    if (!got) return got.status();
    if (got.value() < into.size()) std::memset(into.data() + got.value(), 0, into.size() - got.value());
    return Status::ok();
}

}   // namespace

StagedFile::StagedFile(Surroundings& surroundings, Setup setup)
    : surroundings_(surroundings),
      identity_(setup.identity),
      path_(std::move(setup.path)),
      log_number_(setup.log_number),
      target_(std::move(setup.target)),
      concurrency_(surroundings.options().drain_threads),
      slot_(nullptr),
      own_slot_(std::make_unique<log::LedgerSlot>()) {
    slot_ = own_slot_.get();
}

StagedFile::~StagedFile() {
    if (leaves_log()) log_->abandon();
}

Status StagedFile::refuse_if_inherited(const char* what) const {
    if (!surroundings_.inherited()) return Status::ok();
    return {Code::kUnsupported,
            fmt::format("{} {}: the file was opened before this process was forked; open it again here", what, path_)};
}

// ---- write -----------------------------------------------------------------------------------------

Status StagedFile::write(std::uint64_t offset, io::Bytes bytes, ByteClass byte_class) {
    const Part part{offset, bytes};
    return write({&part, 1}, byte_class);
}

Status StagedFile::write(std::span<const Part> parts, ByteClass byte_class) {
    FOREBAY_TRY(refuse_if_inherited("write to"));
    const std::lock_guard writer(writer_);
    const Stopwatch stopwatch(slot_->stage_ns);
    add(slot_->requests, 1);
    State state;
    {
        const std::lock_guard lock(mutex_);
        state = state_;
    }
    switch (state) {
        case State::kStaged:
            if (several_nodes_ && byte_class == ByteClass::kMetadata) return write_beside_writer(parts);
            return stage_parts_writer(parts, byte_class);
        case State::kThrough:
            for (const Part& part : parts) FOREBAY_TRY(write_direct_writer(part.offset, part.bytes));
            return Status::ok();
        case State::kPassive:
        case State::kFailed: break;
    }
    return Status::from_errno(EBADF, "write to " + path_ + ", which is not open for writing");
}

// Of a file that is shared, the record says whether its bytes wait for a commit, all or none of them.
bool StagedFile::waits_for_commit(std::uint64_t offset, ByteClass byte_class) const noexcept {
    return byte_class == ByteClass::kMetadata || (share_ && offset < share_->committed_size());
}

// As many small parts as fit go into one record.
Status StagedFile::stage_parts_writer(std::span<const Part> parts, ByteClass byte_class) {
    while (!parts.empty()) {
        if (parts.front().bytes.empty()) {
            parts = parts.subspan(1);
            continue;
        }
        if (parts.front().bytes.size() > kSharedRecordMax || parts.size() == 1) {
            FOREBAY_TRY(stage_writer(parts.front().offset, parts.front().bytes, byte_class));
            parts = parts.subspan(1);
            continue;
        }
        const auto room = make_room_writer(parts.front().bytes.size(), log::SegmentPool::Take::kAny);
        if (!room) return room.status();
        const bool waits = waits_for_commit(parts.front().offset, byte_class);
        std::size_t count = 0;
        for (std::uint64_t taken = 0; count < parts.size(); ++count) {
            const std::uint64_t bytes = parts[count].bytes.size();
            taken += bytes + (count > 0 ? log::FileLog::kPartBytes : 0);
            if (bytes == 0 || bytes > kSharedRecordMax || taken > room.value() ||
                waits_for_commit(parts[count].offset, byte_class) != waits)
                break;
        }
        if (count > 0) append_writer(parts.first(count), byte_class);
        else FOREBAY_TRY(stage_writer(parts.front().offset, parts.front().bytes, byte_class));
        parts = parts.subspan(std::max<std::size_t>(count, 1));
    }
    return Status::ok();
}

Status StagedFile::stage_writer(std::uint64_t offset, io::Bytes bytes, ByteClass byte_class) {
    while (!bytes.empty()) {
        // A target at memory speed gains nothing from a log that has to be touched first.
        const bool warm_only = target_is_memory_.load(std::memory_order_relaxed) && byte_class == ByteClass::kRaw &&
                               bytes.size() >= kDirectMin && offset >= committed_size_;
        const auto room = make_room_writer(bytes.size(), warm_only ? log::SegmentPool::Take::kWarm
                                                                   : log::SegmentPool::Take::kAny);
        if (!room) return room.status();
        if (room.value() == 0) return write_through_writer(offset, bytes);

        // What does not fit goes on at a page of the program's buffer, which copies faster.
        const std::size_t fits = room.value() >= kPage ? room.value() / kPage * kPage : room.value();
        std::size_t taken = std::min<std::size_t>(bytes.size(), fits);
        if (share_ && byte_class == ByteClass::kRaw && offset < share_->committed_size())
            taken = std::min<std::uint64_t>(taken, share_->committed_size() - offset);
        const Part part{offset, bytes.first(taken)};
        append_writer({&part, 1}, byte_class);
        offset += part.bytes.size();
        bytes = bytes.subspan(part.bytes.size());
    }
    return Status::ok();
}

// One record, for which there is room.
void StagedFile::append_writer(std::span<const Part> parts, ByteClass byte_class) {
    const bool waits = waits_for_commit(parts.front().offset, byte_class);
    const auto data_class = waits ? log::DataClass::kMetadata : log::DataClass::kRaw;
    const std::uint64_t sequence = next_sequence();
    const std::uint64_t now = realtime_ns();
    const auto position = log_->append_data(parts, data_class, sequence, now);
    std::uint64_t bytes = 0;
    bool drain_now = false;
    {
        const std::lock_guard lock(mutex_);
        if (position.segment->first_time_ns == 0) position.segment->first_time_ns = now;
        for (const Part& part : parts) {
            const ByteRange range{part.offset, part.offset + part.bytes.size()};
            const StagedBytes staged{position.segment, position.offset + bytes, sequence, position.segment->generation(),
                                     data_class};
            const std::uint64_t hold_below = waits ? kOffsetMax : committed_size_;
            if (!share_) index_.insert(range, staged, hold_below, committed_size_);
            else if (share_->drains()) index_.insert_unless_newer(range, staged, hold_below, committed_size_);
            logical_size_ = std::max(logical_size_, range.end);
            bytes += range.size();
        }
        if (share_) share_->published();
        dirty_ = true;
        add(slot_->staged, bytes);
        update_ledger_locked();
        // Otherwise whoever completes a target write looks again: waking a thread costs as much as a small write.
        drain_now = !follows() && running_ < concurrency_.allowed() && worth_draining_locked();
    }
    if (share_ && (follows() || several_nodes_)) share_->appended(parts);
    if (drain_now) wake();
}

// The log has no room and the bytes must not wait: they go to the target now. Records of the same bytes
// that are still in the log stop counting, for this process and for recovery.
Status StagedFile::write_through_writer(std::uint64_t offset, io::Bytes bytes) {
    const ByteRange range{offset, offset + bytes.size()};
    if (share_) {
        FOREBAY_TRY(make_marker_room_writer());   // the others have to be told
    } else if (!log_->empty() && !log_->marker_fits()) {
        if (auto segment = log_->acquire()) adopt_writer(segment.value());
        else FOREBAY_TRY(leave_log_writer());
    }
    std::unique_lock lock(mutex_);
    follow_locked();   // what others have written before is older than this
    for (;;) {
        completed_.wait(lock, [&] { return !in_flight_.overlaps(range) && !resizing_; });
        if (!shrink_to_ || range.end <= *shrink_to_) break;
        lock.unlock();
        FOREBAY_TRY(drain_writer());   // carries the cut out
        lock.lock();
    }
    if (range.begin < committed_size_)
        add(slot_->guarantee_given_up, std::min(range.end, committed_size_) - range.begin);
    in_flight_.add(range);
    target_size_ = std::max(target_size_, range.end);
    lock.unlock();

    const Status outcome = target_->write_at(offset, bytes);

    lock.lock();
    in_flight_.remove(range);
    ++completions_;
    completed_.notify_all();
    surroundings_.pool()->announce_change();
    // What was staged for these bytes stays so after a failure: nothing else has them.
    if (!outcome) return outcome;
    index_.drop(range);
    if (!log_->empty()) append_through_locked(range);
    add(slot_->through, bytes.size());
    add(slot_->target_writes, 1);
    logical_size_ = std::max(logical_size_, range.end);
    dirty_ = true;
    recycle_locked();
    update_ledger_locked();
    return outcome;
}

// Whatever the target has for the range now is newer than any record before this one, of whichever class.
void StagedFile::append_through_locked(ByteRange range) {
    const std::uint64_t sequence = next_sequence();
    log_->append_through(range, sequence);
    if (!share_) return;
    log::SegmentOrder& order = log_->newest()->order;
    order.last = order.supersedes = std::max(order.last, sequence);
    share_->published();
}

// To the target at once, beside the log. Everything staged for the same place was drained before it came to
// be used otherwise; the record tells whoever follows this log to forget what it still knows of that.
Status StagedFile::write_beside_writer(std::span<const Part> parts) {
    for (const Part& part : parts) {
        const ByteRange range{part.offset, part.offset + part.bytes.size()};
        FOREBAY_TRY(target_->write_at(part.offset, part.bytes));
        add(slot_->through, range.size());
        add(slot_->target_writes, 1);
        FOREBAY_TRY(make_marker_room_writer());
        const std::lock_guard lock(mutex_);
        append_through_locked(range);
        if (!follows()) {
            index_.drop(range);
            target_size_ = std::max(target_size_, range.end);
        }
        logical_size_ = std::max(logical_size_, range.end);
    }
    return Status::ok();
}

Status StagedFile::write_direct_writer(std::uint64_t offset, io::Bytes bytes) {
    FOREBAY_TRY(target_->write_at(offset, bytes));
    add(slot_->through, bytes.size());
    add(slot_->target_writes, 1);
    const std::lock_guard lock(mutex_);
    logical_size_ = std::max(logical_size_, offset + bytes.size());
    return Status::ok();
}

// ---- read ------------------------------------------------------------------------------------------

// What a read has to copy from where, decided under the lock and carried out without it.
struct StagedFile::CopyPlan {
    struct Staged {
        ByteRange range;
        StagedBytes bytes;
    };
    std::vector<Staged> staged;
    std::vector<ByteRange> target;
    std::vector<ByteRange> zeros;
};

// True if anything but the target is needed. Pins nothing.
bool StagedFile::plan_copy_locked(ByteRange all, CopyPlan& plan) const {
    const bool plain = state_ == State::kPassive || state_ == State::kThrough;
    if (plain && index_.empty()) {
        plan.target.push_back(all);
        return false;
    }
    // Others may have made the file longer than is known here: then the target tells where it ends.
    const ByteRange inside = share_ ? all : all.intersect({0, std::max(logical_size_, all.begin)});
    const std::uint64_t real_end = shrink_to_.value_or(kOffsetMax);
    index_.for_each_newest(
        inside,
        [&](ByteRange range, const StagedBytes& bytes) {
            if (bytes.segment == nullptr) plan.zeros.push_back(range);
            else plan.staged.push_back({range, bytes});
        },
        [&](ByteRange gap) {
            // Bytes that the target still has, but that were cut off, are not content.
            const ByteRange real = gap.intersect({0, std::max(real_end, gap.begin)});
            if (!real.empty()) plan.target.push_back(real);
            if (real.end < gap.end) plan.zeros.push_back({real.end, gap.end});
        });
    if (inside.end < all.end) plan.zeros.push_back({inside.end, all.end});
    return true;
}

// Copies what the plan says into the bytes of a read from `offset` on. False: a segment was used again
// before its bytes were copied.
Result<bool> StagedFile::carry_out(const CopyPlan& plan, io::File& target, std::uint64_t offset,
                                   io::MutableBytes into) {
    const auto part = [&](ByteRange range) { return into.subspan(range.begin - offset, range.size()); };
    // One read for all gaps: what is staged or cut off goes on top of it.
    if (!plan.target.empty()) {
        const ByteRange hull{plan.target.front().begin, plan.target.back().end};
        FOREBAY_TRY(read_or_zeros(target, hull.begin, part(hull)));
    }
    for (const ByteRange& range : plan.zeros) std::memset(part(range).data(), 0, range.size());
    for (const auto& [range, bytes] : plan.staged) std::memcpy(part(range).data(), bytes.data(), range.size());
    std::atomic_thread_fence(std::memory_order_acquire);
    return std::none_of(plan.staged.begin(), plan.staged.end(), [](const CopyPlan::Staged& staged) {
        return staged.bytes.segment->generation() != staged.bytes.generation;
    });
}

Status StagedFile::read(std::uint64_t offset, io::MutableBytes into) {
    if (into.empty()) return Status::ok();
    const bool inherited = surroundings_.inherited();
    // Whoever does not drain cannot keep segments from being used again: it looks, and tries again.
    bool pinned = false;
    for (;;) {
        CopyPlan plan;
        std::shared_ptr<io::File> target;
        std::shared_ptr<Share> share;   // keeps the segments of others mapped
        {
            const std::lock_guard lock(mutex_);
            if (!inherited) follow_locked();
            target = target_;
            share = share_;
            plan_copy_locked({offset, offset + into.size()}, plan);
            pinned = !plan.staged.empty() && !inherited && !follows();
            if (pinned)
                for (const auto& staged : plan.staged) ++staged.bytes.segment->pins;
        }
        const auto intact = carry_out(plan, *target, offset, into);
        std::uint64_t stolen = 0;
        for (const auto& staged : plan.staged) stolen += staged.range.size();
        add(slot_->stolen, stolen);
        if (pinned) {
            const std::lock_guard lock(mutex_);
            for (const auto& staged : plan.staged) --staged.bytes.segment->pins;
            completed_.notify_all();   // a close may be waiting to give the segments back
            if (log_) recycle_locked();
        }
        if (!intact) return intact.status();
        if (intact.value() || pinned) return Status::ok();
        if (!inherited) {
            // What was followed has been drained and its segment used again.
            const std::lock_guard lock(mutex_);
            if (!share_) continue;
            index_.clear();
            share_->restart();
            continue;
        }
        // The parent has drained these bytes and used the segment again.
        for (const auto& [range, bytes] : plan.staged)
            if (bytes.segment->generation() != bytes.generation)
                FOREBAY_TRY(read_or_zeros(*target, range.begin, into.subspan(range.begin - offset, range.size())));
        return Status::ok();
    }
}

std::uint64_t StagedFile::size() const {
    const std::lock_guard lock(mutex_);
    return logical_size_;
}

// ---- truncate, commit ------------------------------------------------------------------------------

Status StagedFile::truncate(std::uint64_t size) {
    FOREBAY_TRY(refuse_if_inherited("set the size of"));
    const std::lock_guard writer(writer_);
    State state;
    {
        const std::lock_guard lock(mutex_);
        follow_locked();
        if (size == logical_size_) return Status::ok();
        state = state_;
    }
    if (state == State::kPassive || state == State::kFailed)
        return Status::from_errno(EBADF, "set the size of " + path_ + ", which is not open for writing");
    if (follows()) {
        // The drainer records it; here it only becomes the file's size.
        const std::lock_guard lock(mutex_);
        logical_size_ = size;
        dirty_ = true;
        return Status::ok();
    }
    const std::uint64_t sequence = state == State::kThrough ? 0 : next_sequence();
    if (state == State::kThrough) FOREBAY_TRY(target_->resize(size));
    else FOREBAY_TRY(append_marker_writer(log::RecordKind::kTruncate, size, sequence));

    const std::lock_guard lock(mutex_);
    if (state == State::kStaged && size < logical_size_) {
        // Whatever older bytes there are beyond the cut must stay hidden, also when the file grows again.
        index_.truncate(size, std::max({logical_size_, target_size_, committed_size_}), committed_size_);
        recycle_locked();
        update_ledger_locked();
    }
    logical_size_ = size;
    resize_sequence_ = sequence;
    dirty_ = true;
    if (share_) share_->published();
    return Status::ok();
}

// A record that recovery needs. Nothing is logged as long as nothing is staged, the target has it all; but
// for a cut, which only this process knows of until it has reached the target.
Status StagedFile::append_marker_writer(log::RecordKind kind, std::uint64_t argument,
                                        std::uint64_t sequence) {
    const bool cut = kind == log::RecordKind::kTruncate && argument < logical_size_;
    if (log_->empty() && !cut) return Status::ok();
    if (share_) {
        FOREBAY_TRY(make_marker_room_writer());
    } else if (!log_->marker_fits()) {
        const auto room = make_room_writer(log::kRecordHeaderBytes, log::SegmentPool::Take::kAny);
        if (!room) return room.status();
        if (room.value() == 0) return leave_log_writer();
    }
    log_->append_marker(kind, argument, sequence);
    return Status::ok();
}

// Drains everything and gives the log back, so that the target alone tells the file's state.
Status StagedFile::leave_log_writer() {
    {
        const std::lock_guard lock(mutex_);
        follow_locked();
        add(slot_->guarantee_given_up, index_.promote_held());
    }
    FOREBAY_TRY(drain_writer());
    std::unique_lock lock(mutex_);
    completed_.wait(lock, [this] { return !log_->pinned(); });
    log_->release_all();
    if (share_) share_->set_released(log_->oldest_order());
    return Status::ok();
}

Status StagedFile::commit() {
    if (surroundings_.inherited()) return Status::ok();
    const std::lock_guard writer(writer_);
    {
        const std::lock_guard lock(mutex_);
        if (state_ != State::kStaged || follows()) return Status::ok();
    }
    const Stopwatch stopwatch(slot_->close_ns);
    FOREBAY_TRY(commit_writer(false));
    if (surroundings_.options().flush == OnFlush::kDrain) return drain_writer();
    return Status::ok();
}

// After a failure a closing file is committed all the same: what can be drained is, and what stays in the
// log is a state that recovery can bring home.
Status StagedFile::commit_writer(bool closing) {
    bool drain_now = false;
    Status failure;
    {
        const std::lock_guard lock(mutex_);
        follow_locked();
        failure = background_error_locked();
        if (!failure && !closing) return failure;
        if (!dirty_) return failure;
    }
    const std::uint64_t sequence = next_sequence();
    if (failure) FOREBAY_TRY(append_marker_writer(log::RecordKind::kCommit, logical_size_, sequence));
    else if (log_->marker_fits()) log_->append_marker(log::RecordKind::kCommit, logical_size_, sequence);
    else add(slot_->guarantee_given_up, index_.held_bytes());
    if (share_) share_->published();
    {
        const std::lock_guard lock(mutex_);
        index_.commit(logical_size_);
        committed_size_ = logical_size_;
        if (share_) share_->set_committed_size(committed_size_);
        commit_sequence_ = sequence;
        // A cut that is still to come must not be forgotten for a later, longer one.
        if (target_size_ > logical_size_) shrink_to_ = std::min(shrink_to_.value_or(kOffsetMax), logical_size_);
        dirty_ = false;
        add(slot_->commits, 1);
        urgent_ = !index_.ready_empty() || shrink_to_.has_value();
        drain_now = urgent_ || target_size_ < committed_size_;
        recycle_locked();
        update_ledger_locked();
    }
    if (drain_now) wake();
    return failure;
}

Status StagedFile::drain() {
    if (surroundings_.inherited()) return Status::ok();
    const std::lock_guard writer(writer_);
    {
        const std::lock_guard lock(mutex_);
        if (state_ != State::kStaged || follows()) return background_error_locked();
        follow_locked();
        add(slot_->guarantee_given_up, index_.promote_held());
    }
    const Stopwatch stopwatch(slot_->close_ns);
    return drain_writer();
}

Status StagedFile::step_aside(log::AsideReason reason) {
    FOREBAY_TRY(refuse_if_inherited("step aside for"));
    const std::lock_guard writer(writer_);
    slot_->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(reason), std::memory_order_relaxed);
    {
        const std::lock_guard lock(mutex_);
        if (state_ != State::kStaged) return Status::ok();
    }
    FOREBAY_TRY(leave_log_writer());
    // From here on the size of the target is the size of the file; others may be making it longer already.
    if (target_size_ != logical_size_) FOREBAY_TRY(target_->resize(logical_size_));
    const std::lock_guard lock(mutex_);
    target_size_ = committed_size_ = logical_size_;
    state_ = State::kThrough;
    return Status::ok();
}

// ---- opening and finishing -------------------------------------------------------------------------

Status StagedFile::open_for_writing(std::unique_ptr<io::File> target, log::LedgerSlot* slot,
                                    std::optional<log::AsideReason> aside) {
    const std::lock_guard writer(writer_);
    const auto size = target->size();
    if (!size) return size.status();
    const std::lock_guard lock(mutex_);
    if (state_ == State::kFailed) return background_error_locked();
    if (state_ != State::kPassive) return {Code::kInternal, "open " + path_ + ": it is being written already"};
    target_ = std::move(target);
    slot_ = slot;
    logical_size_ = committed_size_ = target_size_ = size.value();
    commit_sequence_ = 0;
    several_nodes_ = left_log_ = false;
    dirty_ = false;
    urgent_ = halted_ = false;
    shrink_to_.reset();
    cursor_ = plan_from_bytes_ = resize_sequence_ = 0;
    background_error_ = Status::ok();
    state_ = aside || surroundings_.pool() == nullptr ? State::kThrough : State::kStaged;
    if (aside)
        slot_->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(*aside), std::memory_order_relaxed);
    if (state_ == State::kStaged)
        log_ = std::make_unique<log::FileLog>(*surroundings_.pool(), log_number_,
                                              log::LogTarget{identity_.device, identity_.inode, path_},
                                              surroundings_.options().checksum == Checksum::kInline);
    return Status::ok();
}

Status StagedFile::finish() {
    const std::lock_guard writer(writer_);
    const Stopwatch stopwatch(slot_->close_ns);
    std::uint64_t size;
    {
        const std::lock_guard lock(mutex_);
        follow_locked();
        if (state_ != State::kStaged) {
            if (state_ == State::kThrough) state_ = State::kPassive;
            return background_error_locked();
        }
        halted_ = false;   // a closing attempt
        size = logical_size_;
    }
    // Fails if draining has failed before; whatever can still be drained is, all the same.
    Status outcome = commit_writer(true);
    if (const Status drained = drain_writer(); outcome) outcome = drained;
    std::unique_lock lock(mutex_);
    bool settled = index_.empty() && !shrink_to_;
    if (settled && target_size_ != size) {
        lock.unlock();
        const Status resized = target_->resize(size);
        lock.lock();
        settled = resized.is_ok();
        if (outcome) outcome = resized;
    }
    if (settled) {
        completed_.wait(lock, [this] { return !log_->pinned(); });
        log_.reset();
        share_.reset();
        state_ = State::kPassive;
        target_size_ = committed_size_ = size;
        if (outcome) return outcome;
        return outcome.with_context("all staged bytes were written by a later attempt, but before");
    }
    state_ = State::kFailed;
    keep_error_locked(outcome);
    if (log_->marker_fits()) log_->append_marker(log::RecordKind::kClose, logical_size_, next_sequence());
    return outcome.with_context(
        fmt::format("close {}: {} bytes stay in the staging log", path_, index_.pending_bytes()));
}

// ---- written together with others ------------------------------------------------------------------

Status StagedFile::join(std::shared_ptr<Share> share, bool several_nodes) {
    const std::lock_guard writer(writer_);
    auto segment = log_->acquire();
    if (!segment) return segment.status().with_context("share " + path_ + " with the other processes of the node");
    {
        const std::lock_guard lock(mutex_);
        share_ = std::move(share);
        several_nodes_ = several_nodes;
        if (several_nodes) committed_size_ = 0;   // all raw data lies beyond: it drains at once
        if (share_->drains()) share_->set_committed_size(committed_size_);
        index_.clear();                           // numbers begin afresh
    }
    adopt_writer(segment.value());
    return Status::ok();
}

void StagedFile::look(bool room_wanted) {
    bool drain_now;
    {
        const std::lock_guard lock(mutex_);
        if (state_ != State::kStaged || follows()) return;
        follow_locked();
        if (room_wanted && !halted_) {
            if (index_.ready_empty() && in_flight_.empty() && !resizing_ && !shrink_to_)
                add(slot_->guarantee_given_up, index_.promote_held());
            urgent_ = !index_.ready_empty() || shrink_to_.has_value();
        }
        recycle_locked();
        update_ledger_locked();
        drain_now = running_ < concurrency_.allowed() && worth_draining_locked();
        ++completions_;   // somebody may wait to drain what was not complete
        completed_.notify_all();
    }
    if (drain_now) wake();
}

bool StagedFile::staged() const {
    const std::lock_guard lock(mutex_);
    return state_ == State::kStaged;
}

bool StagedFile::shared() const {
    const std::lock_guard lock(mutex_);
    return share_ != nullptr;
}

Status StagedFile::finish_followed(const Status& outcome) {
    const std::lock_guard writer(writer_);
    const std::lock_guard lock(mutex_);
    if (state_ != State::kStaged) return outcome;
    index_.clear();
    if (outcome) {
        log_.reset();
        state_ = State::kPassive;
        target_size_ = committed_size_ = logical_size_;
    } else {
        log_->abandon();
        left_log_ = true;
        state_ = State::kFailed;
        keep_error_locked(outcome);
    }
    share_.reset();
    return outcome;
}

Status StagedFile::resize_beside(std::uint64_t size) {
    const std::lock_guard writer(writer_);
    return target_->resize(size);
}

Status StagedFile::note_size(std::uint64_t size) {
    const std::lock_guard writer(writer_);
    if (!follows() && !log_->empty()) {
        FOREBAY_TRY(make_marker_room_writer());
        log_->append_marker(log::RecordKind::kTruncate, size, next_sequence());
        share_->published();
    }
    const std::lock_guard lock(mutex_);
    logical_size_ = target_size_ = size;
    index_.drop({size, kOffsetMax});
    return Status::ok();
}

void StagedFile::go_through() {
    const std::lock_guard writer(writer_);
    const std::lock_guard lock(mutex_);
    if (state_ != State::kStaged) return;
    index_.clear();
    log_->release_all();
    share_.reset();
    state_ = State::kThrough;
}

// Takes in what others have appended. The drainer finds data only: markers are its own. Another one keeps
// everything where a later truncation finds it, held, as it never drains.
void StagedFile::follow_locked() {
    if (!share_ || state_ != State::kStaged) return;
    const bool drains = share_->drains();
    const auto visit = [&](const Share::Record& record) {
        switch (record.kind) {
            case log::RecordKind::kData: {
                const bool hold = !drains || record.data_class == log::DataClass::kMetadata;
                std::uint64_t payload = record.payload;
                for (const ByteRange& range : record.extents) {
                    index_.insert_unless_newer(range, {record.segment, payload, record.sequence, record.generation, record.data_class},
                                               hold ? kOffsetMax : committed_size_, drains ? committed_size_ : kOffsetMax);
                    logical_size_ = std::max(logical_size_, range.end);
                    payload += range.size();
                }
                dirty_ = true;
                break;
            }
            case log::RecordKind::kThrough:
                for (const ByteRange& range : record.extents) index_.drop_older(range, record.sequence);
                break;
            case log::RecordKind::kTruncate:
                if (several_nodes_) index_.drop({record.argument, kOffsetMax});   // the target has been cut
                else if (!drains)   // who does not know how long the target is
                    index_.truncate(record.argument, kOffsetMax, 0);
                else if (record.argument < logical_size_)
                    index_.truncate(record.argument, std::max(logical_size_, target_size_), 0);
                logical_size_ = record.argument;
                break;
            case log::RecordKind::kOpen:
            case log::RecordKind::kCommit:
            case log::RecordKind::kClose: break;
        }
    };
    while (!share_->follow(visit)) {
        index_.clear();
        share_->restart();
        // What has been released is in the target, whose size tells of the rest.
        if (const auto size = target_->size()) {
            target_size_ = std::max(target_size_, size.value());
            logical_size_ = std::max(logical_size_, size.value());
        }
    }
}

// Whether a log with bytes that are nowhere else would be lost if it were given back.
bool StagedFile::leaves_log() const {
    const std::lock_guard lock(mutex_);
    return left_log_ || (log_ != nullptr && !log_->empty() && (state_ == State::kFailed || !index_.empty()));
}

bool StagedFile::failed() const {
    const std::lock_guard lock(mutex_);
    return state_ == State::kFailed;
}

Status StagedFile::refresh() {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kPassive) return Status::ok();
    const auto size = target_->size();
    if (!size) return size.status();
    logical_size_ = target_size_ = size.value();
    return Status::ok();
}

log::FileCounters StagedFile::counters() const { return log::snapshot(*slot_); }

Status StagedFile::background_error_locked() const {
    return background_error_.is_ok() ? Status::ok() : background_error_.with_context("an earlier background write failed");
}

}   // namespace forebay::stage
