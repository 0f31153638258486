// Fetches parts of a known order into memory, when the cache has no room.
#include <algorithm>
#include <chrono>

#include "base/attempt.h"
#include "cache/cached_file_core.h"

namespace forebay::cache {

namespace {

constexpr std::size_t kOvertakenMax = 64;   // ranges of the queue that a read searches for its own

}   // namespace

bool CachedFile::Core::buffers() const noexcept {
    return full_.load() && !closing_.load() && !replica_->unusable() &&
           fast_bytes_left_.load(std::memory_order_relaxed) == 0 && buffer_.pays();
}

// Widens a piece to whole blocks for servers, and if it may be stored because it is read again. Needs the mutex.
ByteRange CachedFile::Core::widened(ByteRange piece) const noexcept {
    const std::uint64_t size = replica_->source().size;
    const ByteRange whole = whole_blocks(piece, size);   // uses of adjoining ranges do not count
    const std::uint64_t unit = whole.begin / kUnitBytes;
    if (servers_ == nullptr && !uses_.is_reused(unit, touched_blocks(unit, whole))) return piece;
    return {block_floor(piece.begin), std::min(size, block_floor(piece.end + kBlockBytes - 1))};
}

// Runs in a task. May throw std::bad_alloc.
void CachedFile::Core::fetch_into_memory(Taken& taken) {
    const ByteRange range = taken.fetched;
    for (std::uint64_t at = range.begin; at < range.end && !closing_.load() && !replica_->unusable();) {
        (void)Replica::revive(replica_, at);
        const std::uint64_t gap_end = replica_->end_of_gap(at, std::min(range.end, end_of_claim(at)));
        if (gap_end == at) {
            at = std::min(range.end, block_floor(at) + kBlockBytes);
            continue;
        }
        const ByteRange part = buffer_.begin_fetch(taken.room, {at, gap_end}, taken.piece.range);
        if (!part.empty()) fetch_ahead_of_read(part);
        at = part.empty() ? gap_end : part.end;
    }
}

// The version is compared after the read, as for stored bytes.
void CachedFile::Core::fetch_ahead_of_read(ByteRange part) noexcept {
    std::vector<std::byte> bytes;
    bool whole = false;
    (void)attempt([&] {
        bytes.resize(part.size());
        const auto got = read_whole(servers_.get(), part, {}, bytes);
        whole = got && got.value() == part.size() && is_still_source();
    });
    if (!whole) return buffer_.give_up(part.begin);
    unread_.note_fetched(part);
    buffer_.hand_over(part.begin, std::move(bytes));
}

// Waits for a byte that is being fetched, no longer than reading the source would take.
std::size_t CachedFile::Core::read_buffer(const std::shared_ptr<Core>& self, std::uint64_t offset,
                                          io::MutableBytes into) noexcept {
    AheadBuffer::Part part = buffer_.read(offset, into);
    if (part.bytes == 0) {
        if (buffer_.await(offset, std::chrono::nanoseconds(patience_ns())))
            counters.waits.fetch_add(1, std::memory_order_relaxed);
        part = buffer_.read(offset, into);   // it may have arrived in between
    }
    if (part.bytes == 0) return 0;
    unread_.note_read({offset, offset + part.bytes});
    if (part.dropped != nullptr) keep(self, part.begin, std::move(part.dropped));
    resume(self);
    return replica_->unusable() ? 0 : part.bytes;   // void by now: the bytes may be of another version
}

// A read takes `range` from the file. The queue has the order of reads, so the range is near its beginning.
void CachedFile::Core::overtake(const std::shared_ptr<Core>& self, ByteRange range) noexcept {
    {
        const std::lock_guard lock(mutex_);
        if (wanted_.empty() && !buffer_.active()) return;
        const std::size_t looked_at = std::min(wanted_.size(), kOvertakenMax);
        for (std::size_t i = 0; i < looked_at; ++i) {
            ByteRange& queued = wanted_[i].range;
            const ByteRange both = queued.intersect(range);
            if (both.empty() || (both.begin != queued.begin && both.end != queued.end)) continue;
            wanted_bytes_ -= both.size();
            if (both.begin == queued.begin) queued.begin = both.end;
            else queued.end = both.begin;
            break;   // a second occurrence is a second read
        }
    }
    buffer_.note_passed(range);
    resume(self);
}

void CachedFile::Core::resume(const std::shared_ptr<Core>& self) noexcept {
    if (paused_.load()) (void)attempt([&] { start_prefetchers(self); });
}

}   // namespace forebay::cache
