#include "stage/process_area.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <span>
#include <utility>

#include "area/registry.h"
#include "base/attempt.h"
#include "base/checksum.h"
#include "io/process_limits.h"

namespace forebay::stage {

namespace {

// Besides payload, a log has headers, and keeps a 32nd of a segment for commits (log/file_log.cc).
constexpr std::uint64_t kPayloadPerRest = 16;
// A process, or all of a node that share a file, touch at most this share of the machine's memory ahead.
constexpr std::uint64_t kReserveMemoryShare = 16;
// A log in memory takes no more than this share of what the process's control group may use: it is charged to the job.
constexpr std::uint64_t kLogMemoryShare = 4;
// Where the process may map only so much (ulimit -v, -d), the log takes this share of what is left. It takes nothing if
// that is little: the program might miss the addresses, up to half a GiB, that threads and their heaps take.
constexpr std::uint64_t kMappableShare = 16, kMappableMin = std::uint64_t{4} << 30;
constexpr std::uint64_t kMapBytes = std::uint64_t{64} << 20, kMapBytesWithLimit = std::uint64_t{8} << 20;
// More than engines of one process, and such as look at the staging area at the same time.
constexpr unsigned kDirectoryNumbers = 1000;

}   // namespace

std::uint64_t ProcessArea::reserve_bytes(std::uint64_t processes) const noexcept {
    const std::uint64_t payload = loaded_.options.reserve;
    return std::min({payload + payload / kPayloadPerRest, loaded_.options.size / 2,
                     usable_memory_bytes_ / kReserveMemoryShare / processes});
}

void ProcessArea::share_reserve(std::uint64_t processes) noexcept {
    const LockGuard opening(opening_);
    if (pool_) pool_->lower_reserve(reserve_bytes(processes));
}

std::optional<ProcessArea::Obstacle> ProcessArea::obstacle() {
    const LockGuard opening(opening_);
    if (!loaded_.options.stage)
        return Obstacle{ledger::AsideReason::kDisabled, {Code::kUnavailable, "staging is switched off"}};
    look();
    return obstacle_;
}

Status ProcessArea::admit() {
    const LockGuard opening(opening_);
    std::string warning;
    return loaded_.options.strict ? decide(warning).status() : Status::ok();
}

Result<std::optional<ledger::AsideReason>> ProcessArea::decide(std::string& warning) {
    if (!loaded_.options.stage) return std::optional(ledger::AsideReason::kDisabled);
    look();
    if (!obstacle_) return std::optional<ledger::AsideReason>();
    if (loaded_.options.strict) return obstacle_->status;
    if (!std::exchange(warned_, true)) warning = obstacle_->status.message() + "; files are written directly, unstaged";
    return std::optional(obstacle_->reason);
}

io::Directory* ProcessArea::directory() noexcept {
    const LockGuard opening(opening_);
    return directory_.get();
}

std::string ProcessArea::directory_at_end() const { return directory_ ? directory_->name() : std::string(); }

Result<std::unique_ptr<io::Directory>> ProcessArea::open_for_cache() const {
    auto area = open_area_();
    if (area && registers_) (void)area::note_area(loaded_.options, loaded_.options.nls);
    return area;
}

std::string ProcessArea::node_name() const {
    const std::string& named = loaded_.options.node;
    if (!named.empty()) return named;
    const auto process = area::identify_this_process();
    return process ? area::to_text(process.value().boot_id) : std::string("unknown");
}

// In a folder of their own: a process looks for leftovers of dead ones when the area itself has changed.
Result<std::unique_ptr<io::Claim>> ProcessArea::claim(const io::Identity& identity) {
    if (const auto why = obstacle()) {   // `attach` tells it
        if (loaded_.options.strict && loaded_.options.stage) return why->status;
        return std::unique_ptr<io::Claim>();
    }
    const std::string node = node_name();
    const LockGuard opening(opening_);
    const std::string folder = area_->name() + "/claims";
    if (!std::exchange(claims_looked_at_, true)) io::Claim::remove_leftovers(folder);
    return io::Claim::make(folder, fmt::format("{:x}-{:x}-{:x}", identity.device, identity.inode,
                                               checksum(std::as_bytes(std::span(node)))));
}

void ProcessArea::keep_claim(std::shared_ptr<io::Claim> claim) noexcept {
    (void)attempt([&] {
        const LockGuard lock(claims_mutex_);
        claims_kept_.push_back(std::move(claim));
    });
}

void ProcessArea::look() {
    if (std::exchange(tried_, true)) return;
    const Status looked = attempt([&]() NO_THREAD_SAFETY_ANALYSIS { obstacle_ = open(); });
    // Nothing uses what was made of the area until then.
    if (!looked) obstacle_ = Obstacle{ledger::AsideReason::kStagingArea, looked};
}

std::optional<ProcessArea::Obstacle> ProcessArea::open() {
    if (!loaded_.problems.empty()) return Obstacle{ledger::AsideReason::kBadOption, loaded_.problems.front()};
    auto area = open_area_();
    if (!area) return Obstacle{ledger::AsideReason::kStagingArea, area.status()};
    area_ = std::move(area).value();
    const Status made = make_process_directory();
    return made ? std::nullopt : std::optional(Obstacle{ledger::AsideReason::kStagingArea, made});
}

// The lock that shows others this process's life comes before content that could pass for a dead one's.
Status ProcessArea::make_living_directory(const area::ProcessIdentity& process) {
    // No engine takes the number of an earlier one: another process may have noted that directory as a dead one's. A
    // second libhdf5, or a process whose directory was just removed, takes the next number.
    static std::atomic<unsigned> next_number{0};
    for (unsigned tried = 0; tried < kDirectoryNumbers; ++tried) {
        directory_name_ = fmt::format("{}-{}-{}", process.pid, process.start_ticks, next_number.fetch_add(1));
        auto directory = area_->create_directory(directory_name_);
        if (directory.status().code() == Code::kAlreadyExists) continue;
        if (!directory) return directory.status();
        auto alive = directory.value()->hold(std::string(area::kAliveFile));
        if (alive) {
            alive_ = std::move(alive).value();
            directory_ = std::move(directory).value();
            return Status::ok();
        }
        (void)directory.value()->remove_file(std::string(area::kAliveFile));
        (void)area_->remove_directory(directory_name_);
        // No process looks at the next one yet.
        if (alive.status().code() != Code::kNotFound && !io::has_holder(alive.status())) return alive.status();
    }
    return {Code::kUnavailable,
            fmt::format("create a directory in {}: other processes removed each one", area_->name())};
}

Status ProcessArea::make_process_directory() {
    const auto process = area::identify_this_process();
    if (!process) return process.status();
    const auto mappable = io::mappable_bytes_left();
    if (mappable && *mappable < kMappableMin)
        return {Code::kUnavailable,
                fmt::format("the process may map only {} more (ulimit -v, ulimit -d), and staging begins at {}",
                            format_size(*mappable), format_size(kMappableMin)),
                ENOMEM};
    usable_memory_bytes_ = io::usable_memory_bytes();
    ledger::remove_leftovers(*area_);
    FOREBAY_TRY(make_living_directory(process.value()));
    run_.tell_area(::getpid(), directory_->name());
    // After the directory is made, before anything is in it (area/registry.h). Else commands have to be told the place.
    if (registers_) (void)attempt([&] { (void)area::note_area(loaded_.options, loaded_.options.nls); });
    const Options& options = loaded_.options;
    const bool durable = options.durability == Durability::kNode;
    if (durable) FOREBAY_TRY(area_->sync());
    auto ledger = directory_->open_file("ledger", io::OpenMode::kCreateNew);
    if (!ledger) return ledger.status();
    FOREBAY_TRY(ledger_.publish(std::move(ledger).value(), process.value(), options.size, options.segment));
    FOREBAY_TRY(make_pool(process.value(), mappable));
    // They are asked rarely, and a program may want every descriptor that it is allowed.
    area_->rest();
    directory_->rest();
    return Status::ok();
}

Status ProcessArea::make_pool(const area::ProcessIdentity& process, std::optional<std::uint64_t> mappable) {
    const Options& options = loaded_.options;
    auto log = directory_->open_file("log", io::OpenMode::kCreateNew);
    if (!log) return log.status();
    if (options.durability == Durability::kNode) FOREBAY_TRY(directory_->sync());
    const auto file_system = io::file_system_of(area_->name());
    const bool in_memory = file_system && file_system.value().memory;
    std::uint64_t capacity = options.size;
    if (const auto limit = in_memory ? io::memory_limit_bytes() : std::nullopt)
        capacity = std::min(capacity, *limit / kLogMemoryShare);
    if (mappable) capacity = std::min(capacity, *mappable / kMappableShare);
    const log::PoolLimits limits{.capacity_bytes = capacity,
                                 .segment_bytes = options.segment,
                                 .reserve_bytes = std::min(reserve_bytes(1), capacity / 2),
                                 .in_memory = in_memory,
                                 .map_bytes = mappable ? kMapBytesWithLimit : kMapBytes};
    pool_ = std::make_unique<log::SegmentPool>(std::move(log).value(), limits, process,
                                               log::PoolGauges{&ledger_.header().segments_allocated,
                                                               &ledger_.header().segments_free});
    pool_->warm_up();
    return Status::ok();
}

void ProcessArea::leave() noexcept {
    // Without memory the process leaves a directory in which nothing is staged.
    if (directory_) (void)attempt([&] { remove_process_directory(); });
}

void ProcessArea::remove_process_directory() {
    // A board or a journal that was left tells others, and recovery, what their logs mean.
    const auto names = directory_->list();
    if (!names || std::any_of(names.value().begin(), names.value().end(), [](const std::string& name) {
            return name != "log" && name != "ledger" && name != area::kAliveFile;
        }))
        return;
    // `forebay status` finds, and reports, what cannot be removed.
    (void)directory_->remove_file("log");
    (void)directory_->remove_file("ledger");
    (void)directory_->remove_file(std::string(area::kAliveFile));
    alive_.reset();
    (void)area_->remove_directory(directory_name_);
}

}   // namespace forebay::stage
