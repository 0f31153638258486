// Fetches parts of a known order into memory, when the cache has no room.
#include <algorithm>

#include "base/attempt.h"
#include "cache/prefetcher.h"

namespace forebay::cache {

namespace {

constexpr std::size_t kOvertakenMax = 64;   // ranges of the queue that a read searches for its own

}   // namespace

// Runs in a task. May throw std::bad_alloc.
void Prefetcher::fetch_into_memory(Taken& taken) {
    const ByteRange range = taken.fetched;
    for (std::uint64_t at = range.begin; at < range.end && !file_->budget.is_closed() && !file_->replica->unusable();) {
        (void)Replica::revive(file_->replica, at);
        const std::uint64_t gap_end = file_->replica->end_of_gap(at,
                                                                 std::min(range.end, file_->peers.end_of_claim(at)));
        if (gap_end == at) {
            at = std::min(range.end, block_floor(at) + kBlockBytes);
            continue;
        }
        const ByteRange part = file_->buffer.begin_fetch(taken.room, {at, gap_end}, taken.piece.range);
        if (!part.empty()) fetch_ahead_of_read(part);
        at = part.empty() ? gap_end : part.end;
    }
}

// The version is compared after the read, as for stored bytes.
void Prefetcher::fetch_ahead_of_read(ByteRange part) noexcept {
    std::vector<std::byte> bytes;
    bool whole = false;
    (void)attempt([&] {
        bytes.resize(part.size());
        const auto got = fetcher_->read_whole(file_->peers.servers(), part, {}, bytes);
        whole = got && got.value() == part.size() && file_->version.is_still_source();
    });
    if (!whole) return file_->buffer.give_up(part.begin);
    file_->unread.note_fetched(part);
    file_->buffer.hand_over(part.begin, std::move(bytes));
}

// The queue has the order of reads, so the range is near its beginning.
void Prefetcher::overtake(ByteRange range) noexcept {
    {
        const std::lock_guard lock(mutex_);
        if (wanted_.empty() && !file_->buffer.active()) return;
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
    file_->buffer.note_passed(range);
    resume();
}

void Prefetcher::resume() noexcept {
    if (paused_.load()) (void)attempt([&] { start_prefetchers(); });
}

}   // namespace forebay::cache
