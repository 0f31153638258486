#include <algorithm>
#include <array>
#include <chrono>

#include "base/attempt.h"
#include "cache/cached_file_core.h"
#include "cache/peer_read.h"

namespace forebay::cache {

namespace {

constexpr std::size_t kPrefetchers = 2;   // requests under way
constexpr std::size_t kPrefetchRangesMax = 1 << 20;
constexpr std::uint64_t kAgainMaxNs = 200'000'000;    // that a piece waits for others, at its second look
constexpr std::chrono::milliseconds kAgainStep{50};   // of it, so that a close is noticed
constexpr std::uint64_t kTellCostNs = 1'000'000;      // what a request takes, where none was timed yet

}   // namespace

Status CachedFile::Core::prefetch(const std::shared_ptr<Core>& self, std::span<const ByteRange> ranges) {
    if (io::forks_so_far() != forks_) return {Code::kUnavailable, "a forked child does not prefetch"};
    const std::uint64_t size = replica_->source().size;
    std::vector<ByteRange> share;
    if (has_peers_.load() && !closing_.load() && stores())
        if (const auto peers = peers_here()) {
            share = share_of(*peers, ranges);
            ranges = share;
        }
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

void CachedFile::Core::prefetch_all(const std::shared_ptr<Core>& self) {
    all_once_old_.store(!stores() && policy_.now_ns() < old_enough_ns_);
    if (all_once_old_.load()) return;
    const std::uint64_t size = replica_->source().size;
    const std::uint64_t first = servers_ != nullptr ? std::min(size, servers_->first_byte()) : 0;
    const std::array<ByteRange, 2> whole{{{first, size}, {0, first}}};   // so that not all nodes begin at one place
    (void)prefetch(self, whole);   // what is not prefetched is fetched when it is asked for
}

std::vector<ByteRange> CachedFile::Core::share_of(Peers& peers, std::span<const ByteRange> ranges) {
    const std::uint64_t size = replica_->source().size;
    const auto cost_ns = [this](std::uint64_t bytes) { return std::max(pace_.cost_ns(bytes), kTellCostNs); };
    std::vector<ByteRange> share;
    PeerRead done;
    for (const ByteRange range : ranges) {
        const ByteRange inside{std::min(range.begin, size), std::min(range.end, size)};
        if (inside.begin >= inside.end) continue;
        const auto own = tell_prefetch(peers, inside, size, cost_ns, done);
        share.insert(share.end(), own.begin(), own.end());
    }
    counters.late_answers.fetch_add(done.late, std::memory_order_relaxed);
    return share;
}

void CachedFile::Core::start_prefetchers(const std::shared_ptr<Core>& self) {
    for (;;) {
        {
            const std::lock_guard lock(mutex_);
            if ((wanted_.empty() && left_out_.empty()) || prefetchers_ == kPrefetchers) return;
            ++prefetchers_;
        }
        prefetch_one(self);
    }
}

// Makes a task of one piece; the task makes the next one, so that what the program asks for has its turn in between.
void CachedFile::Core::prefetch_one(const std::shared_ptr<Core>& self) {
    ByteRange piece;
    bool again = false;
    {
        const std::lock_guard lock(mutex_);
        again = wanted_.empty();
        std::deque<ByteRange>& from = again ? left_out_ : wanted_;
        if (closing_.load() || from.empty()) {
            --prefetchers_;
            return;
        }
        ByteRange& first = from.front();
        piece = {first.begin, std::min(first.end, (first.begin / kFetchMax + 1) * kFetchMax)};
        first.begin = piece.end;
        if (first.empty()) from.pop_front();
        wanted_bytes_ -= piece.size();
        taken_bytes_ += piece.size();
    }
    bool runs = false;
    (void)attempt([&] {
        runs = submit([self, piece, again] {
            if (self->stores() && !self->replica_->unusable())
                (void)attempt([&] { self->fetch_missing(piece, again); });
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

// In a task. Somebody who has a unit may be fetching a few blocks of it only. So what is left of it is looked at again,
// once, after all else.
void CachedFile::Core::fetch_missing(ByteRange piece, bool again) {
    const std::uint64_t size = replica_->source().size;
    const std::uint64_t end = std::min(size, block_floor(piece.end + kBlockBytes - 1));
    const std::uint64_t give_up_ns = policy_.steady_ns() + kAgainMaxNs;
    for (std::uint64_t at = block_floor(piece.begin); at < end && !closing_.load() && !stopped_.load();) {
        (void)Replica::revive(replica_, at);
        const std::uint64_t gap_end = replica_->end_of_gap(at, std::min(end, end_of_claim(at)));
        if (gap_end == at) {
            at = std::min(end, at + kBlockBytes);
            continue;
        }
        Fetched fetched;
        fetched.offset = at;
        const std::uint32_t seen = replica_->arrivals();
        fetched.claims = claim_units({at, gap_end});
        if (fetched.claims.empty() && again && policy_.steady_ns() < give_up_ns) {
            replica_->await(seen, kAgainStep);
            continue;
        }
        if (fetched.claims.empty()) {
            const ByteRange rest{at, std::min(end, (at / kUnitBytes + 1) * kUnitBytes)};
            if (!again) leave_out(rest);
            at = rest.end;
            continue;
        }
        // Whoever had them before may have stored what was missing a moment ago.
        if (replica_->end_of_gap(at, gap_end) != gap_end) continue;
        at = std::min(gap_end, (fetched.claims.back().unit() + 1) * kUnitBytes);
        fetch_claimed(fetched, at - fetched.offset);
    }
}

void CachedFile::Core::leave_out(ByteRange rest) {
    const std::lock_guard lock(mutex_);
    if (left_out_.size() == kPrefetchRangesMax) return;
    left_out_.push_back(rest);
    wanted_bytes_ += rest.size();
}

std::uint64_t CachedFile::Core::prefetch_left() const {
    if (io::forks_so_far() != forks_) return 0;
    const std::lock_guard lock(mutex_);
    return closing_.load() ? 0 : wanted_bytes_ + taken_bytes_ + pending_bytes_;
}

void CachedFile::Core::cancel_prefetch() {
    if (io::forks_so_far() != forks_) return;
    const std::lock_guard lock(mutex_);
    wanted_.clear();
    left_out_.clear();
    wanted_bytes_ = 0;
}

}   // namespace forebay::cache
