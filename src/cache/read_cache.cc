#include "cache/read_cache.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "area/process.h"
#include "area/staging_area.h"
#include "base/attempt.h"
#include "base/clock.h"
#include "cache/attached_replica.h"
#include "cache/replica_files.h"
#include "io/path.h"
#include "io/posix_file.h"
#include "io/process_lock.h"
#include "io/spare_descriptors.h"

namespace forebay::cache {

namespace {

constexpr std::size_t kThreads = 4;                  // two may prefetch
constexpr std::chrono::milliseconds kIdleMax{200};   // then they end, for programs that fork or unshare
constexpr std::size_t kWrittenMax = 1024;            // files; older ones are forgotten
constexpr std::uint64_t kSecond = 1'000'000'000;
// The time after which a reader that keeps its file open learns of a change.
constexpr std::uint64_t kLookBehindNs = 5 * kSecond;
// Without a request of the user: clocks in a cluster differ by seconds, and servers and clients may report old times.
constexpr std::uint64_t kUnaskedYoungNs = 61 * kSecond;
constexpr std::uint64_t kUnaskedSampleShare = 2;
constexpr std::chrono::milliseconds kUnaskedCloseMax{1000};
constexpr std::uint64_t kMapShare = 16;           // of option read_cache_size, for one file's map
constexpr std::uint64_t kPendingMax = 64 << 20;   // bytes read and not stored, of all files
constexpr std::size_t kTrialsMax = 512;           // files whose earlier opens are remembered
constexpr std::size_t kOpenedMax = 1024;          // files that may have a temporal replica to remove at the end
// For another node's program, waiting for a fetch here beats reading twice; for a program here it does not.
constexpr std::uint64_t kWaitForOthersNs = 2 * kSecond, kWaitWithPeersNs = kSecond / 50;

// Changes of equal size may not show in a file's times for so long: clock ticks and differences, NFS caches.
constexpr std::uint64_t young_ns(io::TimesKind times) noexcept {
    switch (times) {
        case io::TimesKind::kExact: return 2 * kSecond;
        case io::TimesKind::kServed: return 3 * kSecond;
        case io::TimesKind::kLazy:
        case io::TimesKind::kUnknown: break;
    }
    return 61 * kSecond;
}

// The validity of a version comparison. 0: only for the call that made it.
std::uint64_t lease_ns(const Options& options) noexcept {
    switch (options.revalidate) {
        case kRevalidateNever: return kOffsetMax;
        case kRevalidateOpen:
        case kRevalidateAlways: return 0;
        default: return options.revalidate * kSecond;
    }
}

}   // namespace

ReadCache::ReadCache(const Options& options, OpenArea open_area, Manner manner)
    : options_(options),
      trace_(options.trace),
      manner_(manner),
      pending_(std::make_shared<SharedBudget>(kPendingMax)),
      leases_(lease_ns(options)),
      forks_(io::forks_so_far()),
      store_(options, std::move(open_area), [this] { kept_.drop_all(); }),
      tasks_({.threads_max = kThreads, .idle_max = kIdleMax}) {}

ReadCache::~ReadCache() { leave_replicas(); }

// `make`: make a replica if there is none of this version. Error: of the staging area, or of this replica.
Result<CachedFile::Opened> ReadCache::open_replica(const Version& version, io::File& source,
                                                   const io::FileTraits& traits, bool make) {
    if (const Status opened = store_.open(); !opened) {
        if (!ProcessStore::passes(opened)) return opened;
        return CachedFile::Opened{.replica = nullptr, .why = Aside::kFull};
    }
    Keeping keeping{.path = io::complete_path(source.name()),
                    .permanent = is_permanent() && traits.sure_versions,
                    .only_in_use = !traits.sure_versions,
                    .make = make};
    if (!keeping.permanent && traits.sure_versions) keeping.parent = area::parent_of_worker();
    auto replica = Result<std::shared_ptr<Replica>>(kept_.take(version));
    if (replica.value() != nullptr) replica.value()->use().note_opened(realtime_ns());
    else replica = store_.store().replica(version, keeping);
    const Status& problem = replica.status();
    if (!make && problem.sys_errno() == ESTALE) return CachedFile::Opened{.replica = nullptr, .why = Aside::kOnce};
    if (problem.sys_errno() == EBUSY) return CachedFile::Opened{.replica = nullptr, .why = Aside::kChanged};
    if (problem.code() == Code::kNoSpace || problem.sys_errno() == EMFILE)
        return CachedFile::Opened{.replica = nullptr, .why = Aside::kFull};
    FOREBAY_TRY(problem);
    CachedFile::Opened opened{.replica = std::move(replica).value(), .policy = policy_for(traits)};
    if (find_peers_ != nullptr)
        opened.peers = find_peers_({opened.replica->source(), io::complete_path(source.name()),
                                    opened.replica->label()});
    if (manner_.for_others) opened.policy.wait_min_ns = kWaitForOthersNs;
    else if (opened.peers != nullptr) opened.policy.wait_min_ns = kWaitWithPeersNs;
    counted_.note_opened();
    return opened;
}

Result<std::shared_ptr<CachedFile>> ReadCache::try_open(const std::shared_ptr<io::File>& source, bool may_share) {
    const io::FileTraits traits = source->traits();
    if (traits.local) {
        counted_.note_aside(source->name(), Aside::kFast);
        return std::shared_ptr<CachedFile>();
    }
    const auto identity = source->identity();
    const std::uint64_t compared_ns = monotonic_ns();
    const bool ask_server = asked() || leases_.enabled();
    const auto state = source->state(ask_server ? io::File::Ask::kOfServer : io::File::Ask::kTimes);
    if (!identity || !state || !S_ISREG(state.value().mode) || state.value().size == 0)
        return std::shared_ptr<CachedFile>();
    // Without times versions look alike.
    if (!traits.sure_versions && (state.value().modified_ns == 0 || state.value().changed_ns == 0)) {
        counted_.note_aside(source->name(), Aside::kUnsure);
        return std::shared_ptr<CachedFile>();
    }
    const Version version = version_of(identity.value(), state.value());
    if (!is_permanent() && traits.sure_versions) note_opened(version.identity);
    if (auto small = may_share ? small_copy_of(version, traits) : nullptr; small != nullptr) {
        // Path resolution by HDF5 would ask the file system at each open of a symbolic link.
        const std::string& path = source->name();
        if (leases_.enabled() && path.starts_with('/') && io::is_name_of(path, version.identity))
            leases_.keep(path, {version, traits, compared_ns});
        return open_small(source, traits, std::move(small));
    }
    if (!asked()) {
        auto file = begin_trial(source, traits, traits.sure_versions ? trial_of(version) : nullptr);
        if (traits.sure_versions && has_replica(version.identity)) file->attach_early();
        return file;
    }
    auto opened = open_replica(version, *source, traits, true);
    FOREBAY_TRY(opened.status());
    if (opened.value().replica == nullptr) {
        counted_.note_aside(source->name(), opened.value().why);
        return std::shared_ptr<CachedFile>();
    }
    auto file = std::make_shared<CachedFile>(io::traced_reads(source, trace_), std::move(opened.value().replica),
                                             tasks_, opened.value().policy, std::move(opened.value().peers));
    counted_.follow(*file);
    return file;
}

std::shared_ptr<CachedFile> ReadCache::begin_trial(const std::shared_ptr<io::File>& source,
                                                   const io::FileTraits& traits, std::shared_ptr<SharedTrial> trial) {
    auto file = std::make_shared<CachedFile>(
        io::traced_reads(source, trace_), std::move(trial), tasks_,
        [this, source, traits](CachedFile::Cause cause) { return attach(source, traits, cause); }, monotonic_ns);
    counted_.follow(*file);
    return file;
}

std::shared_ptr<CachedFile> ReadCache::open_small(const std::shared_ptr<io::File>& source, const io::FileTraits& traits,
                                                  std::unique_ptr<SmallCopy> copy) {
    auto file = begin_trial(source, traits, nullptr);
    file->read_by(std::move(copy));
    counted_.note_opened();
    return file;
}

std::unique_ptr<LeasedFile> ReadCache::leased(const std::string& path) {
    const auto lease = leases_.find(path, monotonic_ns());
    if (!lease) return nullptr;
    auto files = store_.small_files(is_permanent());
    auto copy = files != nullptr
                    ? SmallCopy::by_lease(std::move(files), *lease, policy_of_small(lease->traits), leases_)
                    : nullptr;
    if (copy == nullptr) {
        leases_.drop(path);
        return nullptr;
    }
    const std::lock_guard lock(mutex_);
    (void)small_opens_.note(small_file_key(lease->version), asked());
    return std::make_unique<LeasedFile>(LeasedFile{path, *lease, std::move(copy)});
}

// The copy of a small file, if the program opens many. Null: the file is read like any other.
std::unique_ptr<SmallCopy> ReadCache::small_copy_of(const Version& version, const io::FileTraits& traits) {
    if (!traits.sure_versions || version.size > kSmallFileBytes || find_peers_ != nullptr || manner_.for_others)
        return nullptr;
    {
        const bool kept = kept_.has_version(version);
        const std::lock_guard lock(mutex_);
        const bool many = small_opens_.note(small_file_key(version), asked());
        // Replicas have no leases, so with leases a few of these files have copies too.
        if (kept || !(many || (asked() && leases_.enabled()))) return nullptr;
    }
    if (has_replica(version.identity)) return nullptr;   // it may be prefetched or pinned
    auto files = store_.small_files(is_permanent());
    if (files == nullptr) return nullptr;
    return std::make_unique<SmallCopy>(std::move(files), version, policy_of_small(traits), &leases_);
}

CachePolicy ReadCache::policy_of_small(const io::FileTraits& traits) const noexcept {
    CachePolicy policy = policy_for(traits);
    if (!asked()) policy.young_ns = kUnaskedYoungNs;
    return policy;
}

// The trial of this and earlier opens of the file.
std::shared_ptr<SharedTrial> ReadCache::trial_of(const Version& version) {
    const std::lock_guard lock(mutex_);
    if (trials_.size() == kTrialsMax && !trials_.contains(version.identity)) trials_.clear();
    KnownTrial& known = trials_[version.identity];
    if (known.trial == nullptr || known.version != version)
        known = {version, std::make_shared<SharedTrial>(version.size, manner_.judge_speed)};
    return known.trial;
}

// Attaches a replica to a file on trial. Gives no warning: the user has not asked for a cache.
CachedFile::Opened ReadCache::attach(const std::shared_ptr<io::File>& source, const io::FileTraits& traits,
                                     CachedFile::Cause cause) {
    const bool wanted = cause == CachedFile::Cause::kWanted;
    CachedFile::Opened none{.replica = nullptr, .why = Aside::kFault};
    const auto identity = source->identity();
    const auto state = source->state(io::File::Ask::kOfServer);
    if (!identity || !state) return none;
    const Version version = version_of(identity.value(), state.value());
    if (!wanted && realtime_ns() < std::max(version.modified_ns, version.changed_ns) + kUnaskedYoungNs) {
        none.why = Aside::kYoung;
        return none;
    }
    // The map alone of a far larger file would fill the cache.
    if (!wanted && Presence::bytes_for(version.size) > options_.read_cache_size / kMapShare) {
        none.why = Aside::kFull;
        return none;
    }
    auto opened = open_replica(version, *source, traits, cause != CachedFile::Cause::kThere);
    if (!opened) return none;
    if (opened.value().replica == nullptr || wanted) return std::move(opened).value();
    CachePolicy& policy = opened.value().policy;
    policy.young_ns = kUnaskedYoungNs;
    policy.sample_share = kUnaskedSampleShare;
    policy.close_max = kUnaskedCloseMax;
    return std::move(opened).value();
}

CachePolicy ReadCache::policy_for(const io::FileTraits& traits) const noexcept {
    CachePolicy policy{.shared = pending_,
                       .young_ns = young_ns(traits.times),
                       .now_ns = realtime_ns,
                       .steady_ns = monotonic_ns,
                       .judge_speed = manner_.judge_speed,
                       .outlives_close = traits.sure_versions,
                       .read_ahead = !manner_.for_others};
    if (options_.revalidate == kRevalidateOpen) policy.look_behind_ns = kLookBehindNs;
    else policy.look_every_ns = lease_ns(options_);
    return policy;
}

void ReadCache::prefetch_opened(CachedFile& file) noexcept {
    bool wanted = options_.prefetch == Prefetch::kOpen;
    if (options_.prefetch == Prefetch::kWritten) {
        const auto identity = file.identity();
        const std::lock_guard lock(mutex_);
        wanted = identity && std::ranges::find(written_, identity.value()) != written_.end();
    }
    if (AttachedReplica* const attached = wanted ? file.attach() : nullptr) attached->prefetcher().prefetch_all();
}

void ReadCache::opened_again(CachedFile& file) noexcept {
    // With a number in the option, a later read compares when due.
    if (!leases_.enabled()) (void)attempt([&] { file.look_again(); });
}

std::shared_ptr<CachedFile> ReadCache::open(const std::shared_ptr<io::File>& source, std::string& warning,
                                            bool may_share, LeasedFile* leased) noexcept {
    if (options_.read_cache == ReadCacheMode::kOff) return nullptr;
    std::shared_ptr<CachedFile> file;
    const Status outcome = attempt([&]() -> Status {
        if (leased != nullptr) {
            file = open_small(source, leased->lease.traits, std::move(leased->copy));
            return Status::ok();
        }
        auto opened = try_open(source, may_share);
        FOREBAY_TRY(opened.status());
        file = std::move(opened).value();
        return Status::ok();
    });
    if (outcome) {
        if (asked()) store_.warn_of_device(warning);
        return file;
    }
    const bool lacks = io::lacks_descriptors(outcome);
    if (lacks) (void)io::SpareDescriptors::of_process().give_all_back();
    counted_.note_aside(source->name(), lacks ? Aside::kFull : Aside::kFault);
    if (!lacks) store_.warn_of(outcome, warning);
    return nullptr;
}

void ReadCache::note_closed(const CachedFile& file) noexcept {
    const AttachedReplica* const attached = file.attached();
    if (attached != nullptr && !manner_.for_others) kept_.keep(attached->replica_to_keep());
    counted_.note_closed(file);
}

bool ReadCache::stop(std::chrono::steady_clock::time_point until) {
    const bool rests = tasks_.stop(until);
    leave_replicas();
    return rests;
}

void ReadCache::note_opened(const io::Identity& identity) {
    area::show_as_parent();
    const std::lock_guard lock(mutex_);
    if (opened_.size() < kOpenedMax) opened_.insert(identity);
}

// Removes replicas that workers left, for later workers or by a sudden end. A worker leaves that to its parent.
void ReadCache::leave_replicas() noexcept {
    if (io::forks_so_far() != forks_) return;
    kept_.drop_all();
    store_.drop_small_files();
    (void)attempt([&] {
        std::set<io::Identity> opened;
        {
            const std::lock_guard lock(mutex_);
            opened = opened_;   // files that are still open follow later
        }
        if (opened.empty() || area::parent_of_worker()) return;
        for (const io::Identity& identity : opened)
            if (has_replica(identity) && store_.open()) store_.store().leave(identity);
    });
}

// Does not open the staging area: most files were never cached.
bool ReadCache::has_replica(const io::Identity& identity) const {
    if (kept_.has(identity)) return true;
    std::error_code failed;
    // A writer of the file makes the folder too, but without a map.
    return std::filesystem::exists(fmt::format("{}/{}/{}/{}/{}", options_.nls, area::staging_folder(), kCacheFolder,
                                               replica_name(identity), kPresenceFile),
                                   failed);
}

std::unique_ptr<io::Lock> ReadCache::begin_writing(io::File& target) noexcept {
    std::unique_ptr<io::Lock> lock;
    if (options_.read_cache == ReadCacheMode::kOff) return lock;
    leases_.drop(target.name());
    (void)attempt([&] {
        const auto identity = target.identity();
        if (!identity) return;
        leases_.drop(identity.value());
        if (options_.prefetch == Prefetch::kWritten && !target.traits().local) note_written(identity.value());
        if ((!asked() && !has_replica(identity.value())) || target.traits().local || !store_.open()) return;
        if (auto begun = store_.store().begin_writing(identity.value())) lock = std::move(begun).value();
    });
    return lock;
}

void ReadCache::note_written(const io::Identity& identity) {
    const std::lock_guard lock(mutex_);
    std::erase(written_, identity);
    if (written_.size() == kWrittenMax) written_.pop_front();
    written_.push_back(identity);
}

}   // namespace forebay::cache
