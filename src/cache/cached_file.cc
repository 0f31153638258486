#include "cache/cached_file.h"

#include <utility>

#include "base/attempt.h"
#include "cache/replica_reader.h"
#include "cache/small_copy.h"
#include "io/process_lock.h"

namespace forebay::cache {

namespace {

Status refuse_writing(const std::string& name) {
    return {Code::kUnsupported, "a file that is read through the cache cannot be written: " + name};
}

Status refuse_uncached(const std::string& name) { return {Code::kUnsupported, name + " has no replica"}; }

}   // namespace

CachedFile::CachedFile(std::shared_ptr<io::File> source, std::shared_ptr<Replica> replica, task::Engine& tasks,
                       const CachePolicy& policy, std::shared_ptr<Peers> peers)
    : ForwardingFile(source),
      counters_(std::make_shared<CacheCounters>()),
      reader_(std::make_unique<ReplicaReader>(std::make_shared<CachedFileState>(
          std::move(source), std::move(replica), tasks, policy, std::move(peers), counters_))),
      live_(reader_.get()),
      forks_(io::forks_so_far()) {}

CachedFile::CachedFile(std::shared_ptr<io::File> source, std::shared_ptr<SharedTrial> trial, task::Engine& tasks,
                       Attach attach, std::uint64_t (*steady_ns)() noexcept)
    : ForwardingFile(source),
      counters_(std::make_shared<CacheCounters>()),
      source_(std::move(source)),
      tasks_(&tasks),
      trial_(std::move(trial)),
      attach_(std::move(attach)),
      steady_ns_(steady_ns),
      forks_(io::forks_so_far()) {
    counters_->settle(trial_ != nullptr ? Aside::kOnce : Aside::kUnsure);
}

CachedFile::~CachedFile() { close(); }

void CachedFile::close() {
    if (ReplicaReader* const reader = live()) reader->close();
}

// ---- on trial --------------------------------------------------------------------------------------

void CachedFile::read_by(std::unique_ptr<SmallCopy> copy) noexcept {
    small_ = std::move(copy);
    counters_->settle(Aside::kNone);
}

// The thread whose read shows that caching pays makes the replica. Other threads read on.
Result<std::size_t> CachedFile::read_on_trial(std::uint64_t offset, io::MutableBytes into) {
    if (early_.load(std::memory_order_relaxed) && early_.exchange(false) && io::forks_so_far() == forks_ &&
        attach(Cause::kThere))
        return reader_->read(offset, into);
    if (small_ != nullptr)
        if (const auto got = small_->read(*source_, *counters_, offset, into)) return *got;
    const std::uint64_t begin_ns = steady_ns_();
    const auto got = source_->read_at(offset, into);
    if (!got || got.value() == 0 || io::forks_so_far() != forks_) return got;
    const std::uint64_t took_ns = steady_ns_() - begin_ns;
    counters_->missed_bytes.fetch_add(got.value(), std::memory_order_relaxed);
    counters_->fetched_bytes.fetch_add(got.value(), std::memory_order_relaxed);
    if (trial_ == nullptr || refused_.load(std::memory_order_relaxed)) return got;
    switch (trial_->note({offset, offset + got.value()}, took_ns)) {
        case Trial::Verdict::kPays: (void)attach(Cause::kPays); break;
        case Trial::Verdict::kFast: counters_->settle(Aside::kFast); break;
        case Trial::Verdict::kUndecided: break;
    }
    return got;
}

bool CachedFile::attach(Cause cause) noexcept {
    std::unique_lock lock(attaching_, std::defer_lock);
    if (cause == Cause::kWanted) lock.lock();
    else if (!lock.try_lock()) return false;   // another thread attaches
    if (live() != nullptr) return true;
    Attached made{.replica = nullptr, .why = Aside::kFault};
    const Status done = attempt([&] {
        made = attach_(cause);
        if (made.replica == nullptr) return;
        reader_ = std::make_unique<ReplicaReader>(std::make_shared<CachedFileState>(
            source_, std::move(made.replica), *tasks_, made.policy, std::move(made.peers), counters_));
    });
    if (done && reader_ != nullptr) {
        counters_->settle(Aside::kNone);
        live_.store(reader_.get(), std::memory_order_release);
        return true;
    }
    counters_->settle(done ? made.why : Aside::kFault);
    if (made.why != Aside::kYoung && made.why != Aside::kOnce) refused_.store(true, std::memory_order_relaxed);
    return false;
}

bool CachedFile::ensure_cached() noexcept {
    if (live() != nullptr) return true;
    return io::forks_so_far() == forks_ && attach(Cause::kWanted);
}

// ---- calls -----------------------------------------------------------------------------------------

Result<std::size_t> CachedFile::read_at(std::uint64_t offset, io::MutableBytes into) {
    if (ReplicaReader* const reader = live()) return reader->read(offset, into);
    return read_on_trial(offset, into);
}

Result<std::uint64_t> CachedFile::size() {
    const auto known = live() == nullptr && small_ != nullptr ? small_->size() : std::nullopt;
    return known ? Result<std::uint64_t>(*known) : ForwardingFile::size();
}

Result<std::size_t> CachedFile::read_version(std::uint64_t offset, io::MutableBytes into) {
    return ensure_cached() ? reader_->read_version(offset, into) : refuse_uncached(name());
}
bool CachedFile::unusable() const noexcept {
    const ReplicaReader* const reader = live();
    return reader != nullptr && reader->state().replica->unusable();
}
std::shared_ptr<Replica> CachedFile::replica_to_keep() const {
    const ReplicaReader* const reader = live();
    return reader != nullptr && reader->state().policy.outlives_close ? reader->state().replica : nullptr;
}
std::string CachedFile::replica_label() const {
    const ReplicaReader* const reader = live();
    return reader != nullptr ? reader->state().replica->label() : std::string();
}

Result<CachedFile::Exposed> CachedFile::expose() const {
    Exposed exposed{replica_to_keep(), nullptr, nullptr};
    if (exposed.replica == nullptr) return refuse_uncached(name());
    auto bytes = exposed.replica->map_bytes();
    if (!bytes) return bytes.status();
    exposed.bytes = std::move(bytes).value();
    exposed.guard = std::make_unique<io::Replaceable>(exposed.bytes->bytes());
    return exposed;
}

void CachedFile::set_pinned(bool pinned) noexcept {
    if (ensure_cached()) reader_->state().replica->set_pinned(pinned);
}

Result<std::uint64_t> CachedFile::evict() {
    if (live() == nullptr) return std::uint64_t{0};
    const std::shared_ptr<Replica>& replica = reader_->state().replica;
    std::uint64_t bytes = 0;
    for (std::uint64_t unit = 0; unit < replica->units(); ++unit) {
        if (!replica->has_any(unit)) continue;
        const auto claim = Replica::claim(replica, unit);
        if (!claim) continue;
        const auto evicted = replica->evict(*claim);
        if (!evicted) return evicted.status();
        bytes += evicted.value();
    }
    return bytes;
}

const Version& CachedFile::version() const noexcept { return reader_->state().replica->source(); }
bool CachedFile::join(std::shared_ptr<Peers> peers) noexcept {
    ReplicaReader* const reader = live();
    return reader != nullptr && reader->join(std::move(peers));
}
void CachedFile::part() noexcept {
    if (ReplicaReader* const reader = live()) reader->state().peers.part();
}
bool CachedFile::has_peers() const noexcept {
    const ReplicaReader* const reader = live();
    return reader != nullptr && (reader->state().peers.has_servers() || reader->state().peers.has_joined());
}

void CachedFile::look_again() {
    if (ReplicaReader* const reader = live()) reader->state().version.look_again();
    else if (small_ != nullptr) small_->look_again(*source_, *counters_);
}
Status CachedFile::prefetch(std::span<const ByteRange> ranges) {
    if (!ensure_cached()) return refuse_uncached(name());
    Status outcome;
    const Status enough = attempt([&] {
        outcome = reader_->prefetcher().prefetch(ranges, Prefetcher::Order::kOfReads);
    });
    return enough ? outcome : enough;
}
void CachedFile::prefetch_all() noexcept {
    if (ensure_cached()) (void)attempt([&] { reader_->prefetcher().prefetch_all(); });
}
std::uint64_t CachedFile::prefetch_left() const {
    const ReplicaReader* const reader = live();
    return reader != nullptr ? reader->prefetcher().left() : 0;
}
std::uint64_t CachedFile::unread_bytes() const noexcept {
    const ReplicaReader* const reader = live();
    return reader != nullptr ? reader->state().unread.bytes() : 0;
}
void CachedFile::cancel_prefetch() {
    if (ReplicaReader* const reader = live()) reader->prefetcher().cancel();
}

Status CachedFile::write_at(std::uint64_t, io::Bytes) { return refuse_writing(name()); }
Status CachedFile::write_gather_at(std::uint64_t, std::span<const io::Bytes>) { return refuse_writing(name()); }
Status CachedFile::resize(std::uint64_t) { return refuse_writing(name()); }
Status CachedFile::allocate(std::uint64_t, std::uint64_t) { return refuse_writing(name()); }
Status CachedFile::punch(std::uint64_t, std::uint64_t) { return refuse_writing(name()); }

const CacheCounters& CachedFile::counters() const noexcept { return *counters_; }
void CachedFile::count_into(area::ReadTally& tally) noexcept { counters_->count_into(tally); }

void CachedFile::await_stored() {
    if (ReplicaReader* const reader = live()) reader->state().budget.await();
}

}   // namespace forebay::cache
