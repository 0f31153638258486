#include "cache/cached_file.h"

#include <utility>

#include "base/attempt.h"
#include "cache/attached_replica.h"
#include "cache/small_copy.h"
#include "io/process_lock.h"

namespace forebay::cache {

namespace {

Status refuse_writing(const std::string& name) {
    return {Code::kUnsupported, "a file that is read through the cache cannot be written: " + name};
}

}   // namespace

CachedFile::CachedFile(std::shared_ptr<io::File> source, std::shared_ptr<Replica> replica, task::Engine& tasks,
                       const CachePolicy& policy, std::shared_ptr<Peers> peers)
    : ForwardingFile(source),
      counters_(std::make_shared<CacheCounters>()),
      made_(std::make_unique<AttachedReplica>(std::make_shared<CachedFileState>(
          std::move(source), std::move(replica), tasks, policy, std::move(peers), counters_))),
      attached_(made_.get()),
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
    if (AttachedReplica* const replica = attached()) replica->close();
}

void CachedFile::read_by(std::unique_ptr<SmallCopy> copy) noexcept {
    small_ = std::move(copy);
    counters_->settle(Aside::kNone);
}

// The thread whose read shows that caching pays makes the replica. Other threads read on.
Result<std::size_t> CachedFile::read_on_trial(std::uint64_t offset, io::MutableBytes into) {
    if (early_.load(std::memory_order_relaxed) && early_.exchange(false) && io::forks_so_far() == forks_)
        if (AttachedReplica* const replica = attach(Cause::kThere)) return replica->reader().read(offset, into);
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

AttachedReplica* CachedFile::attach(Cause cause) noexcept {
    std::unique_lock lock(attaching_, std::defer_lock);
    if (cause == Cause::kWanted) lock.lock();
    else if (!lock.try_lock()) return nullptr;   // another thread attaches
    if (AttachedReplica* const replica = attached()) return replica;
    Opened opened{.replica = nullptr, .why = Aside::kFault};
    const Status done = attempt([&] {
        opened = attach_(cause);
        if (opened.replica == nullptr) return;
        made_ = std::make_unique<AttachedReplica>(std::make_shared<CachedFileState>(
            source_, std::move(opened.replica), *tasks_, opened.policy, std::move(opened.peers), counters_));
    });
    if (done && made_ != nullptr) {
        counters_->settle(Aside::kNone);
        attached_.store(made_.get(), std::memory_order_release);
        return made_.get();
    }
    counters_->settle(done ? opened.why : Aside::kFault);
    if (opened.why != Aside::kYoung && opened.why != Aside::kOnce) refused_.store(true, std::memory_order_relaxed);
    return nullptr;
}

AttachedReplica* CachedFile::attach() noexcept {
    AttachedReplica* const now = attached();
    return now != nullptr || io::forks_so_far() != forks_ ? now : attach(Cause::kWanted);
}

Result<std::size_t> CachedFile::read_at(std::uint64_t offset, io::MutableBytes into) {
    if (AttachedReplica* const replica = attached()) return replica->reader().read(offset, into);
    return read_on_trial(offset, into);
}

Result<std::uint64_t> CachedFile::size() {
    const auto known = attached() == nullptr && small_ != nullptr ? small_->size() : std::nullopt;
    return known ? Result<std::uint64_t>(*known) : ForwardingFile::size();
}

void CachedFile::look_again() {
    if (AttachedReplica* const replica = attached()) replica->look_again();
    else if (small_ != nullptr) small_->look_again(*source_, *counters_);
}
Status CachedFile::write_at(std::uint64_t, io::Bytes) { return refuse_writing(name()); }
Status CachedFile::write_gather_at(std::uint64_t, std::span<const io::Bytes>) { return refuse_writing(name()); }
Status CachedFile::resize(std::uint64_t) { return refuse_writing(name()); }
Status CachedFile::allocate(std::uint64_t, std::uint64_t) { return refuse_writing(name()); }
Status CachedFile::punch(std::uint64_t, std::uint64_t) { return refuse_writing(name()); }

const CacheCounters& CachedFile::counters() const noexcept { return *counters_; }
void CachedFile::count_into(area::ReadTally& tally) noexcept { counters_->count_into(tally); }

void CachedFile::await_stored() {
    if (AttachedReplica* const replica = attached()) replica->await_stored();
}

}   // namespace forebay::cache
