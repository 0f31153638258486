#include "cache/cached_file_core.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "cache/peer_read.h"
#include "io/process_lock.h"

namespace forebay::cache {

namespace {

constexpr std::uint64_t kMissMax = 8 << 20;      // of one request whose bytes are stored
constexpr std::uint64_t kJoinedMax = 64 << 10;   // present bytes that are read again with missing ones

}   // namespace

// All bytes are of one version: bytes of the replica and of the file agree, or all come from the file.
Result<std::size_t> CachedFile::Core::read(const std::shared_ptr<Core>& self, std::uint64_t offset,
                                           io::MutableBytes into) {
    const std::uint64_t size = replica_->source().size;
    if (offset >= size || replica_->unusable() || passes_by_.load(std::memory_order_relaxed)) {
        if (buffer_.active() && replica_->unusable()) cancel_prefetch();
        return read_source(offset, into);
    }
    if (io::forks_so_far() != forks_) {   // a thread of the parent may have held a lock of the replica
        step_aside(Aside::kForked);
        return offset + into.size() <= size ? read_unstored(offset, into) : read_source(offset, into);
    }
    look_if_due(self);
    if (ordered_.load(std::memory_order_relaxed)) {
        const std::lock_guard lock(mutex_);
        uses_.note_read({offset, std::min<std::uint64_t>(size, offset + into.size())});
    }
    if (has_peers_.load(std::memory_order_relaxed))
        if (const auto peers = peers_here()) peers->help();
    Sources from;
    const std::uint64_t remote = counters.remote_bytes.load(std::memory_order_relaxed);
    const std::uint64_t end = std::min<std::uint64_t>(size, offset + into.size());
    auto got = read_known(self, offset, into.first(end - offset), from);
    if (!got) return got;
    if (offset + into.size() > end && got.value() == end - offset) {   // it may be longer now
        const auto rest = read_source(end, into.subspan(end - offset));
        if (!rest) return rest;
        from.file = from.file || rest.value() > 0;
        got = end - offset + rest.value();
    }
    const bool kept = from.kept + from.ahead > 0 || counters.remote_bytes.load(std::memory_order_relaxed) != remote;
    if (kept && from.file && !is_still_source()) return read_source(offset, into);
    counters.hit_bytes.fetch_add(from.kept, std::memory_order_relaxed);
    if (from.ahead > 0) {
        counters.missed_bytes.fetch_add(from.ahead, std::memory_order_relaxed);
        counters.ahead_bytes.fetch_add(from.ahead, std::memory_order_relaxed);
    }
    return got;
}

// Reads a range of the file as of its open. Returns fewer bytes if the file is shorter now.
Result<std::size_t> CachedFile::Core::read_known(const std::shared_ptr<Core>& self, std::uint64_t offset,
                                                 io::MutableBytes into, Sources& from) {
    const std::uint64_t end = offset + into.size();
    bool may_join = servers_ == nullptr && !has_peers_.load(std::memory_order_relaxed);
    for (std::uint64_t at = offset; at < end;) {
        const std::size_t hit = read_replica(at, into.subspan(at - offset));
        note_hit(at, hit, from);
        at += hit;
        if (at == end) break;
        if (replica_->take_fault()) step_aside(Aside::kFault);
        if (Replica::revive(replica_, at)) continue;
        if (buffer_.active())
            if (const std::size_t ahead = read_buffer(self, at, into.subspan(at - offset)); ahead > 0) {
                from.ahead += ahead;
                at += ahead;
                continue;
            }
        // A block may have come or gone meanwhile. Then the gap is the rest of the block.
        std::uint64_t gap_end = std::max(replica_->end_of_gap(at, end), std::min(end, block_floor(at) + kBlockBytes));
        if (buffer_.active()) gap_end = buffer_.end_of_gap(at, gap_end);
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
        if (gap_end - at > kMissMax && stores()) gap_end = block_floor(at) + kMissMax;
        gap_end = std::min(gap_end, end_of_claim(at));
        if (full_.load(std::memory_order_relaxed)) overtake(self, {at, gap_end});
        const auto got = fetch(self, {at, gap_end}, into.subspan(at - offset, gap_end - at), from);
        if (!got) return got;
        if (full_.load(std::memory_order_relaxed)) keep_read(self, at, into.subspan(at - offset, got.value()));
        at += got.value();
        if (got.value() == 0) return at - offset;   // the file is shorter now
    }
    return into.size();
}

void CachedFile::Core::note_hit(std::uint64_t offset, std::size_t bytes, Sources& from) noexcept {
    unread_.note_read({offset, offset + bytes});
    from.kept += bytes;
}

// Compares the version after the read, unless all bytes came from the replica, and checks that the replica is not void,
// which means another version.
Result<std::size_t> CachedFile::Core::read_version(const std::shared_ptr<Core>& self, std::uint64_t offset,
                                                   io::MutableBytes into) {
    const std::uint64_t missed = counters.missed_bytes.load();
    auto got = read(self, offset, into);
    if (!got) return got;
    if (!replica_->unusable() && counters.missed_bytes.load() != missed) {   // another thread's misses do no harm
        const auto state = source_->state(io::File::Ask::kTimes);
        if (!state) return state.status();
        if (!is_source(state.value())) replica_->make_void();
    }
    if (replica_->unusable()) return Status(Code::kUnavailable, source_->name() + ": it is another version by now");
    return got;
}

// Reads bytes that this process cannot store now; another node may. No node stores a young file.
Result<std::size_t> CachedFile::Core::read_unstored(std::uint64_t offset, io::MutableBytes into) {
    if (servers_ == nullptr || replica_->unusable() || is_young() ||
        fast_bytes_left_.load(std::memory_order_relaxed) > 0)
        return read_source(offset, into);
    const ByteRange range{offset, offset + into.size()};
    const auto got = read_whole(servers_.get(), range, range, into);
    return got && got.value() == into.size() ? got : read_source(offset, into);
}

Result<std::size_t> CachedFile::Core::read_source(std::uint64_t offset, io::MutableBytes into) {
    const auto got = source_->read_at(offset, into);
    if (got) {
        counters.missed_bytes.fetch_add(got.value(), std::memory_order_relaxed);
        counters.fetched_bytes.fetch_add(got.value(), std::memory_order_relaxed);
        count_down(got.value());
    }
    return got;
}

// Reads missing bytes, and schedules a store if the byte budget allows. Returns fewer bytes if another process brought
// only those, and none if the source ends there.
Result<std::size_t> CachedFile::Core::fetch(const std::shared_ptr<Core>& self, ByteRange missing, io::MutableBytes into,
                                            Sources& from) {
    const bool from_file = std::exchange(from.file, true);
    if (!stores()) return read_unstored(missing.begin, into);
    if (all_once_old_.load(std::memory_order_relaxed)) (void)attempt([&] { prefetch_all(self); });
    const std::uint64_t size = replica_->source().size;
    const std::shared_ptr<Peers> joined = has_peers_.load(std::memory_order_relaxed) ? peers_here() : nullptr;
    Peers* const peers = servers_ != nullptr ? servers_.get() : joined.get();
    const std::uint64_t piece = peers != nullptr ? peers->piece_bytes() : kBlockBytes;
    ByteRange whole{missing.begin / piece * piece, std::min(size, (missing.end + piece - 1) / piece * piece)};
    std::vector<Replica::Claim> claims;
    try {
        claims = claim_units(whole);
    } catch (const std::bad_alloc&) {
        return read_source(missing.begin, into);
    }
    if (claims.empty()) {
        const std::size_t hit = await_others(whole, {into.data(), missing.size()}, missing.begin, claims);
        if (hit > 0) {
            note_hit(missing.begin, hit, from);
            from.file = from_file;
            return hit;
        }
        if (claims.empty()) return read_unstored(missing.begin, into);
    }
    whole.end = std::min(whole.end, (claims.back().unit() + 1) * kUnitBytes);
    if (!take_budget(whole.size())) {
        claims.clear();
        return read_unstored(missing.begin, into);
    }
    std::optional<Fetched> fetched = begin_fetch(self, whole);
    if (!fetched) {
        claims.clear();
        return read_source(missing.begin, into);
    }
    const std::uint64_t to = std::min(whole.end, missing.end);
    const auto got = read_whole(peers, whole, {missing.begin, to}, fetched->bytes);
    if (!got || got.value() < fetched->bytes.size()) {
        fetched->budget.shrink(0);
        claims.clear();
        if (got) {
            step_aside(Aside::kChanged);
            replica_->make_void();
        }
        return read_source(missing.begin, into);   // fails as natively, or is shorter
    }
    std::copy_n(fetched->bytes.begin() + static_cast<std::ptrdiff_t>(missing.begin - whole.begin), to - missing.begin,
                into.begin());
    fetched->claims = std::move(claims);
    submit_store(self, std::move(*fetched));
    read_ahead_after_miss(self, {missing.begin, to}, joined.get());
    if (to == missing.end) return to - missing.begin;
    const auto rest = read_unstored(to, into.subspan(to - missing.begin));
    return rest ? Result<std::size_t>(to - missing.begin + rest.value()) : rest;
}

// Memory for the bytes of `whole`, whose budget is taken. None, with the budget given back: there is no memory.
std::optional<CachedFile::Core::Fetched> CachedFile::Core::begin_fetch(const std::shared_ptr<Core>& self,
                                                                       ByteRange whole) {
    Fetched fetched;
    fetched.budget = Budget(self, whole.size());
    try {
        fetched.offset = whole.begin;
        fetched.bytes.resize(whole.size());
    } catch (const std::bad_alloc&) {
        return std::nullopt;
    }
    return fetched;
}

// Without memory nothing is stored, and the claims end here.
void CachedFile::Core::submit_store(const std::shared_ptr<Core>& self, Fetched fetched) noexcept {
    (void)attempt([&] {
        auto shared = std::make_shared<Fetched>(std::move(fetched));
        submit([self, shared] {
            self->store(*shared);
            return Status::ok();
        });
    });
}

void CachedFile::Core::read_ahead_after_miss(const std::shared_ptr<Core>& self, ByteRange missed, Peers* peers) {
    if (!policy_.read_ahead) return;
    ByteRange ahead;
    {
        const std::lock_guard lock(mutex_);
        ahead = ahead_.after_miss(missed);
    }
    // Without memory nothing is read ahead.
    if (!ahead.empty()) (void)attempt([&] { read_ahead(self, ahead, peers); });
}

// Waits for the owner of the first unit of `whole`, no longer than reading the source takes. Returns the bytes from
// `offset` on that the owner has brought, up to the unit's end. None: the owner fetched another
// part, and `claims` has the unit now; or the owner was too slow, and `claims` is empty.
std::size_t CachedFile::Core::await_others(ByteRange whole, io::MutableBytes into, std::uint64_t offset,
                                           std::vector<Replica::Claim>& claims) {
    const std::uint64_t wait_ns = patience_ns();
    const std::uint64_t unit_end = (offset / kUnitBytes + 1) * kUnitBytes;
    const io::MutableBytes first = into.first(std::min<std::uint64_t>(into.size(), unit_end - offset));
    const std::uint64_t begin_ns = policy_.steady_ns();
    counters.waits.fetch_add(1, std::memory_order_relaxed);
    for (std::uint64_t left_ns = wait_ns;;) {
        const std::uint32_t seen = replica_->arrivals();
        const std::size_t hit = replica_->read(offset, first);
        if (hit > 0) return hit;
        (void)attempt([&] { claims = claim_units(whole); });
        if (!claims.empty() || left_ns == 0) return 0;
        replica_->await(seen, std::chrono::milliseconds(std::max<std::uint64_t>(1, left_ns / 1'000'000)));
        const std::uint64_t waited_ns = policy_.steady_ns() - begin_ns;
        left_ns = waited_ns < wait_ns && replica_->arrivals() != seen ? wait_ns - waited_ns : 0;
    }
}

// Claims the units of `range` from the first on, up to one with another owner.
std::vector<Replica::Claim> CachedFile::Core::claim_units(ByteRange range) const {
    std::vector<Replica::Claim> claims;
    claims.reserve((range.end - 1) / kUnitBytes - range.begin / kUnitBytes + 1);
    for (std::uint64_t unit = range.begin / kUnitBytes; unit * kUnitBytes < range.end; ++unit) {
        auto claim = Replica::claim(replica_, unit);
        if (!claim) break;
        claims.push_back(std::move(*claim));
    }
    return claims;
}

// Reads a miss from other nodes or the source.
Result<std::size_t> CachedFile::Core::read_whole(Peers* peers, ByteRange whole, ByteRange asked,
                                                 io::MutableBytes into) {
    const bool paced = peers != nullptr && peers != servers_.get();   // only the program's thread comes here then
    const auto read_timed = [&](std::uint64_t offset, io::MutableBytes part) {
        const std::uint64_t begin_ns = policy_.steady_ns();
        auto got = source_->read_at(offset, part);
        const std::uint64_t took_ns = policy_.steady_ns() - begin_ns;
        judge(part.size(), took_ns);
        if (paced) pace_.note(part.size(), took_ns);
        return got;
    };
    PeerRead done{.source_bytes = whole.size()};
    Result<std::size_t> got = out_of_memory();
    if (peers == nullptr) {
        got = read_timed(whole.begin, into);
    } else {
        done = {};
        const PeerReadSource source{read_timed, [&](std::uint64_t bytes) { return paced ? pace_.cost_ns(bytes) : 0; },
                                    policy_.steady_ns};
        const Status asked_peers = attempt([&] { got = read_with_peers(*peers, source, whole, asked, into, done); });
        if (!asked_peers) got = asked_peers;
        counters.remote_bytes.fetch_add(done.peer_asked, std::memory_order_relaxed);
        counters.remote_ns.fetch_add(done.peer_ns, std::memory_order_relaxed);
        counters.late_answers.fetch_add(done.late, std::memory_order_relaxed);
    }
    if (!got || got.value() < whole.size()) return got;   // the reader reads again
    counters.missed_bytes.fetch_add(asked.size() - done.peer_asked, std::memory_order_relaxed);
    counters.fetched_bytes.fetch_add(done.source_bytes, std::memory_order_relaxed);
    return got;
}

// The peers that this thread may ask; none in a forked child.
std::shared_ptr<Peers> CachedFile::Core::peers_here() noexcept {
    if (io::forks_so_far() != forks_) return nullptr;
    std::shared_ptr<Peers> peers;
    {
        const std::lock_guard lock(mutex_);
        peers = peers_;
    }
    return peers != nullptr && peers->usable() ? peers : nullptr;
}

bool CachedFile::Core::join(std::shared_ptr<Peers> peers) noexcept {
    const std::lock_guard lock(mutex_);
    if (peers_ != nullptr || servers_ != nullptr) return false;
    ahead_ = ReadAhead(replica_->source().size, peers->first_byte(), policy_.sample_share);
    peers_ = std::move(peers);
    has_peers_.store(true);
    return true;
}

void CachedFile::Core::part() noexcept {
    const std::lock_guard lock(mutex_);
    has_peers_.store(false);
    peers_ = nullptr;
}

// Reads whole pieces; leaves out present blocks and units with other owners.
void CachedFile::Core::read_ahead(const std::shared_ptr<Core>& self, ByteRange range, Peers* peers) {
    const std::uint64_t size = replica_->source().size;
    const std::uint64_t step = peers != nullptr ? peers->piece_bytes() : kBlockBytes;
    for (std::uint64_t at = range.begin / step * step; at < range.end;) {
        const std::uint64_t end = std::min({size, (range.end + step - 1) / step * step, at + kFetchMax,
                                            end_of_claim(at)});
        (void)Replica::revive(replica_, at);
        const std::uint64_t gap_end = replica_->end_of_gap(at, end);
        if (gap_end == at) {
            at = std::min(end, at + step);
            continue;
        }
        if (!has_budget(gap_end - at)) return;
        const ByteRange piece{at, peers != nullptr ? std::min(size, (gap_end + step - 1) / step * step) : gap_end};
        at = piece.end;
        if (peers == nullptr) {
            (void)fetch_ahead(self, piece);
            continue;
        }
        PeerRead done;
        for (const Peers::Run& part : tell_ahead(*peers, piece, pace_.cost_ns(piece.size()), done)) {
            const std::uint64_t to = fetch_ahead(self, part.range);
            // Bytes that this node announced before may be on their way to the replica.
            if (to < part.range.end && part.holder == Peers::kNobody)
                peers->take_back({{to, part.range.end}, part.holder});
        }
        counters.late_answers.fetch_add(done.late, std::memory_order_relaxed);
    }
}

// Returns the end of the bytes that are or were fetched.
std::uint64_t CachedFile::Core::fetch_ahead(const std::shared_ptr<Core>& self, ByteRange piece) {
    if (!take_budget(piece.size())) return piece.begin;
    Budget budget(self, piece.size());
    auto shared = std::make_shared<Fetched>();
    shared->budget = std::move(budget);
    shared->claims = claim_units(piece);
    // A former owner may just have stored missing blocks.
    const std::uint64_t to = shared->claims.empty()
                                 ? piece.begin
                                 : replica_->end_of_gap(piece.begin,
                                                        std::min(piece.end,
                                                                 (shared->claims.back().unit() + 1) * kUnitBytes));
    shared->budget.shrink(to - piece.begin);
    if (to == piece.begin) return to;
    shared->offset = piece.begin;
    const std::uint64_t bytes = to - piece.begin;
    submit([self, shared, bytes] {
        if (!self->closing_.load()) self->fetch_claimed(*shared, bytes);
        return Status::ok();
    });
    return to;
}

// Fetches bytes that no read requested. Runs in a task. May throw std::bad_alloc.
void CachedFile::Core::fetch_claimed(Fetched& fetched, std::uint64_t bytes) {
    fetched.bytes.resize(bytes);
    const auto got = read_whole(servers_.get(), {fetched.offset, fetched.offset + bytes}, {}, fetched.bytes);
    if (!got || got.value() != bytes) return;
    unread_.note_fetched({fetched.offset, fetched.offset + bytes});
    store(fetched);
}

// Cancels the task if there is no thread to run it; the task then gives up its claims. Returns false in that case.
bool CachedFile::Core::submit(std::function<Status()> run) {
    struct Counted {
        std::shared_ptr<TaskCount::Entry> entry;   // first, so it ends last
        std::function<Status()> run;
        Status operator()() const { return run(); }
    };
    const task::Submitted submitted = tasks_.submit({.run = Counted{std::make_shared<TaskCount::Entry>(task_count_),
                                                                    std::move(run)}});
    if (submitted.task && !submitted.has_thread) return !tasks_.cancel(submitted.task);
    return static_cast<bool>(submitted.task);
}

// ---- storing ---------------------------------------------------------------------------------------

// Compares the version after the bytes were read. It was the same at the open, and was old enough then that a change in
// between would show.
void CachedFile::Core::store(Fetched& fetched) {
    if (!stopped_.load() && !replica_->unusable()) {
        const auto state = source_->state(io::File::Ask::kTimes);
        if (!state || !is_source(state.value())) {
            if (state) note_changed();
            else step_aside(Aside::kFault);
            stopped_.store(true);
        } else {
            for (const Replica::Claim& claim : fetched.claims) {
                const Status stored = replica_->store(claim, fetched.offset, fetched.bytes);
                if (stored) continue;
                if (io::lacks_descriptors(stored)) break;   // not now
                step_aside(stored.code() == Code::kNoSpace ? Aside::kFull : Aside::kFault);
                if (stored.code() == Code::kNoSpace) full_.store(true);
                stopped_.store(true);
                break;
            }
            if (!stopped_.load()) counters.stored_bytes.fetch_add(fetched.bytes.size(), std::memory_order_relaxed);
        }
    }
    fetched.claims.clear();
}

bool CachedFile::Core::stores() {
    if (stopped_.load(std::memory_order_relaxed)) return false;
    if (io::forks_so_far() != forks_) {
        step_aside(Aside::kForked);
        return false;
    }
    if (fast_bytes_left_.load(std::memory_order_relaxed) > 0) return false;
    if (is_young()) {
        step_aside(Aside::kYoung);
        return false;
    }
    return true;
}

bool CachedFile::Core::take_budget(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (closing_.load() || pending_bytes_ + buffer_.bytes() + bytes > policy_.budget_bytes) return false;
    if (policy_.shared != nullptr && !policy_.shared->take(bytes)) return false;
    pending_bytes_ += bytes;
    return true;
}

bool CachedFile::Core::has_budget(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    return !closing_.load() && pending_bytes_ + buffer_.bytes() + bytes <= policy_.budget_bytes &&
           (policy_.shared == nullptr || policy_.shared->has(bytes));
}

void CachedFile::Core::give_back_budget(std::uint64_t bytes) {
    if (policy_.shared != nullptr) policy_.shared->give_back(bytes);
    const std::lock_guard lock(mutex_);
    pending_bytes_ -= bytes;
    if (pending_bytes_ == 0) idle_.notify_all();
}

void CachedFile::Core::await_stored() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return pending_bytes_ == 0; });
}

// Stores requested bytes first: a program may open the file for each read. Reads nothing more ahead. Waits a bounded
// time for the source; tasks own their data. A replica that only an open file may use also waits for its tasks, which
// share it. A forked child has no tasks, and its copy of the lock may be locked for ever.
void CachedFile::Core::close() {
    if (io::forks_so_far() != forks_ || closing_.exchange(true)) return;
    buffer_.close();
    const auto until = std::chrono::steady_clock::now() + policy_.close_max;
    {
        std::unique_lock lock(mutex_);
        idle_.wait_until(lock, until, [this] { return pending_bytes_ == 0; });
    }
    if (!policy_.outlives_close) task_count_->await_none(until);
}

}   // namespace forebay::cache
