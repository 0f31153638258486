// The staging area: opened once, refused for a reason, left as it was found; and the statistics of the process.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <nlohmann/json.hpp>
#include <string>

#include "area/process.h"
#include "area/registry.h"
#include "area/staging_area.h"
#include "base/attempt.h"
#include "io/append.h"
#include "io/process_limits.h"
#include "stage/engine_state.h"

namespace forebay::stage {

namespace {

// What a log has besides payload: headers, and what it keeps for commits (log/file_log.cc), which is a 32nd of a
// segment.
constexpr std::uint64_t kPayloadPerRest = 16;
// A process, or all of a node that share a file, take no more than this share of the machine's memory for pages touched
// ahead.
constexpr std::uint64_t kReserveMemoryShare = 16;
// A log in memory takes no more than this share of what the process's control group may use: it is charged to the job.
constexpr std::uint64_t kLogMemoryShare = 4;
// Where the process may map only so much (ulimit -v, -d), the log takes this share of what is left, and nothing if that
// is little: threads and their heaps take up to half a GiB of addresses, which the program might miss.
constexpr std::uint64_t kMappableShare = 16, kMappableMin = std::uint64_t{4} << 30;
constexpr std::uint64_t kMapBytes = std::uint64_t{64} << 20, kMapBytesWithLimit = std::uint64_t{8} << 20;
// More than engines of one process, and such as look at the staging area at the same time.
constexpr unsigned kDirectoryNumbers = 1000;

// A member of a line of statistics; empty without a file that the read cache had to do with.
std::string told(const cache::CacheTotals& totals) {
    std::string reasons;
    for (std::size_t i = 1; i < totals.asides.size(); ++i)
        if (totals.asides[i] > 0)
            reasons += fmt::format(R"({}"{}":{})", reasons.empty() ? "" : ",",
                                   cache::aside_name(static_cast<cache::Aside>(i)), totals.asides[i]);
    if (totals.files == 0 && reasons.empty()) return {};
    return fmt::format(R"(,"cache":{{"files":{},"hit_bytes":{},"missed_bytes":{},"fetched_bytes":{},"stored_bytes":{},)"
                       R"("unread_bytes":{},"remote_bytes":{},"remote_us":{},"late_answers":{},"ahead_bytes":{},)"
                       R"("replaced_bytes":{},"aside":{{{}}}}})",
                       totals.files, totals.hit_bytes, totals.missed_bytes, totals.fetched_bytes, totals.stored_bytes,
                       totals.unread_bytes, totals.remote_bytes, totals.remote_ns / 1000, totals.late_answers,
                       totals.ahead_bytes, totals.replaced_bytes, reasons);
}

// The same of asynchronous calls.
std::string told(const AsyncCounters& counters) {
    std::string reasons;
    for (std::size_t i = 0; i < counters.at_once.size(); ++i)
        if (counters.at_once[i] > 0)
            reasons += fmt::format(R"({}"{}":{})", reasons.empty() ? "" : ",", at_once_name(static_cast<AtOnce>(i)),
                                   counters.at_once[i]);
    if (counters.reads == 0 && reasons.empty()) return {};
    return fmt::format(R"(,"async":{{"reads":{},"read_bytes":{},"canceled":{},"failed":{},"waits":{},)"
                       R"("at_once":{{{}}}}})",
                       counters.reads, counters.read_bytes, counters.canceled, counters.failed, counters.waits,
                       reasons);
}

}   // namespace

std::uint64_t Engine::State::reserve_bytes(std::uint64_t processes) const noexcept {
    const std::uint64_t payload = loaded_.options.reserve;
    return std::min({payload + payload / kPayloadPerRest, loaded_.options.size / 2,
                     usable_memory_bytes_ / kReserveMemoryShare / processes});
}

// Whether a file may be staged: nothing, or the reason why not. An error only with option strict.
Result<std::optional<ledger::AsideReason>> Engine::State::staging_opening(std::string& warning) {
    if (!loaded_.options.stage) return std::optional(ledger::AsideReason::kDisabled);
    look_opening();
    if (!obstacle_) return std::optional<ledger::AsideReason>();
    if (loaded_.options.strict) return obstacle_->status;
    if (!warned_) {
        warned_ = true;
        warning = obstacle_->status.message() + "; files are written directly, unstaged";
    }
    return std::optional(obstacle_->reason);
}

void Engine::State::look_opening() {
    if (std::exchange(area_tried_, true)) return;
    const Status looked = attempt([&] { obstacle_ = open_area_opening(); });
    if (!looked) obstacle_ = Obstacle{ledger::AsideReason::kStagingArea, looked};   // what was made of it is of no use
}

std::optional<Engine::Obstacle> Engine::State::open_area_opening() {
    if (!loaded_.problems.empty()) return Obstacle{ledger::AsideReason::kBadOption, loaded_.problems.front()};
    auto area = open_area_();
    if (!area) return Obstacle{ledger::AsideReason::kStagingArea, area.status()};
    area_ = std::move(area).value();
    return make_process_directory_opening();
}

// With the lock by which others see that this process lives, before there is anything in it that could be taken for a
// dead one's.
Status Engine::State::make_living_directory_opening(const area::ProcessIdentity& process) {
    // A second engine of the process (another libhdf5) takes the next number; so does whoever's directory somebody has
    // just removed.
    for (unsigned number = 0; number < kDirectoryNumbers; ++number) {
        directory_name_ = fmt::format("{}-{}-{}", process.pid, process.start_ticks, number);
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
        // Nobody looks at the next one yet.
        if (alive.status().code() != Code::kNotFound && alive.status().code() != Code::kUnavailable)
            return alive.status();
    }
    return {Code::kUnavailable, fmt::format("make a directory in {}: others remove each of them", area_->name())};
}

std::optional<Engine::Obstacle> Engine::State::make_process_directory_opening() {
    const auto refuse = [](const Status& status) { return Obstacle{ledger::AsideReason::kStagingArea, status}; };
    const auto process = area::identify_this_process();
    if (!process) return refuse(process.status());
    const auto mappable = io::mappable_bytes_left();
    if (mappable && *mappable < kMappableMin)
        return refuse({Code::kUnavailable,
                       fmt::format("the process may map only {} more (ulimit -v, ulimit -d), and staging begins at {}",
                                   format_size(*mappable), format_size(kMappableMin)),
                       ENOMEM});
    usable_memory_bytes_ = io::usable_memory_bytes();
    ledger::remove_leftovers(*area_);
    if (const Status made = make_living_directory_opening(process.value()); !made) return refuse(made);
    run_.tell_area(::getpid(), directory_->name());
    // After the directory was made, and before anything is in it (area/registry.h). Without it commands want to be
    // told where to look.
    if (registers_) (void)attempt([&] { (void)area::note_area(loaded_.options, loaded_.options.nls); });
    const Options& options = loaded_.options;
    const bool durable = options.durability == Durability::kNode;
    if (const Status synced = durable ? area_->sync() : Status::ok(); !synced) return refuse(synced);
    auto ledger = directory_->open_file("ledger", io::OpenMode::kCreateNew);
    if (!ledger) return refuse(ledger.status());
    if (const Status published = ledger_.publish(std::move(ledger).value(), process.value(), options.size,
                                                 options.segment);
        !published)
        return refuse(published);
    auto log = directory_->open_file("log", io::OpenMode::kCreateNew);
    if (!log) return refuse(log.status());
    if (const Status synced = durable ? directory_->sync() : Status::ok(); !synced) return refuse(synced);
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
    pool_ = std::make_unique<log::SegmentPool>(std::move(log).value(), limits, process.value(),
                                               log::PoolGauges{&ledger_.header().segments_allocated,
                                                               &ledger_.header().segments_free});
    pool_->warm_up();
    // What is asked of these is rare, and a program may want every number that it is allowed.
    area_->rest();
    directory_->rest();
    return std::nullopt;
}

void Engine::State::tell_began_opening() noexcept {
    if (std::exchange(began_, true)) return;
    run_.tell_began(::getpid(), tally_);
    read_cache_.count_into(tally_.tally().reads);
}

// Statistics that cannot be written must not make a program fail that has lost nothing.
void Engine::State::tell_line(const std::string& line) {
    if (!loaded_.options.stats.empty()) (void)io::append_line(loaded_.options.stats, line);
    run_.tell(line, loaded_.options.stats);
}

std::vector<std::shared_ptr<cache::CachedFile>> Engine::State::files_read() {
    std::vector<std::shared_ptr<cache::CachedFile>> open;
    const std::lock_guard lock(mutex_);
    for (const auto& [identity, entry] : files_)
        if (entry.cached != nullptr) open.push_back(entry.cached);
    return open;
}

// A line for each file that the read cache had to do with. One append is enough for all of them.
std::string Engine::State::reads_as_json() {
    std::string lines;
    for (const auto& [path, totals] : read_cache_.totals_by_path(files_read())) {
        const std::string quoted = nlohmann::json(path).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        lines += fmt::format(R"({}{{"read":{{"pid":{},"path":{}{}}}}})", lines.empty() ? "" : "\n", ::getpid(), quoted,
                             told(totals));
    }
    return lines;
}

std::string Engine::State::statistics() {
    std::string reasons;
    for (std::size_t i = 0; i < ledger::kReasonCount; ++i)
        if (const auto count = ledger_.header().aside[i].load(); count > 0)
            reasons += fmt::format(R"({}"{}":{})", reasons.empty() ? "" : ",",
                                   ledger::reason_name(static_cast<ledger::AsideReason>(i)), count);
    return fmt::format(R"({{"process":{{"pid":{},"files_opened":{},"files_staged":{},"aside":{{{}}},)"
                       R"("stranded":{},"unread":{}{}{}{}{}{}}}}})",
                       ::getpid(), ledger_.header().files_opened.load(), ledger_.header().files_staged.load(), reasons,
                       stranded_.load(), unread_.load(), deadline_.presses() ? R"(,"deadline":true)" : "",
                       (nameless_.load() > 0 ? fmt::format(R"(,"nameless":{})", nameless_.load()) : "") +
                           (made_good_.load() > 0 ? fmt::format(R"(,"made_good":{})", made_good_.load()) : ""),
                       closes_as_json(), told(read_cache_.totals(files_read())), told(async_requests_.counters()));
}

void Engine::State::tell_statistics() {
    if (const std::string reads = reads_as_json(); !reads.empty()) tell_line(reads);
    if (anything_to_tell_ || stranded_.load() > 0 || unread_.load() > 0 || ledger_.header().files_opened.load() > 0)
        tell_line(statistics());
}

void Engine::State::close_area() noexcept {
    leave_area();
    files_.clear();   // before the pool that their logs live in
}

// Statistics, and the process's directory unless recovery needs it.
void Engine::State::leave_area() noexcept {
    // Without memory a process loses its line of statistics, and leaves a directory in which nothing is staged.
    (void)attempt([&] { tell_statistics(); });
    const bool keep = std::any_of(files_.begin(), files_.end(),
                                  [](const auto& item) { return item.second.file->leaves_log(); });
    if (!directory_ || keep) return;
    (void)attempt([&] { remove_process_directory(); });
}

void Engine::State::remove_process_directory() {
    // A board or a journal that was left tells others, and recovery, what their logs mean.
    const auto names = directory_->list();
    if (!names || std::any_of(names.value().begin(), names.value().end(), [](const std::string& name) {
            return name != "log" && name != "ledger" && name != area::kAliveFile;
        }))
        return;
    // What cannot be removed is found, and reported, by `forebay status`.
    (void)directory_->remove_file("log");
    (void)directory_->remove_file("ledger");
    (void)directory_->remove_file(std::string(area::kAliveFile));
    alive_.reset();
    (void)area_->remove_directory(directory_name_);
}

}   // namespace forebay::stage
