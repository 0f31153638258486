#include <algorithm>

#include "base/attempt.h"
#include "cache/cached_file_core.h"

namespace forebay::cache {

namespace {

constexpr std::size_t kPrefetchers = 2;   // requests under way
constexpr std::size_t kPrefetchRangesMax = 1 << 20;

}   // namespace

Status CachedFile::Core::prefetch(const std::shared_ptr<Core>& self, std::span<const ByteRange> ranges) {
    if (io::forks_so_far() != forks_) return {Code::kUnavailable, "a forked child does not prefetch"};
    const std::uint64_t size = replica_->source().size;
    {
        const std::lock_guard lock(mutex_);
        if (closing_.load()) return Status::ok();
        if (ranges.size() > kPrefetchRangesMax - wanted_.size())
            return {Code::kNoSpace, "too many ranges wait to be prefetched"};
        for (const ByteRange range : ranges) {
            const ByteRange inside{std::min(range.begin, size), std::min(range.end, size)};
            if (inside.begin >= inside.end) continue;
            wanted_.push_back(inside);
            wanted_bytes_ += inside.size();
        }
    }
    start_prefetchers(self);
    return Status::ok();
}

void CachedFile::Core::start_prefetchers(const std::shared_ptr<Core>& self) {
    for (;;) {
        {
            const std::lock_guard lock(mutex_);
            if (wanted_.empty() || prefetchers_ == kPrefetchers) return;
            ++prefetchers_;
        }
        prefetch_one(self);
    }
}

// Makes a task of one piece; the task makes the next one, so that what the program asks for has its turn in between.
void CachedFile::Core::prefetch_one(const std::shared_ptr<Core>& self) {
    ByteRange piece;
    {
        const std::lock_guard lock(mutex_);
        if (closing_.load() || wanted_.empty()) {
            --prefetchers_;
            return;
        }
        ByteRange& first = wanted_.front();
        piece = {first.begin, std::min(first.end, (first.begin / kFetchMax + 1) * kFetchMax)};
        first.begin = piece.end;
        if (first.empty()) wanted_.pop_front();
        wanted_bytes_ -= piece.size();
        taken_bytes_ += piece.size();
    }
    bool runs = false;
    (void)attempt([&] {
        runs = submit([self, piece] {
            if (self->stores() && !self->replica_->unusable()) (void)attempt([&] { self->fetch_missing(piece); });
            else self->cancel_prefetch();
            {
                const std::lock_guard lock(self->mutex_);
                self->taken_bytes_ -= piece.size();
            }
            self->prefetch_one(self);
            return Status::ok();
        });
    });
    if (runs) return;
    cancel_prefetch();
    const std::lock_guard lock(mutex_);
    taken_bytes_ -= piece.size();
    --prefetchers_;
}

// In a task. What somebody else fetches is left to them.
void CachedFile::Core::fetch_missing(ByteRange piece) {
    const std::uint64_t size = replica_->source().size;
    const std::uint64_t end = std::min(size, block_floor(piece.end + kBlockBytes - 1));
    for (std::uint64_t at = block_floor(piece.begin); at < end && !closing_.load() && !stopped_.load();) {
        (void)Replica::revive(replica_, at);
        const std::uint64_t gap_end = replica_->end_of_gap(at, end);
        if (gap_end == at) {
            at = std::min(end, at + kBlockBytes);
            continue;
        }
        Fetched fetched;
        fetched.offset = at;
        fetched.claims = claim_units({at, gap_end});
        if (fetched.claims.empty()) {
            at = (at / kUnitBytes + 1) * kUnitBytes;
            continue;
        }
        at = std::min(gap_end, (fetched.claims.back().unit() + 1) * kUnitBytes);
        fetch_claimed(fetched, at - fetched.offset);
    }
}

std::uint64_t CachedFile::Core::prefetch_left() const {
    if (io::forks_so_far() != forks_) return 0;
    const std::lock_guard lock(mutex_);
    return closing_.load() ? 0 : wanted_bytes_ + taken_bytes_;
}

void CachedFile::Core::cancel_prefetch() {
    if (io::forks_so_far() != forks_) return;
    const std::lock_guard lock(mutex_);
    wanted_.clear();
    wanted_bytes_ = 0;
}

}   // namespace forebay::cache
