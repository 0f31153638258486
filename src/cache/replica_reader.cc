#include "cache/replica_reader.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/attempt.h"

namespace forebay::cache {

namespace {

constexpr std::uint64_t kMissMax = 8 << 20;      // of one request whose bytes are stored
constexpr std::uint64_t kJoinedMax = 64 << 10;   // present bytes that are read again with missing ones

}   // namespace

ReplicaReader::ReplicaReader(std::shared_ptr<CachedFileState> file, std::shared_ptr<SourceFetcher> fetcher,
                             std::shared_ptr<UnitReplacement> replacement,
                             std::shared_ptr<Prefetcher> prefetcher) noexcept
    : file_(std::move(file)),
      fetcher_(std::move(fetcher)),
      replacement_(std::move(replacement)),
      prefetcher_(std::move(prefetcher)) {}

// All bytes are of one version: bytes of the replica and of the file agree, or all come from the file.
Result<std::size_t> ReplicaReader::read(std::uint64_t offset, io::MutableBytes into) {
    const std::uint64_t size = file_->size();
    if (offset >= size || file_->replica->unusable() || file_->speed.passes_by()) {
        if (file_->buffer.active() && file_->replica->unusable()) prefetcher_->cancel();
        return fetcher_->read_source(offset, into);
    }
    if (file_->admission.is_forked()) return read_forked(offset, into);
    if (!look_if_due()) {
        file_->counters->step_aside(Aside::kUnsure);
        return fetcher_->read_source(offset, into);
    }
    replacement_->note_read({offset, std::min<std::uint64_t>(size, offset + into.size())});
    if (file_->peers.has_joined()) file_->peers.help();
    ReadOrigin from;
    const std::uint64_t remote = file_->counters->remote_bytes.load(std::memory_order_relaxed);
    const std::uint64_t end = std::min<std::uint64_t>(size, offset + into.size());
    auto got = read_known(offset, into.first(end - offset), from);
    if (!got) return got;
    if (offset + into.size() > end && got.value() == end - offset) {   // it may be longer now
        const auto rest = fetcher_->read_source(end, into.subspan(end - offset));
        if (!rest) return rest;
        from.file = from.file || rest.value() > 0;
        got = end - offset + rest.value();
    }
    const bool kept = from.kept + from.ahead > 0 ||
                      file_->counters->remote_bytes.load(std::memory_order_relaxed) != remote;
    if (kept && from.file && !file_->version.is_still_source()) return fetcher_->read_source(offset, into);
    file_->counters->hit_bytes.fetch_add(from.kept, std::memory_order_relaxed);
    if (from.ahead > 0) {
        file_->counters->missed_bytes.fetch_add(from.ahead, std::memory_order_relaxed);
        file_->counters->ahead_bytes.fetch_add(from.ahead, std::memory_order_relaxed);
    }
    return got;
}

// A thread of the parent may have held a lock of the replica, or of the buffer.
Result<std::size_t> ReplicaReader::read_forked(std::uint64_t offset, io::MutableBytes into) {
    CacheCounters& counters = *file_->counters;
    counters.step_aside(Aside::kForked);
    if (offset + into.size() > file_->size()) return fetcher_->read_source(offset, into);
    const std::uint64_t remote = counters.remote_bytes.load(), fetched = counters.fetched_bytes.load();
    auto got = fetcher_->read_unstored(offset, into);
    if (!got || counters.remote_bytes.load() == remote || counters.fetched_bytes.load() == fetched) return got;
    const auto state = file_->source->state(io::File::Ask::kTimes);   // some bytes are from servers, others are not
    return state && file_->version.is_source(state.value()) ? std::move(got) : fetcher_->read_source(offset, into);
}

// Reads a range of the file as of its open. Returns fewer bytes if the file is shorter now.
Result<std::size_t> ReplicaReader::read_known(std::uint64_t offset, io::MutableBytes into, ReadOrigin& from) {
    const std::uint64_t end = offset + into.size();
    bool may_join = !file_->peers.has_servers() && !file_->peers.has_joined();
    for (std::uint64_t at = offset; at < end;) {
        const std::size_t hit = read_replica(at, into.subspan(at - offset));
        file_->unread.note_read({at, at + hit});
        from.kept += hit;
        at += hit;
        if (at == end) break;
        if (file_->replica->take_fault()) file_->counters->step_aside(Aside::kFault);
        if (Replica::revive(file_->replica, at)) continue;
        if (file_->buffer.active())
            if (const std::size_t ahead = read_buffer(at, into.subspan(at - offset)); ahead > 0) {
                from.ahead += ahead;
                at += ahead;
                continue;
            }
        // A block may have come or gone meanwhile. Then the gap is the rest of the block.
        std::uint64_t gap_end = std::max(file_->replica->end_of_gap(at, end),
                                         std::min(end, block_floor(at) + kBlockBytes));
        if (file_->buffer.active()) gap_end = file_->buffer.end_of_gap(at, gap_end);
        // Reads a few present bytes beside the gap from the file too: one version, without a comparison. Not across
        // units, since another thread may fetch the next one.
        if (may_join && offset / kUnitBytes == at / kUnitBytes && end - offset <= kMissMax && !from.file &&
            end - gap_end + (at - offset) <= kJoinedMax) {
            may_join = false;
            from.kept = from.ahead = 0;
            at = offset;
            gap_end = end;
        }
        // A larger gap would exceed the byte budget.
        if (gap_end - at > kMissMax && file_->admission.stores()) gap_end = block_floor(at) + kMissMax;
        gap_end = std::min(gap_end, file_->peers.end_of_claim(at));
        if (file_->admission.is_full()) prefetcher_->overtake({at, gap_end});
        if (prefetcher_->waits_for_age() && file_->admission.stores()) prefetcher_->prefetch_all();
        const auto got = fetcher_->fetch({at, gap_end}, into.subspan(at - offset, gap_end - at), from);
        if (!got) return got;
        if (file_->admission.is_full()) replacement_->keep_read(at, into.subspan(at - offset, got.value()));
        at += got.value();
        if (got.value() == 0) return at - offset;   // the file is shorter now
    }
    return into.size();
}

// Times a few of the reads.
std::size_t ReplicaReader::read_replica(std::uint64_t offset, io::MutableBytes into) {
    if (!file_->speed.times_hit()) return file_->replica->read(offset, into);
    const std::uint64_t begin_ns = file_->policy.steady_ns();
    const std::size_t hit = file_->replica->read(offset, into);
    if (hit > 0) file_->speed.note_hit(hit, file_->policy.steady_ns() - begin_ns);
    return hit;
}

// Compares the version after the read, unless all bytes came from the replica, and that the replica is not void
// (another version).
Result<std::size_t> ReplicaReader::read_version(std::uint64_t offset, io::MutableBytes into) {
    const std::uint64_t missed = file_->counters->missed_bytes.load();
    auto got = read(offset, into);
    if (!got) return got;
    if (!file_->replica->unusable() &&
        file_->counters->missed_bytes.load() != missed) {   // another thread's misses do no harm
        const auto state = file_->source->state(io::File::Ask::kTimes);
        if (!state) return state.status();
        if (!file_->version.is_source(state.value())) file_->replica->make_void();
    }
    if (file_->replica->unusable())
        return Status(Code::kUnavailable,
                      file_->source->name() + ": the file has changed since this process opened it");
    return got;
}

// Returns the number of bytes from `offset` on in the buffer. Waits for a byte being fetched.
std::size_t ReplicaReader::read_buffer(std::uint64_t offset, io::MutableBytes into) noexcept {
    AheadBuffer::Part part = file_->buffer.read(offset, into);
    if (part.bytes == 0) {
        if (file_->buffer.await(offset, std::chrono::nanoseconds(file_->speed.patience_ns())))
            file_->counters->waits.fetch_add(1, std::memory_order_relaxed);
        part = file_->buffer.read(offset, into);   // it may have arrived in between
    }
    if (part.bytes == 0) return 0;
    file_->unread.note_read({offset, offset + part.bytes});
    if (part.dropped != nullptr) replacement_->keep(part.begin, std::move(part.dropped));
    prefetcher_->resume();
    return file_->replica->unusable() ? 0 : part.bytes;   // void by now: the bytes may be of another version
}

bool ReplicaReader::look_if_due() {
    using Due = VersionWatch::Due;
    const Due due = file_->version.due();
    if (due == Due::kNo) return true;
    if (due == Due::kNow) return file_->version.look_again();
    bool begun = false;
    (void)attempt([&] {
        if (!file_->budget.take(1)) return;   // a close waits for the task
        auto waited_for = std::make_shared<PendingBudget::Share>(fetcher_->share(1));
        begun = fetcher_->submit([file = file_, waited_for] {
            if (!file->budget.is_closed()) file->version.look_behind();
            file->version.end_behind();
            return Status::ok();
        });
    });
    if (!begun) file_->version.end_behind();
    return true;
}

}   // namespace forebay::cache
