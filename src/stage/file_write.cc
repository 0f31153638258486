// Writing to a staged file: into the log or, where the log has no room, to the target.
#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "base/crash_safety.h"
#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

namespace {

// Raw writes of at least this size may go straight to a target that is as fast as the log, in parts of at most so much: each leaves a
// record, the sign by which recovery knows that nobody else has written the target.
constexpr std::size_t kDirectMin = 256 * 1024, kDirectMax = std::size_t{64} << 20;
constexpr std::size_t kPage = 4096;
// A straight write that takes so many times the processor time of each of those who may be writing was not to memory.
constexpr std::uint64_t kPatient = 4;
// Larger parts of a write get a record of their own.
constexpr std::size_t kSharedRecordMax = 64 * 1024;

}   // namespace

Status StagedFile::write(std::uint64_t offset, io::Bytes bytes, ByteClass byte_class) {
    const Part part{offset, bytes};
    return write({&part, 1}, byte_class);
}

Status StagedFile::write(std::span<const Part> parts, ByteClass byte_class) {
    FOREBAY_TRY(refuse_if_inherited("write to"));
    const std::lock_guard writer(writer_);
    const Call call(slot_->stage_ns, surroundings_.spare_time());
    add(slot_->requests, 1);
    switch (state_) {
        case State::kStaged:
            if (several_nodes_ && byte_class == ByteClass::kMetadata) return write_beside_writer(parts);
            if (follows() && share_->goes_through()) return write_beside_writer(parts);
            if (goes_through_after_failure()) {
                for (const Part& part : parts)
                    if (!part.bytes.empty()) FOREBAY_TRY(write_through_writer(part.offset, part.bytes));
                return Status::ok();
            }
            return stage_parts_writer(parts, byte_class);
        case State::kThrough:
            for (const Part& part : parts) FOREBAY_TRY(write_direct_writer(part.offset, part.bytes));
            return Status::ok();
        case State::kPassive:
        case State::kFailed: break;
    }
    return Status::from_errno(EBADF, "write to " + path_ + ", which is not open for writing");
}

// What is staged already stays so; its failure is told by flush and close.
bool StagedFile::goes_through_after_failure() const {
    if (log_failed_) return true;
    if (surroundings_.options().on_error != OnError::kThrough || follows()) return false;
    const std::lock_guard lock(mutex_);
    return !background_error_.is_ok() && !(share_ && shrink_to_);
}

// Of a file that is shared, the record says whether its bytes wait for a commit, all or none of them.
bool StagedFile::waits_for_commit(std::uint64_t offset, ByteClass byte_class) const noexcept {
    return kCrashSafety && (byte_class == ByteClass::kMetadata || (share_ && offset < share_->committed_size()));
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
        if (count == 0) FOREBAY_TRY(stage_writer(parts.front().offset, parts.front().bytes, byte_class));
        else if (!append_writer(parts.first(count), byte_class)) return write_after_fault_writer(parts);
        parts = parts.subspan(std::max<std::size_t>(count, 1));
    }
    return Status::ok();
}

// What of the range may go straight to the target, which is as fast as the log. Nothing: all of it is to be staged.
ByteRange StagedFile::straight_part(ByteRange range, ByteClass byte_class) const noexcept {
    constexpr ByteRange kNothing{0, 0};
    // Nobody could call a write back from a target that hangs.
    if (byte_class != ByteClass::kRaw || durable_ || several_nodes_ || may_hang_ || range.size() < kDirectMin || memory_pace() == 0) return kNothing;
    ByteRange part = range;
    if (follows()) {
        if (range.begin < share_->committed_size()) return kNothing;
        part = share_->first_unstaged(range);
        if (!share_->lost().is_ok()) return kNothing;
    } else if (range.begin < committed_size_) {
        return kNothing;
    }
    part.end = std::min(part.end, part.begin + kDirectMax);
    return part.size() >= kDirectMin ? part : kNothing;
}

// The part is as `straight_part` says.
Status StagedFile::write_straight_writer(const Part& part) {
    const std::uint64_t begin_ns = monotonic_ns(), cpu_ns = thread_cpu_ns();
    FOREBAY_TRY(follows() ? write_beside_writer({&part, 1}, Beside::kNeverStaged) : write_through_writer(part.offset, part.bytes));
    const std::uint64_t took_ns = monotonic_ns() - begin_ns, used_ns = thread_cpu_ns() - cpu_ns;
    // Writers of a file take turns, and share the processors. Beyond that it was the target that was waited for.
    const std::uint64_t writers = share_ ? share_->participants() : 1;
    if (took_ns <= kPatient * writers * used_ns) return Status::ok();
    const std::lock_guard lock(mutex_);
    target_pace_ = {};
    memory_pace_ = 0;
    if (share_) share_->set_memory_pace(0);   // until the drain finds it fast again
    return Status::ok();
}

std::uint64_t StagedFile::memory_pace() const noexcept {
    return share_ ? share_->memory_pace() : memory_pace_.load(std::memory_order_relaxed);
}

Status StagedFile::stage_writer(std::uint64_t offset, io::Bytes bytes, ByteClass byte_class) {
    bool refused = false;
    while (!bytes.empty()) {
        const ByteRange straight = refused ? ByteRange{0, 0} : straight_part({offset, offset + bytes.size()}, byte_class);
        if (straight.begin == offset && !straight.empty()) {
            // A log that has to be touched first gains nothing, nor one whose bytes nobody has the time to drain.
            const bool pays = surroundings_.spare_time().suffices_for(straight.size(), memory_pace(), surroundings_.options().size);
            const auto room = pays ? make_room_writer(straight.size(), log::SegmentPool::Take::kWarm) : 0;
            if (!room) return room.status();
            const Part part{offset, bytes.first(straight.size())};
            // What fails is staged with all the rest of this call, and left to the drain and its policy.
            refused = room.value() == 0 && !write_straight_writer(part);
            if (room.value() == 0 && !refused) {
                offset += part.bytes.size();
                bytes = bytes.subspan(part.bytes.size());
                continue;
            }
        }
        const auto room = make_room_writer(bytes.size(), log::SegmentPool::Take::kAny);
        if (!room) return room.status();
        if (room.value() == 0 && follows()) {
            const Part part{offset, bytes};
            return write_beside_writer({&part, 1});
        }
        if (room.value() == 0) return write_through_writer(offset, bytes);

        // What does not fit goes on at a page of the program's buffer, which copies faster.
        const std::size_t fits = room.value() >= kPage ? room.value() / kPage * kPage : room.value();
        std::size_t taken = std::min<std::size_t>(bytes.size(), fits);
        if (straight.begin > offset) taken = std::min<std::uint64_t>(taken, straight.begin - offset);
        if (share_ && byte_class == ByteClass::kRaw && offset < share_->committed_size())
            taken = std::min<std::uint64_t>(taken, share_->committed_size() - offset);
        const Part part{offset, bytes.first(taken)};
        if (!append_writer({&part, 1}, byte_class)) {
            const Part rest{offset, bytes};
            return write_after_fault_writer({&rest, 1});
        }
        offset += part.bytes.size();
        bytes = bytes.subspan(part.bytes.size());
    }
    return Status::ok();
}

// One record, for which there is room. False: the log has failed, and has not got it.
bool StagedFile::append_writer(std::span<const Part> parts, ByteClass byte_class) {
    const bool waits = waits_for_commit(parts.front().offset, byte_class);
    const auto data_class = waits ? log::DataClass::kMetadata : log::DataClass::kRaw;
    const std::uint64_t sequence = next_sequence();
    DrawnNumber drawn(share_.get());
    // First: whoever looks for a range in which nothing is staged must not miss these.
    if (share_ && !several_nodes_) share_->note_staged(parts);
    if (share_ && !share_->lost().is_ok()) return false;
    const std::uint64_t now = realtime_ns();
    const auto position = log_->append_data(parts, data_class, sequence, now);
    if (position.segment == nullptr) return false;
    if (const std::uint64_t pace = memory_pace(); pace != 0)
        for (const Part& part : parts) surroundings_.spare_time().spend(part.bytes.size(), pace);
    const StagedBytes staged{position.segment, position.offset, sequence, static_cast<std::uint32_t>(position.segment->own_generation), data_class};
    if (share_ && share_->drains()) {
        append_own_writer(parts, {parts.size(), staged, waits, now});
        drawn.forget();
        return true;
    }
    std::uint64_t bytes = 0;
    bool drain_now = false;
    {
        const std::lock_guard lock(mutex_);
        if (position.segment->first_time_ns == 0) position.segment->first_time_ns = now;
        for (const Part& part : parts) {
            const ByteRange range{part.offset, part.offset + part.bytes.size()};
            if (!share_) index_.insert(range, staged.advanced(bytes), waits ? kOffsetMax : kCrashSafety ? committed_size_ : 0, committed_size_);
            logical_size_ = std::max(logical_size_, range.end);
            bytes += range.size();
        }
        drawn.publish();
        dirty_ = true;
        add(slot_->staged, bytes);
        update_ledger_locked();
        // Otherwise whoever completes a target write looks again: waking a thread costs as much as a small write.
        drain_now = !share_ && running_ < concurrency_.allowed() && worth_draining_locked();
    }
    if (share_) share_->appended(parts);
    if (drain_now) wake();
    return true;
}

// The log has not taken these, nor will it. Of a shared file the others would not learn of them.
Status StagedFile::write_after_fault_writer(std::span<const Part> parts) {
    if (share_) return log_failure().with_context("write to " + path_);
    FOREBAY_TRY(give_up_log_writer());
    for (const Part& part : parts)
        if (!part.bytes.empty()) FOREBAY_TRY(write_through_writer(part.offset, part.bytes));
    return Status::ok();
}

// The log has no room and the bytes must not wait: they go to the target now. Records of the same bytes
// that are still in the log stop counting, for this process and for recovery.
Status StagedFile::write_through_writer(std::uint64_t offset, io::Bytes bytes) {
    const ByteRange range{offset, offset + bytes.size()};
    if (share_) {
        FOREBAY_TRY(make_marker_room_writer());   // the others have to be told
    } else if (!log_->empty() && !log_->marker_fits() && !log_failed_) {
        if (auto segment = log_->acquire(); !segment) FOREBAY_TRY(leave_log_writer());
        else if (!adopt_writer(segment.value())) FOREBAY_TRY(give_up_log_writer());
    }
    std::unique_lock lock(mutex_);
    follow_locked();   // what others have written before is older than this
    for (;;) {
        FOREBAY_TRY(await_locked(lock, [&] { return !in_flight_.overlaps(range) && !resizing_; }));
        if (!shrink_to_ || range.end <= *shrink_to_) break;
        lock.unlock();
        FOREBAY_TRY(drain_writer());   // carries the cut out
        lock.lock();
    }
    if (range.begin < committed_size_)
        add(slot_->guarantee_given_up, std::min(range.end, committed_size_) - range.begin);
    in_flight_.add(range);
    target_size_ = std::max(target_size_, range.end);
    log::WritesBeside& beside = beside_locked();
    lock.unlock();

    const std::uint64_t begin_ns = monotonic_ns();
    const Status outcome = [&] {
        const log::WriteBeside under_way(beside);
        return target_->write_at(offset, bytes);
    }();
    if (outcome) surroundings_.trace(begin_ns, monotonic_ns(), range);

    lock.lock();
    in_flight_.remove(range);
    let_through_locked();
    ++completions_;
    completed_.notify_all();
    surroundings_.pool()->announce_change();
    // What was staged for these bytes stays so after a failure: nothing else has them.
    if (outcome) written_through_locked(range);
    const bool more = look_again_locked();
    lock.unlock();
    if (more) wake();
    return outcome;
}

// The target has the range, and nothing older than that may come to it any more.
void StagedFile::written_through_locked(ByteRange range) {
    index_.drop(range);
    if (unreadable_.overlaps(range)) unreadable_.clear();
    if (!log_->empty() && (!log_->marker_fits() || !append_through_locked(range))) {
        // After a crash recovery would bring older bytes back.
        log_failed_ = true;
        add(slot_->guarantee_given_up, range.size());
    }
    target_unsynced_ = true;
    add(slot_->through, range.size());
    add(slot_->target_writes, 1);
    logical_size_ = std::max(logical_size_, range.end);
    dirty_ = true;
    recycle_locked();
    update_ledger_locked();
}

Status StagedFile::write_direct_writer(std::uint64_t offset, io::Bytes bytes) {
    FOREBAY_TRY(target_->write_at(offset, bytes));
    add(slot_->through, bytes.size());
    add(slot_->target_writes, 1);
    const std::lock_guard lock(mutex_);
    target_unsynced_ = true;
    logical_size_ = std::max(logical_size_, offset + bytes.size());
    return Status::ok();
}

}   // namespace forebay::stage
