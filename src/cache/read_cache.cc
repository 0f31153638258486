#include "cache/read_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "area/process.h"
#include "base/attempt.h"
#include "base/clock.h"
#include "io/path.h"
#include "io/spare_descriptors.h"

namespace forebay::cache {

namespace {

constexpr const char* kCacheFolder = "cache";
constexpr std::size_t kThreads = 4;         // two may prefetch
constexpr std::size_t kWrittenMax = 1024;   // files; of more, those that were written first are forgotten
constexpr std::size_t kNamedMax = 1000;     // files that are counted by themselves
// A change of the same size within this time need not show in a file's times: ticks of its file system's clock, and the
// difference of that clock from ours. The longest for which NFS caches attributes, where they are those.
constexpr std::uint64_t kSecond = 1'000'000'000;
// A reader that keeps its file open learns so soon that the file has changed.
constexpr std::uint64_t kLookBehindNs = 5 * kSecond;
// Somebody on this node fetches what another node asks for: reading it twice is worse than waiting. And the other way
// round, for a program.
constexpr std::uint64_t kWaitForOthersNs = 2 * kSecond, kWaitWithPeersNs = kSecond / 50;

constexpr std::uint64_t young_ns(io::TimesKind times) noexcept {
    switch (times) {
        case io::TimesKind::kExact: return 2 * kSecond;
        case io::TimesKind::kServed: return 3 * kSecond;
        case io::TimesKind::kLazy:
        case io::TimesKind::kUnknown: break;
    }
    return 61 * kSecond;
}

// A process may have a descriptor again later, and a folder that is locked is unlocked.
bool passes(const Status& problem) noexcept {
    return !problem && (io::lacks_descriptors(problem) || problem.sys_errno() == EWOULDBLOCK);
}

}   // namespace

static_assert(static_cast<int>(Replacement::kLru) == static_cast<int>(CacheReplacement::kLru));
static_assert(static_cast<int>(Replacement::kLfu) == static_cast<int>(CacheReplacement::kLfu));
static_assert(static_cast<int>(Replacement::kFifo) == static_cast<int>(CacheReplacement::kFifo));
static_assert(static_cast<int>(Replacement::kLifo) == static_cast<int>(CacheReplacement::kLifo));

ReadCache::ReadCache(const Options& options, OpenArea open_area, Manner manner)
    : options_(options),
      trace_(options.trace),
      open_area_(std::move(open_area)),
      manner_(manner),
      tasks_({.threads_max = kThreads}) {}

ReadCache::~ReadCache() = default;

Status ReadCache::open_store() {
    const std::lock_guard lock(store_mutex_);
    if (std::exchange(store_tried_, true) && !passes(store_problem_)) return store_problem_;
    store_problem_ = attempt([&]() -> Status {
        auto area = open_area_();
        FOREBAY_TRY(area.status());
        const auto process = area::identify_this_process();
        FOREBAY_TRY(process.status());
        auto folder = area.value()->create_directory(kCacheFolder);
        if (folder.status().code() == Code::kAlreadyExists) folder = area.value()->open_directory(kCacheFolder);
        FOREBAY_TRY(folder.status());
        const std::string path = folder.value()->name();
        auto store = Store::open({.folder = std::move(folder).value(),
                                  .capacity_bytes = options_.read_cache_size,
                                  .permanent = options_.read_cache_lifetime == CacheLifetime::kPermanent,
                                  .replacement = static_cast<Replacement>(options_.read_cache_replacement),
                                  .boot_id = process.value().boot_id,
                                  .now_ns = realtime_ns,
                                  .keep_free_bytes = options_.size,
                                  .free_bytes = [path]() -> std::uint64_t {
                                      std::error_code failed;
                                      const auto space = std::filesystem::space(path, failed);
                                      return failed ? 0 : space.available;   // in doubt nothing is stored
                                  }});
        FOREBAY_TRY(store.status());
        store_ = std::move(store).value();
        return Status::ok();
    });
    return store_problem_;
}

CacheTotals& ReadCache::of_path(std::map<std::string, CacheTotals>& by_path, const std::string& path) {
    const bool named = by_path.size() < kNamedMax || by_path.contains(path);
    return by_path[named ? path : std::string()];
}

// Without memory a file is counted and not named, here and below.
void ReadCache::leave_alone(io::File& source, Aside why) noexcept {
    const std::lock_guard lock(mutex_);
    ++totals_.asides[static_cast<std::size_t>(why)];
    if (tally_ != nullptr) tally_->aside[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
    (void)attempt([&] { ++of_path(by_path_, source.name()).asides[static_cast<std::size_t>(why)]; });
}

Result<std::shared_ptr<CachedFile>> ReadCache::try_open(const std::shared_ptr<io::File>& source) {
    const io::FileTraits traits = source->traits();
    if (traits.local) {
        leave_alone(*source, Aside::kFast);
        return std::shared_ptr<CachedFile>();
    }
    const auto identity = source->identity();
    const auto state = source->state(io::File::Ask::kOfServer);
    if (!identity || !state || !S_ISREG(state.value().mode) || state.value().size == 0)
        return std::shared_ptr<CachedFile>();
    if (const Status opened = open_store(); !opened) {
        if (!passes(opened)) return opened;
        leave_alone(*source, Aside::kFull);
        return std::shared_ptr<CachedFile>();
    }
    auto replica = store_->replica(version_of(identity.value(), state.value()), io::complete_path(source->name()));
    const bool is_written = replica.status().sys_errno() == EBUSY;
    const bool no_room = replica.status().code() == Code::kNoSpace || replica.status().sys_errno() == EMFILE;
    if (is_written || no_room) {
        leave_alone(*source, is_written ? Aside::kChanged : Aside::kFull);
        return std::shared_ptr<CachedFile>();
    }
    FOREBAY_TRY(replica.status());
    std::shared_ptr<Peers> peers;
    CachePolicy policy = policy_for(traits);
    if (find_peers_ != nullptr)
        peers = find_peers_({replica.value()->source(), io::complete_path(source->name()), replica.value()->label()});
    if (manner_.for_others) policy.wait_min_ns = kWaitForOthersNs;
    else if (peers != nullptr) policy.wait_min_ns = kWaitWithPeersNs;
    auto file = std::make_shared<CachedFile>(io::traced_reads(source, trace_), std::move(replica).value(), tasks_,
                                             policy, std::move(peers));
    if (tally_ != nullptr) {
        file->count_into(*tally_);
        tally_->files.fetch_add(1, std::memory_order_relaxed);
    }
    const std::lock_guard lock(mutex_);
    ++totals_.files;
    return file;
}

CachePolicy ReadCache::policy_for(const io::FileTraits& traits) const noexcept {
    CachePolicy policy{.young_ns = young_ns(traits.times),
                       .now_ns = realtime_ns,
                       .steady_ns = monotonic_ns,
                       .judge_speed = manner_.judge_speed,
                       .read_ahead = !manner_.for_others};
    const std::uint64_t when = options_.revalidate;
    if (when == kRevalidateAlways) policy.look_every_ns = 0;
    else if (when == kRevalidateOpen) policy.look_behind_ns = kLookBehindNs;
    else if (when != kRevalidateNever) policy.look_every_ns = when * kSecond;
    return policy;
}

void ReadCache::prefetch_opened(CachedFile& file) noexcept {
    bool wanted = options_.prefetch == Prefetch::kOpen;
    if (options_.prefetch == Prefetch::kWritten) {
        const std::lock_guard lock(mutex_);
        wanted = std::ranges::find(written_, file.version().identity) != written_.end();
    }
    if (wanted) file.prefetch_all();
}

void ReadCache::opened_again(CachedFile& file) noexcept {
    if (options_.revalidate != kRevalidateNever) (void)attempt([&] { file.look_again(); });
}

std::shared_ptr<CachedFile> ReadCache::open(const std::shared_ptr<io::File>& source, std::string& warning) noexcept {
    if (!options_.read_cache) return nullptr;
    std::shared_ptr<CachedFile> file;
    const Status outcome = attempt([&]() -> Status {
        auto opened = try_open(source);
        FOREBAY_TRY(opened.status());
        file = std::move(opened).value();
        return Status::ok();
    });
    if (outcome) return file;
    const bool lacks = io::lacks_descriptors(outcome);
    if (lacks) (void)io::SpareDescriptors::of_process().give_all_back();
    leave_alone(*source, lacks ? Aside::kFull : Aside::kFault);
    if (lacks) return nullptr;
    const std::lock_guard lock(store_mutex_);
    if (!std::exchange(warned_, true))
        (void)attempt([&] { warning = outcome.message() + " (files are read without the read cache)"; });
    return nullptr;
}

void ReadCache::add(const CachedFile& file, CacheTotals& totals) noexcept {
    const CacheCounters& counters = file.counters();
    const Aside why = counters.aside.load(std::memory_order_relaxed);
    if (why != Aside::kNone) ++totals.asides[static_cast<std::size_t>(why)];
    totals.hit_bytes += counters.hit_bytes.load(std::memory_order_relaxed);
    totals.missed_bytes += counters.missed_bytes.load(std::memory_order_relaxed);
    totals.fetched_bytes += counters.fetched_bytes.load(std::memory_order_relaxed);
    totals.stored_bytes += counters.stored_bytes.load(std::memory_order_relaxed);
    totals.unread_bytes += file.unread_bytes();
    totals.remote_bytes += counters.remote_bytes.load(std::memory_order_relaxed);
    totals.remote_ns += counters.remote_ns.load(std::memory_order_relaxed);
    totals.late_answers += counters.late_answers.load(std::memory_order_relaxed);
}

void ReadCache::note_closed(const CachedFile& file) noexcept {
    const std::lock_guard lock(mutex_);
    add(file, totals_);
    (void)attempt([&] {
        CacheTotals& own = of_path(by_path_, file.name());
        ++own.files;
        add(file, own);
    });
}

std::unique_ptr<io::Lock> ReadCache::begin_writing(io::File& target) noexcept {
    std::unique_ptr<io::Lock> lock;
    if (!options_.read_cache) return lock;
    (void)attempt([&] {
        const auto identity = target.identity();
        if (!identity || target.traits().local || !open_store()) return;
        if (auto begun = store_->begin_writing(identity.value())) lock = std::move(begun).value();
        if (options_.prefetch == Prefetch::kWritten) note_written(identity.value());
    });
    return lock;
}

void ReadCache::note_written(const io::Identity& identity) {
    const std::lock_guard lock(mutex_);
    std::erase(written_, identity);
    if (written_.size() == kWrittenMax) written_.pop_front();
    written_.push_back(identity);
}

CacheTotals ReadCache::totals(std::span<const std::shared_ptr<CachedFile>> open) const {
    CacheTotals totals;
    {
        const std::lock_guard lock(mutex_);
        totals = totals_;
    }
    for (const auto& file : open) add(*file, totals);
    return totals;
}

std::map<std::string, CacheTotals> ReadCache::totals_by_path(std::span<const std::shared_ptr<CachedFile>> open) const {
    std::map<std::string, CacheTotals> by_path;
    {
        const std::lock_guard lock(mutex_);
        by_path = by_path_;
    }
    for (const auto& file : open) {
        CacheTotals& own = of_path(by_path, file->name());
        ++own.files;
        add(*file, own);
    }
    return by_path;
}

}   // namespace forebay::cache
