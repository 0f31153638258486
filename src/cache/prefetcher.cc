#include "cache/prefetcher.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/attempt.h"
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

Prefetcher::Prefetcher(std::shared_ptr<CachedFileState> file, std::shared_ptr<SourceFetcher> fetcher,
                       std::shared_ptr<UnitReplacement> replacement) noexcept
    : file_(std::move(file)), fetcher_(std::move(fetcher)), replacement_(std::move(replacement)) {}

Status Prefetcher::prefetch(std::span<const ByteRange> ranges) noexcept {
    return attempt([&] { return add(ranges, Order::kOfReads); });
}

Status Prefetcher::add(std::span<const ByteRange> ranges, Order order) {
    if (file_->admission.is_forked()) return {Code::kUnavailable, "a forked child does not prefetch"};
    const std::uint64_t size = file_->size();
    if (ranges.size() == 1 && ranges[0].begin == 0 && ranges[0].end >= size) order = Order::kOfFile;
    std::vector<ByteRange> share;
    if (file_->peers.has_joined() && !file_->budget.is_closed() && file_->admission.stores())
        if (const auto peers = file_->peers.joined()) {
            share = share_of(*peers, ranges);
            ranges = share;
        }
    {
        const std::lock_guard lock(mutex_);
        if (file_->budget.is_closed()) return Status::ok();
        if (ranges.size() > kPrefetchRangesMax - wanted_.size())
            return {Code::kNoSpace, "too many ranges wait to be prefetched"};
        for (const ByteRange range : ranges) {
            const ByteRange inside{std::min(range.begin, size), std::min(range.end, size)};
            if (inside.begin >= inside.end) continue;
            wanted_.push_back({inside, order});
            wanted_bytes_ += inside.size();
            if (order == Order::kOfReads) replacement_->add(inside);
        }
        if (order == Order::kOfReads) replacement_->follow_order();
        else any_unordered_ = true;
    }
    start_prefetchers();
    return Status::ok();
}

void Prefetcher::prefetch_all() noexcept {
    all_once_old_.store(!file_->admission.stores() && file_->admission.is_young());
    if (all_once_old_.load()) return;
    const std::uint64_t size = file_->size();
    const std::uint64_t first = std::min(size, file_->peers.first_byte());
    const std::array<ByteRange, 2> whole{{{first, size}, {0, first}}};   // nodes begin at different places
    (void)attempt([&] { return add(whole, Order::kOfFile); });           // the rest is fetched on request
}

std::vector<ByteRange> Prefetcher::share_of(Peers& peers, std::span<const ByteRange> ranges) {
    const std::uint64_t size = file_->size();
    const auto cost_ns = [this](std::uint64_t bytes) {
        return std::max(file_->peers.pace().cost_ns(bytes), kTellCostNs);
    };
    std::vector<ByteRange> share;
    PeerRead done;
    for (const ByteRange range : ranges) {
        const ByteRange inside{std::min(range.begin, size), std::min(range.end, size)};
        if (inside.begin >= inside.end) continue;
        const auto own = tell_prefetch(peers, inside, size, cost_ns, done);
        share.insert(share.end(), own.begin(), own.end());
    }
    file_->counters->late_answers.fetch_add(done.late, std::memory_order_relaxed);
    return share;
}

void Prefetcher::start_prefetchers() {
    do {
        const std::lock_guard lock(mutex_);
        const std::size_t most = file_->admission.is_full() ? kPrefetchersIntoMemory : kPrefetchers;
        if ((wanted_.empty() && left_out_.empty()) || prefetchers_ >= most) return;
        ++prefetchers_;
    } while (prefetch_one());
}

// Submits a task that fetches the next piece and then submits the next task. Returns false if there is no piece; the
// caller then no longer counts as a prefetcher.
bool Prefetcher::prefetch_one() {
    std::shared_ptr<Taken> taken;
    (void)attempt([&] { taken = std::make_shared<Taken>(); });
    if (taken != nullptr) {
        taken->prefetcher = shared_from_this();
        if (!take_piece(*taken)) return false;
        bool runs = false;
        (void)attempt([&] {
            runs = fetcher_->submit([taken] {
                Prefetcher& own = *taken->prefetcher;
                (void)attempt([&] { own.fetch_piece(*taken); });
                taken->room = {};
                {
                    const std::lock_guard lock(own.mutex_);
                    own.taken_bytes_ -= taken->piece.range.size();
                }
                (void)own.prefetch_one();
                return Status::ok();
            });
        });
        if (runs) return true;
    }
    cancel();
    const std::lock_guard lock(mutex_);
    if (taken != nullptr) taken_bytes_ -= taken->piece.range.size();
    --prefetchers_;
    return false;
}

// Returns false if the queue is empty or there is no memory; the prefetcher then no longer counts.
bool Prefetcher::take_piece(Taken& taken) {
    const std::lock_guard lock(mutex_);
    const bool into_memory = file_->admission.is_full();
    if (into_memory) forget_unordered();
    while (!wanted_.empty() && wanted_.front().range.empty()) wanted_.pop_front();   // overtaken
    taken.again = wanted_.empty();
    std::deque<Wanted>& from = taken.again ? left_out_ : wanted_;
    if (file_->budget.is_closed() || from.empty()) {
        --prefetchers_;
        return false;
    }
    Wanted& first = from.front();
    // Several pieces fit into the buffer.
    const std::uint64_t share = file_->buffer.bytes_max() / 4, step = share < kUnitBytes ? kBlockBytes : kUnitBytes;
    const std::uint64_t most = into_memory ? std::clamp(share / step * step, kBlockBytes, kFetchMax) : kFetchMax;
    const ByteRange piece{first.range.begin, std::min(first.range.end, (first.range.begin / most + 1) * most)};
    if (into_memory) {
        // Set it before the check: a read that makes room checks it afterwards.
        paused_.store(true);
        taken.fetched = replacement_->widened(piece);
        taken.room = file_->budget.reserve_ahead(taken.fetched.size());
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
void Prefetcher::fetch_piece(Taken& taken) {
    const Wanted& piece = taken.piece;
    if (taken.room && file_->buffers()) return fetch_into_memory(taken);
    if (file_->admission.stores() && !file_->replica->unusable()) {
        const std::uint64_t begin = std::max(piece.range.begin, fetch_missing(piece, taken.again));
        if (begin < piece.range.end && file_->buffers()) put_back({{begin, piece.range.end}, piece.order});
    } else if (file_->buffers()) {   // changed since it was taken
        put_back(piece);
    } else {
        cancel();
    }
}

// Runs in a task. An owner may fetch only a few blocks of its unit, so the rest is tried once more after all others.
// Returns the end reached: before the piece's end if nothing more can be stored.
std::uint64_t Prefetcher::fetch_missing(Wanted piece, bool again) {
    const std::uint64_t size = file_->size();
    const std::uint64_t end = std::min(size, block_floor(piece.range.end + kBlockBytes - 1));
    const std::uint64_t give_up_ns = file_->policy.steady_ns() + kAgainMaxNs;
    std::uint64_t at = block_floor(piece.range.begin);
    while (at < end && !file_->budget.is_closed() && !file_->admission.is_stopped()) {
        (void)Replica::revive(file_->replica, at);
        const std::uint64_t gap_end = file_->replica->end_of_gap(at, std::min(end, file_->peers.end_of_claim(at)));
        if (gap_end == at) {
            at = std::min(end, at + kBlockBytes);
            continue;
        }
        SourceFetcher::Fetched fetched;
        fetched.offset = at;
        const std::uint32_t seen = file_->replica->arrivals();
        fetched.claims = fetcher_->claim_units({at, gap_end});
        if (fetched.claims.empty() && again && file_->policy.steady_ns() < give_up_ns) {
            file_->replica->await(seen, kAgainStep);
            continue;
        }
        if (fetched.claims.empty()) {
            const ByteRange rest{at, std::min(end, (at / kUnitBytes + 1) * kUnitBytes)};
            if (!again) leave_out({rest.intersect(piece.range), piece.order});
            at = rest.end;
            continue;
        }
        // A former owner may just have stored missing blocks.
        if (file_->replica->end_of_gap(at, gap_end) != gap_end) continue;
        at = std::min(gap_end, (fetched.claims.back().unit() + 1) * kUnitBytes);
        fetcher_->fetch_claimed(fetched, at - fetched.offset);
        if (file_->admission.is_stopped()) return fetched.offset;
    }
    return at;
}

void Prefetcher::leave_out(Wanted rest) {
    const std::lock_guard lock(mutex_);
    if (left_out_.size() == kPrefetchRangesMax) return;
    left_out_.push_back(rest);
    wanted_bytes_ += rest.range.size();
}

void Prefetcher::put_back(Wanted rest) {
    const std::lock_guard lock(mutex_);
    wanted_.push_front(rest);
    wanted_bytes_ += rest.range.size();
}

// Called under the mutex, when nothing more can be stored.
void Prefetcher::forget_unordered() {
    wanted_.insert(wanted_.begin(), left_out_.begin(), left_out_.end());
    left_out_.clear();
    if (!std::exchange(any_unordered_, false)) return;
    std::erase_if(wanted_, [this](const Wanted& one) {
        if (one.order == Order::kOfReads) return false;
        wanted_bytes_ -= one.range.size();
        return true;
    });
}

std::uint64_t Prefetcher::left() const {
    if (file_->admission.is_forked()) return 0;
    const std::lock_guard lock(mutex_);
    return file_->budget.is_closed() || file_->admission.is_full()
               ? 0
               : wanted_bytes_ + taken_bytes_ + file_->budget.bytes();
}

void Prefetcher::cancel() {
    if (file_->admission.is_forked()) return;
    const std::lock_guard lock(mutex_);
    wanted_.clear();
    left_out_.clear();
    wanted_bytes_ = 0;
    replacement_->forget_order();
    file_->buffer.clear();
}

}   // namespace forebay::cache
