#include <algorithm>
#include <array>
#include <chrono>

#include "base/attempt.h"
#include "cache/cached_file_core.h"
#include "cache/peer_read.h"

namespace forebay::cache {

namespace {

constexpr std::size_t kPrefetchers = 2;             // requests in flight
constexpr std::size_t kPrefetchersIntoMemory = 3;   // nothing is stored meanwhile
constexpr std::size_t kPrefetchRangesMax = 1 << 20;
constexpr std::uint64_t kAgainMaxNs = 200'000'000;    // wait of a piece for other owners, at its second look
constexpr std::chrono::milliseconds kAgainStep{50};   // step of that wait, so that a close is noticed
constexpr std::uint64_t kTellCostNs = 1'000'000;      // cost of a request before any was timed

}   // namespace

Status CachedFile::Core::prefetch(const std::shared_ptr<Core>& self, std::span<const ByteRange> ranges, Order order) {
    if (io::forks_so_far() != forks_) return {Code::kUnavailable, "a forked child does not prefetch"};
    const std::uint64_t size = replica_->source().size;
    if (ranges.size() == 1 && ranges[0].begin == 0 && ranges[0].end >= size) order = Order::kOfFile;
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
            wanted_.push_back({inside, order});
            wanted_bytes_ += inside.size();
            if (order == Order::kOfReads) uses_.add(inside);
        }
        if (order == Order::kOfReads) ordered_.store(true);
        else any_unordered_ = true;
    }
    start_prefetchers(self);
    return Status::ok();
}

void CachedFile::Core::prefetch_all(const std::shared_ptr<Core>& self) {
    all_once_old_.store(!stores() && policy_.now_ns() < old_enough_ns_);
    if (all_once_old_.load()) return;
    const std::uint64_t size = replica_->source().size;
    const std::uint64_t first = servers_ != nullptr ? std::min(size, servers_->first_byte()) : 0;
    const std::array<ByteRange, 2> whole{{{first, size}, {0, first}}};   // nodes begin at different places
    (void)prefetch(self, whole, Order::kOfFile);                         // the rest is fetched on request
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
    do {
        const std::lock_guard lock(mutex_);
        const std::size_t most = full_.load() ? kPrefetchersIntoMemory : kPrefetchers;
        if ((wanted_.empty() && left_out_.empty()) || prefetchers_ >= most) return;
        ++prefetchers_;
    } while (prefetch_one(self));
}

// Fetches the next piece in a task, and submits the next task. False: no piece; the prefetcher no longer counts.
bool CachedFile::Core::prefetch_one(const std::shared_ptr<Core>& self) {
    std::shared_ptr<Taken> taken;
    (void)attempt([&] { taken = std::make_shared<Taken>(); });
    if (taken != nullptr) {
        taken->core = self;
        if (!take_piece(*taken)) return false;
        bool runs = false;
        (void)attempt([&] {
            runs = submit([taken] {
                const std::shared_ptr<Core>& core = taken->core;
                (void)attempt([&] { core->fetch_piece(*taken); });
                taken->room = {};
                {
                    const std::lock_guard lock(core->mutex_);
                    core->taken_bytes_ -= taken->piece.range.size();
                }
                (void)core->prefetch_one(core);
                return Status::ok();
            });
        });
        if (runs) return true;
    }
    cancel_prefetch();
    const std::lock_guard lock(mutex_);
    if (taken != nullptr) taken_bytes_ -= taken->piece.range.size();
    --prefetchers_;
    return false;
}

// Returns false if the queue is empty or there is no memory; the prefetcher then no longer counts.
bool CachedFile::Core::take_piece(Taken& taken) {
    const std::lock_guard lock(mutex_);
    const bool into_memory = full_.load();
    if (into_memory) forget_unordered();
    while (!wanted_.empty() && wanted_.front().range.empty()) wanted_.pop_front();   // overtaken
    taken.again = wanted_.empty();
    std::deque<Wanted>& from = taken.again ? left_out_ : wanted_;
    if (closing_.load() || from.empty()) {
        --prefetchers_;
        return false;
    }
    Wanted& first = from.front();
    // Several pieces fit into the buffer.
    const std::uint64_t share = buffer_.bytes_max() / 4, step = share < kUnitBytes ? kBlockBytes : kUnitBytes;
    const std::uint64_t most = into_memory ? std::clamp(share / step * step, kBlockBytes, kFetchMax) : kFetchMax;
    const ByteRange piece{first.range.begin, std::min(first.range.end, (first.range.begin / most + 1) * most)};
    if (into_memory) {
        // Set it before the check: a read that makes room checks it afterwards.
        paused_.store(true);
        taken.fetched = widened(piece);
        const std::uint64_t bytes = taken.fetched.size();
        if (pending_bytes_ + buffer_.bytes() + bytes <= policy_.budget_bytes) taken.room = buffer_.reserve(bytes);
        if (!taken.room) {
            --prefetchers_;
            return false;
        }
        paused_.store(false);
    }
    taken.piece = {piece, first.order};
    first.range.begin = piece.end;
    if (first.range.empty()) from.pop_front();
    wanted_bytes_ -= piece.size();
    taken_bytes_ += piece.size();
    return true;
}

// Runs in a task.
void CachedFile::Core::fetch_piece(Taken& taken) {
    const Wanted& piece = taken.piece;
    if (taken.room && buffers()) return fetch_into_memory(taken);
    if (stores() && !replica_->unusable()) {
        const std::uint64_t begin = std::max(piece.range.begin, fetch_missing(piece, taken.again));
        if (begin < piece.range.end && buffers()) put_back({{begin, piece.range.end}, piece.order});
    } else if (buffers()) {   // changed since it was taken
        put_back(piece);
    } else {
        cancel_prefetch();
    }
}

// Runs in a task. An owner may fetch only a few blocks of its unit, so the rest is tried once more after all others.
// Stops before the piece's end if nothing more can be stored.
std::uint64_t CachedFile::Core::fetch_missing(Wanted piece, bool again) {
    const std::uint64_t size = replica_->source().size;
    const std::uint64_t end = std::min(size, block_floor(piece.range.end + kBlockBytes - 1));
    const std::uint64_t give_up_ns = policy_.steady_ns() + kAgainMaxNs;
    std::uint64_t at = block_floor(piece.range.begin);
    while (at < end && !closing_.load() && !stopped_.load()) {
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
            if (!again) leave_out({rest.intersect(piece.range), piece.order});
            at = rest.end;
            continue;
        }
        // A former owner may just have stored missing blocks.
        if (replica_->end_of_gap(at, gap_end) != gap_end) continue;
        at = std::min(gap_end, (fetched.claims.back().unit() + 1) * kUnitBytes);
        fetch_claimed(fetched, at - fetched.offset);
        if (stopped_.load()) return fetched.offset;
    }
    return at;
}

void CachedFile::Core::leave_out(Wanted rest) {
    const std::lock_guard lock(mutex_);
    if (left_out_.size() == kPrefetchRangesMax) return;
    left_out_.push_back(rest);
    wanted_bytes_ += rest.range.size();
}

void CachedFile::Core::put_back(Wanted rest) {
    const std::lock_guard lock(mutex_);
    wanted_.push_front(rest);
    wanted_bytes_ += rest.range.size();
}

// Called under the mutex, when nothing more can be stored.
void CachedFile::Core::forget_unordered() {
    wanted_.insert(wanted_.begin(), left_out_.begin(), left_out_.end());
    left_out_.clear();
    if (!std::exchange(any_unordered_, false)) return;
    std::erase_if(wanted_, [this](const Wanted& one) {
        if (one.order == Order::kOfReads) return false;
        wanted_bytes_ -= one.range.size();
        return true;
    });
}

std::uint64_t CachedFile::Core::prefetch_left() const {
    if (io::forks_so_far() != forks_) return 0;
    const std::lock_guard lock(mutex_);
    return closing_.load() || full_.load() ? 0 : wanted_bytes_ + taken_bytes_ + pending_bytes_;
}

void CachedFile::Core::cancel_prefetch() {
    if (io::forks_so_far() != forks_) return;
    const std::lock_guard lock(mutex_);
    wanted_.clear();
    left_out_.clear();
    wanted_bytes_ = 0;
    forget_order();
    buffer_.clear();
}

}   // namespace forebay::cache
