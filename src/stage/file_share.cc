// A staged file that several processes write together (share.h): taking part, and following what others write.
#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "stage/counting.h"
#include "stage/staged_file.h"

namespace forebay::stage {

namespace {

// So many bytes in small pieces wait for their neighbours before they are staged each for itself: no more than this,
// and than this share of the log.
constexpr std::uint64_t kWaitingMax = std::uint64_t{32} << 20;
constexpr std::uint64_t kWaitingShare = 8;

}   // namespace

// Whatever the target has for the range now is newer than any record before this one, of whichever class.
// False: the log has failed, and has no record of it.
bool StagedFile::append_through_locked(ByteRange range, Beside beside) {
    const std::uint64_t sequence = next_sequence();
    DrawnNumber drawn(share_.get());
    if (share_ && !share_->lost().is_ok()) return false;
    const bool supersedes = beside == Beside::kPerhapsStaged;
    const bool recorded = log_->append_through(range, sequence, supersedes);
    if (share_ && recorded) log_->newest()->order.note_through(sequence, supersedes);
    return recorded;
}

// To the target at once, beside the log. What is staged for the same place was drained before it came to
// be used otherwise, or is not drained any more before the close, or was never there; the record tells whoever follows this log to forget
// what it still knows of that, and how long the file is.
Status StagedFile::write_beside_writer(std::span<const Part> parts, Beside beside) {
    for (const Part& part : parts) {
        const ByteRange range{part.offset, part.offset + part.bytes.size()};
        if (range.empty()) continue;
        FOREBAY_TRY(make_marker_room_writer());   // the others have to be told
        const std::uint64_t begin_ns = monotonic_ns();
        {
            const log::WriteBeside under_way(share_->beside());
            FOREBAY_TRY(target_->write_at(part.offset, part.bytes));
        }
        surroundings_.trace(begin_ns, monotonic_ns(), range);
        target_unsynced_ = true;
        add(slot_->through, range.size());
        add(slot_->target_writes, 1);
        const std::lock_guard lock(mutex_);
        if (!append_through_locked(range, beside)) return log_failure().with_context("write to " + path_);
        if (!follows()) {
            index_own_locked();
            index_.drop(range);
            target_size_ = std::max(target_size_, range.end);
        }
        logical_size_ = std::max(logical_size_, range.end);
    }
    return Status::ok();
}

Status StagedFile::take_first_segment() {
    const std::lock_guard writer(writer_);
    if (first_segment_ != nullptr) return Status::ok();
    auto segment = log_->acquire();
    if (!segment) return segment.status().with_context("share " + path_ + " with the other processes of the node");
    first_segment_ = segment.value();
    return Status::ok();
}

void StagedFile::give_back_first_writer() {
    if (first_segment_ != nullptr) surroundings_.pool()->release(std::exchange(first_segment_, nullptr));
}

Status StagedFile::join(std::shared_ptr<Share> share, bool several_nodes) {
    FOREBAY_TRY(take_first_segment());
    const std::lock_guard writer(writer_);
    log::Segment* const segment = std::exchange(first_segment_, nullptr);
    {
        const std::lock_guard lock(mutex_);
        share_ = std::move(share);
        durable_ = share_->durable();
        log_->share(share_->sharing(), durable_);
        several_nodes_ = several_nodes;
        if (several_nodes) committed_size_ = 0;   // all raw data lies beyond: it drains at once
        if (share_->drains()) share_->set_committed_size(committed_size_);
        index_.clear();                           // numbers begin afresh
    }
    if (!adopt_writer(segment)) return log_failure().with_context("share " + path_ + " with the other processes of the node");
    return sync_own_log();
}

void StagedFile::look(bool room_wanted) {
    bool drain_now = false;
    {
        std::unique_lock lock(mutex_);
        try {
            drain_now = look_locked(lock, room_wanted);
        } catch (const std::bad_alloc&) {
            // Nothing is lost: what was not taken in is found again.
        }
        ++completions_;   // somebody may wait to drain what was not complete
        completed_.notify_all();
    }
    if (drain_now) wake();
}

// True if a drain thread is to be woken.
bool StagedFile::look_locked(std::unique_lock<std::mutex>& lock, bool room_wanted) {
    if (state_ != State::kStaged || follows()) return false;
    follow_locked(!room_wanted);
    if (room_wanted) wait_out_pause_locked(lock);   // this thread has nothing else to do
    if (state_ != State::kStaged || !share_) return false;
    if (room_wanted && recycle_durably(lock) && (state_ != State::kStaged || !share_)) return false;
    if (room_wanted && !halted_ && (stalled_locked() || sync_hangs_locked())) keep_error_locked(timed_out_locked());
    if (room_wanted && !halted_) {
        if (index_.ready_empty() && in_flight_.empty() && !resizing_ && !shrink_to_)
            add(slot_->guarantee_given_up, index_.promote_held());
        urgent_ = !index_.ready_empty() || shrink_to_.has_value();
    }
    recycle_locked();
    update_ledger_locked();
    return running_ < concurrency_.allowed() && worth_draining_locked();
}

void StagedFile::look_at_all() {
    {
        const std::lock_guard lock(mutex_);
        if (state_ != State::kStaged || !share_) return;
        all_written_ = true;
    }
    wake();
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
    {
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
    }
    return outcome && durable_ ? sync_given_back() : outcome;
}

Status StagedFile::resize_beside(std::uint64_t size) {
    const std::lock_guard writer(writer_);
    return target_->resize(size);
}

Status StagedFile::note_size(std::uint64_t size) {
    const std::lock_guard writer(writer_);
    if (!follows() && !log_->empty()) {
        FOREBAY_TRY(make_marker_room_writer());
        const std::uint64_t sequence = next_sequence();
        DrawnNumber drawn(share_.get());
        FOREBAY_TRY(share_->lost());
        const bool noted = log_->append_marker(log::RecordKind::kTruncate, size, sequence);
        drawn.publish();
        if (!noted) return log_failure().with_context("set the size of " + path_);
    }
    const std::lock_guard lock(mutex_);
    logical_size_ = target_size_ = size;
    index_.drop({size, kOffsetMax});
    return Status::ok();
}

void StagedFile::guard_target(const std::function<std::shared_ptr<io::File>(std::shared_ptr<io::File>)>& guard) {
    const std::lock_guard writer(writer_);
    const std::lock_guard lock(mutex_);
    target_ = guard(target_);
}

void StagedFile::waited_since(std::uint64_t begin_ns) noexcept {
    const std::lock_guard writer(writer_);
    const std::uint64_t now = monotonic_ns();
    surroundings_.spare_time().enter(begin_ns);
    surroundings_.spare_time().leave(now);
    surroundings_.spare_time().forgive();
    add(slot_->close_ns, now - begin_ns);
}

void StagedFile::count_given_up(std::uint64_t bytes) noexcept { add(slot_->guarantee_given_up, bytes); }

Status StagedFile::go_through(log::AsideReason reason) {
    const std::lock_guard writer(writer_);
    slot_->aside.fetch_or(std::uint64_t{1} << static_cast<unsigned>(reason), std::memory_order_relaxed);
    {
        const std::lock_guard lock(mutex_);
        if (state_ != State::kStaged) return Status::ok();
        index_.clear();
        log_->release_all();
        share_.reset();
        state_ = State::kThrough;
    }
    return durable_ ? sync_given_back() : Status::ok();
}

// The rest of appending a record, for the drainer: others look at the index meanwhile, and nobody waits for them here.
void StagedFile::append_own_writer(std::span<const Part> parts, const OwnRecords::Record& record) {
    std::uint64_t bytes = 0;
    for (const Part& part : parts) bytes += part.bytes.size();
    // Nodes wait for each other's bytes: they go at once.
    const bool drain_now = own_.note(parts, record, several_nodes_ ? 1 : stripe());
    share_->published();
    add(slot_->staged, bytes);
    if (several_nodes_) share_->appended(parts);
    if (drain_now) wake();
}

bool StagedFile::gathered(const log::Segment* segment, std::uint64_t payload) const noexcept {
    return std::binary_search(gathered_.begin(), gathered_.end(), std::pair(segment, payload));
}

// Records of scattered pieces, whose neighbours are written by other processes at about the same time, are staged as
// the runs that they are together (log/gathered.h) where nothing is staged yet. What is not gathered is left for the
// index to take in one by one; what is in the index when memory runs out may come to it once more.
// With `may_wait` false comes back if there is nothing but such records, and not many of them: neighbours may come.
bool StagedFile::gather_locked(bool may_wait) {
    std::vector<log::Gatherer::Record> records;
    std::uint64_t bytes = 0;
    bool others = false;
    const auto offer = [&](std::span<const ByteRange> extents, const StagedBytes& at, std::uint64_t record_bytes, bool waits) {
        if (waits || !log::Gatherer::wants(extents.size(), record_bytes) || extents.front().begin < committed_size_) {
            others = true;
            return;
        }
        records.push_back({extents, at.segment, at.offset, at.sequence, at.generation});
        bytes += record_bytes;
    };
    if (own_.take(own_batch_)) {
        logical_size_ = std::max(logical_size_, own_batch_.end);
        const ByteRange* extent = own_batch_.extents.data();
        for (const OwnRecords::Record& record : own_batch_.records) {
            offer({extent, record.extents}, record.at, record.bytes, record.waits);
            extent += record.extents;
        }
    }
    share_->visit_found([&](const Share::Record& record) {
        const bool waits = record.kind != log::RecordKind::kData || record.data_class != log::DataClass::kRaw;
        offer(record.extents, {record.segment, record.payload, record.sequence, static_cast<std::uint32_t>(record.generation)}, record.bytes, waits);
    });
    if (may_wait && !others && !records.empty() && bytes < std::min(kWaitingMax, surroundings_.options().size / kWaitingShare)) return false;
    if (records.empty()) return true;
    auto runs = gatherer_.gather(records, surroundings_.options().write_max);
    if (!runs || !std::all_of(runs->gathered.begin(), runs->gathered.end(),
                              [this](const auto& run) { return index_.nothing_in(run->range()); }))
        return true;
    gathered_.reserve(records.size());
    for (auto& run : runs->gathered) index_.insert(std::move(run));
    for (const auto& [range, record, payload] : runs->loose) {
        const auto& from = records[record];
        index_.insert_unless_newer(range, {from.segment, payload, from.sequence, from.generation},
                                   committed_size_, committed_size_);
    }
    for (const auto& record : records) gathered_.emplace_back(record.segment, record.payload);
    std::sort(gathered_.begin(), gathered_.end());
    return true;
}

void StagedFile::index_own_locked() {
    while (own_.take(own_batch_)) index_own_batch_locked();
}

// Can be called again after it has run out of memory: a record that is in the index already replaces itself.
void StagedFile::index_own_batch_locked() {
    for (const ByteRange& extent : own_batch_.extents) logical_size_ = std::max(logical_size_, extent.end);
    dirty_ = true;
    auto extent = own_batch_.extents.begin();
    for (const OwnRecords::Record& record : own_batch_.records) {
        StagedBytes at = record.at;
        if (at.segment->first_time_ns == 0) at.segment->first_time_ns = record.time_ns;
        if (gathered(at.segment, at.offset)) {
            extent += static_cast<std::ptrdiff_t>(record.extents);
            continue;
        }
        for (std::size_t i = 0; i < record.extents; ++i, ++extent) {
            index_.insert_unless_newer(*extent, at, record.waits ? kOffsetMax : committed_size_, committed_size_);
            at = at.advanced(extent->size());
        }
    }
    own_.done(own_batch_);
}

// Takes in what others have appended. The drainer finds data and through records: markers are its own. Another one keeps
// everything where a later truncation finds it, held, as it never drains.
void StagedFile::follow_locked(bool may_wait) {
    if (!share_ || state_ != State::kStaged) return;
    const bool drains = share_->drains();
    const auto visit = [&](const Share::Record& record) {
        switch (record.kind) {
            case log::RecordKind::kData: {
                const bool hold = !drains || record.data_class == log::DataClass::kMetadata;
                std::uint64_t payload = record.payload;
                dirty_ = true;
                if (gathered(record.segment, record.payload)) {
                    logical_size_ = std::max(logical_size_, record.extents.back().end);
                    break;
                }
                for (const ByteRange& range : record.extents) {
                    index_.insert_unless_newer(range, {record.segment, payload, record.sequence, static_cast<std::uint32_t>(record.generation), record.data_class},
                                               hold ? kOffsetMax : committed_size_, drains ? committed_size_ : kOffsetMax);
                    logical_size_ = std::max(logical_size_, range.end);
                    payload += range.size();
                }
                break;
            }
            case log::RecordKind::kThrough:
                record.segment->order.note_through(record.sequence, record.argument != log::kSupersedesNothing);
                for (const ByteRange& range : record.extents) index_.drop_older(range, record.sequence);
                if (several_nodes_) break;
                // The target, and with it the file, may be longer now.
                for (const ByteRange& range : record.extents) {
                    logical_size_ = std::max(logical_size_, range.end);
                    if (drains) target_size_ = std::max(target_size_, range.end);
                }
                dirty_ = true;
                break;
            case log::RecordKind::kTruncate:
                if (several_nodes_) index_.drop_older({record.argument, kOffsetMax}, record.sequence);   // the target has been cut
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
    while (!share_->find()) {
        index_.clear();
        share_->restart();
        // What has been released is in the target, whose size tells of the rest.
        if (const auto size = target_->size()) {
            target_size_ = std::max(target_size_, size.value());
            logical_size_ = std::max(logical_size_, size.value());
        }
    }
    if (drains) {
        if (!share_->damage().is_ok() && !halted_) keep_error_locked(share_->damage());
        gathered_.clear();
        if (!gather_locked(may_wait && !urgent_ && !several_nodes_ && !all_written_ && !share_->completeness_awaited())) return;
        // What the others have written after a record of this process has been found after that record was noted.
        index_own_locked();
    }
    share_->visit_found(visit);
    share_->followed();
    gathered_.clear();
    all_written_ = false;
}

}   // namespace forebay::stage
