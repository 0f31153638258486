// Writes into the log, and the choice of bytes that bypass it (file_bypass.cc).
#include <algorithm>
#include <cerrno>

#include "base/clock.h"
#include "io/process_limits.h"
#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

namespace {

// Raw writes of at least kBypassMin may bypass the log if the target is as fast, in parts of at most kBypassMax. Each
// part leaves a record, by which recovery knows that no other program has written the target.
constexpr std::size_t kBypassMin = 256 * 1024, kBypassMax = std::size_t{64} << 20;
constexpr std::size_t kPage = 4096;
// A bypass that took longer than so many times its processor time, for each possible writer, was not to memory.
constexpr std::uint64_t kPatient = 4;
// Larger parts of a write get a record of their own.
constexpr std::size_t kSharedRecordMax = 64 * 1024;

std::uint64_t end_of(std::span<const StagedFile::Part> parts) noexcept {
    std::uint64_t end = 0;
    for (const StagedFile::Part& part : parts) end = std::max(end, part.offset + part.bytes.size());
    return end;
}

}   // namespace

Status StagedFile::write(std::uint64_t offset, io::Bytes bytes, ByteClass byte_class) {
    const Part part{offset, bytes};
    return write({&part, 1}, byte_class);
}

Status StagedFile::write(std::span<const Part> parts, ByteClass byte_class) {
    return write(parts, byte_class, Route::kLog);
}

Status StagedFile::write_bypassing(std::span<const Part> parts) {
    return write(parts, ByteClass::kRaw, Route::kBypass);
}

Status StagedFile::write(std::span<const Part> parts, ByteClass byte_class, Route route) {
    FOREBAY_TRY(file_.refuse_if_inherited("write to"));
    const LockGuard writer(file_.writer);
    const Call call(file_.counters->stage_ns, file_.context.spare_time(), file_.context.trace());
    add(file_.counters->requests, 1);
    switch (file_.mode) {
        case FileMode::kStaged:
            FOREBAY_TRY(meet_size_limit(end_of(parts)));
            if (file_.several_nodes && (byte_class == ByteClass::kMetadata || route == Route::kBypass))
                return bypass_beside_others(parts);
            if (file_.follows() && file_.group->target().bypasses_log()) return bypass_beside_others(parts);
            if (bypasses_after_failure()) {
                for (const Part& part : parts)
                    if (!part.bytes.empty()) FOREBAY_TRY(bypass(part.offset, part.bytes));
                return Status::ok();
            }
            return stage_parts(parts, byte_class);
        case FileMode::kBypass:
            for (const Part& part : parts) FOREBAY_TRY(write_unstaged(part.offset, part.bytes));
            return Status::ok();
        case FileMode::kPassive:
        case FileMode::kFailed: break;
    }
    return Status::from_errno(EBADF, "write to " + file_.name.path + ", which is not open for writing");
}

// Beyond the process's limit (ulimit -f), the program gets SIGXFSZ in its own thread, as natively. If it goes on, the
// bytes are staged, and flush and close report the drain's EFBIG: HDF5 does not survive failures midway in a close.
Status StagedFile::meet_size_limit(std::uint64_t end) {
    if (end <= file_.sizes.permitted) return Status::ok();
    const std::uint64_t limit = io::file_size_limit();
    if (end <= limit) {
        file_.sizes.permitted = end;
        return Status::ok();
    }
    file_.sizes.permitted = 0;
    constexpr std::byte kNone{};
    const Status met = file_.target->write_at(limit, {&kNone, 1});   // the system takes no byte there
    return met.sys_errno() == EFBIG ? Status::ok() : met;
}

// Bytes that are staged already stay so; flush and close report their failure.
bool StagedFile::bypasses_after_failure() const {
    if (log_.failed()) return true;
    if (file_.context.options().on_error != OnError::kThrough || file_.follows()) return false;
    const LockGuard lock(file_.mutex());
    return !file_.outflow.state.failures.first_error().is_ok() &&
           !(file_.group && file_.outflow.state.target.cut_due());
}

// In a shared file all bytes of a record wait for a commit, or none.
bool StagedFile::waits_for_commit(std::uint64_t offset, ByteClass byte_class) const noexcept {
    return byte_class == ByteClass::kMetadata || (file_.group && offset < file_.group->target().committed_size());
}

// As many small parts as fit go into one record.
Status StagedFile::stage_parts(std::span<const Part> parts, ByteClass byte_class) {
    while (!parts.empty()) {
        if (parts.front().bytes.empty()) {
            parts = parts.subspan(1);
            continue;
        }
        if (parts.front().bytes.size() > kSharedRecordMax || parts.size() == 1) {
            FOREBAY_TRY(stage_part(parts.front().offset, parts.front().bytes, byte_class));
            parts = parts.subspan(1);
            continue;
        }
        const auto room = log_.make_room(parts.front().bytes.size(), log::SegmentPool::Take::kAny);
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
        if (count == 0) FOREBAY_TRY(stage_part(parts.front().offset, parts.front().bytes, byte_class));
        else if (!append(parts.first(count), byte_class)) return write_after_fault(parts);
        parts = parts.subspan(std::max<std::size_t>(count, 1));
    }
    return Status::ok();
}

// Returns the part of the range that may bypass the log, as the target is as fast. Empty: all of it is staged.
ByteRange StagedFile::part_to_bypass(ByteRange range, ByteClass byte_class) const noexcept {
    constexpr ByteRange kNothing{0, 0};
    // A write to a target that hangs could not be called back.
    if (byte_class != ByteClass::kRaw || file_.durable || file_.several_nodes || file_.outflow.state.facts.may_hang() ||
        range.size() < kBypassMin || !file_.memory_pace())
        return kNothing;
    ByteRange part = range;
    if (file_.follows()) {
        if (range.begin < file_.group->target().committed_size()) return kNothing;
        part = file_.group->target().first_unstaged(range);
        if (!file_.group->lost().is_ok()) return kNothing;
    } else if (range.begin < file_.sizes.committed) {
        return kNothing;
    }
    part.end = std::min(part.end, part.begin + kBypassMax);
    return part.size() >= kBypassMin ? part : kNothing;
}

// The part is as `part_to_bypass` says.
Status StagedFile::bypass_fast(const Part& part) {
    const std::uint64_t begin_ns = monotonic_ns(), cpu_ns = thread_cpu_ns();
    FOREBAY_TRY(file_.follows() ? bypass_beside_others({&part, 1}, Place::kNeverStaged)
                                : bypass(part.offset, part.bytes));
    const std::uint64_t took_ns = monotonic_ns() - begin_ns, used_ns = thread_cpu_ns() - cpu_ns;
    // Writers of a file take turns and share the processors. Any longer time was a wait for the target.
    const std::uint64_t writers = file_.group ? file_.group->participants() : 1;
    if (took_ns <= kPatient * writers * used_ns) return Status::ok();
    const LockGuard lock(file_.mutex());
    file_.outflow.state.facts.forget_pace();
    if (file_.group) file_.group->target().set_memory_pace(std::nullopt);   // until the drain finds it fast again
    return Status::ok();
}

Status StagedFile::stage_part(std::uint64_t offset, io::Bytes bytes, ByteClass byte_class) {
    bool refused = false;
    while (!bytes.empty()) {
        const ByteRange bypassed = refused ? ByteRange{0, 0}
                                           : part_to_bypass({offset, offset + bytes.size()}, byte_class);
        if (bypassed.begin == offset && !bypassed.empty()) {
            // The log gains nothing if its pages are cold, or if the program leaves no time to drain it.
            const bool pays = file_.context.spare_time().suffices_for(bypassed.size(), file_.memory_pace().value_or(0),
                                                                      file_.context.options().size);
            const auto room = pays ? log_.make_room(bypassed.size(), log::SegmentPool::Take::kWarm) : 0;
            if (!room) return room.status();
            const Part part{offset, bytes.first(bypassed.size())};
            // After a failure, these bytes and the rest of the call are staged, and the drain's policy handles them.
            refused = room.value() == 0 && !bypass_fast(part);
            if (room.value() == 0 && !refused) {
                offset += part.bytes.size();
                bytes = bytes.subspan(part.bytes.size());
                continue;
            }
        }
        const auto room = log_.make_room(bytes.size(), log::SegmentPool::Take::kAny);
        if (!room) return room.status();
        if (room.value() == 0 && file_.follows()) {
            const Part part{offset, bytes};
            return bypass_beside_others({&part, 1});
        }
        if (room.value() == 0) return bypass(offset, bytes);

        // The next record begins at a page of the program's buffer, which copies faster.
        const std::size_t fits = room.value() >= kPage ? room.value() / kPage * kPage : room.value();
        std::size_t taken = std::min<std::size_t>(bytes.size(), fits);
        if (bypassed.begin > offset) taken = std::min<std::uint64_t>(taken, bypassed.begin - offset);
        if (file_.group && byte_class == ByteClass::kRaw && offset < file_.group->target().committed_size())
            taken = std::min<std::uint64_t>(taken, file_.group->target().committed_size() - offset);
        const Part part{offset, bytes.first(taken)};
        if (!append({&part, 1}, byte_class)) {
            const Part rest{offset, bytes};
            return write_after_fault({&rest, 1});
        }
        offset += part.bytes.size();
        bytes = bytes.subspan(part.bytes.size());
    }
    return Status::ok();
}

// Appends one record, for which there is room. Returns false if the log has failed and does not have it.
bool StagedFile::append(std::span<const Part> parts, ByteClass byte_class) {
    const bool waits = waits_for_commit(parts.front().offset, byte_class);
    const auto data_class = waits ? log::DataClass::kMetadata : log::DataClass::kRaw;
    const std::uint64_t sequence = file_.next_sequence();
    group::DrawnNumber drawn(file_.order());
    // First: a process that looks for a range in which nothing is staged must not miss these bytes.
    if (file_.group && !file_.several_nodes) file_.group->target().note_staged(parts);
    if (file_.group && !file_.group->lost().is_ok()) return false;
    const std::uint64_t now = realtime_ns();
    const auto position = file_.log->append_data(parts, data_class, sequence, now);
    if (position.segment == nullptr) return false;
    if (const auto pace = file_.memory_pace())
        for (const Part& part : parts) file_.context.spare_time().spend(part.bytes.size(), *pace);
    const index::StagedPlace staged{position.segment, position.offset, sequence,
                                    static_cast<std::uint32_t>(position.segment->own_generation), data_class};
    if (file_.group && file_.group->drains()) {
        append_own(parts, {parts.size(), staged, waits, now});
        drawn.forget();
        return true;
    }
    std::uint64_t bytes = 0;
    bool drain_now = false;
    {
        const LockGuard lock(file_.mutex());
        if (position.segment->first_time_ns == 0) position.segment->first_time_ns = now;
        for (const Part& part : parts) {
            const ByteRange range{part.offset, part.offset + part.bytes.size()};
            if (!file_.group)
                file_.bytes.index().insert(range, staged.advanced(bytes), waits ? kOffsetMax : file_.sizes.committed,
                                           file_.sizes.committed);
            file_.sizes.logical = std::max(file_.sizes.logical, range.end);
            bytes += range.size();
        }
        drawn.publish();
        file_.progress.dirty = true;
        add(file_.counters->staged, bytes);
        file_.update_ledger();
        // Otherwise the end of a target write looks again: waking a thread costs as much as a small write.
        drain_now = !file_.group && file_.outflow.state.planner.wants_thread();
    }
    if (file_.group) file_.group->log().appended(parts);
    if (drain_now) file_.outflow.wake();
    return true;
}

// The log takes no more records. The other processes of a shared file would not learn of a direct write.
Status StagedFile::write_after_fault(std::span<const Part> parts) {
    if (file_.group) return log_.failure().with_context("write to " + file_.name.path);
    FOREBAY_TRY(log_.give_up());
    for (const Part& part : parts)
        if (!part.bytes.empty()) FOREBAY_TRY(bypass(part.offset, part.bytes));
    return Status::ok();
}

// The drainer's part of appending a record. It does not wait for other threads that use the index.
void StagedFile::append_own(std::span<const Part> parts, const index::OwnRecords::Record& record) {
    std::uint64_t bytes = 0;
    for (const Part& part : parts) bytes += part.bytes.size();
    // With several nodes, other nodes wait for these bytes, so they drain at once.
    const bool drain_now = file_.own_records().note(parts, record,
                                                    file_.several_nodes ? 1 : file_.outflow.state.facts.stripe());
    file_.group->order().published();
    add(file_.counters->staged, bytes);
    // The bytes count as pending before the return: no later call may correct the gauge for an indexed record.
    file_.counters->pending.fetch_add(bytes, std::memory_order_relaxed);
    if (file_.own_records().bytes() == 0) {
        const LockGuard lock(file_.mutex());
        file_.update_ledger();
    }
    if (file_.several_nodes) file_.group->log().appended(parts);
    if (drain_now) file_.outflow.wake();
}

}   // namespace forebay::stage
