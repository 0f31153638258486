// The staging area: opened once, refused for a reason, left as it was found; and the statistics of the process.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>

#include "base/attempt.h"
#include "io/append.h"
#include "log/process.h"
#include "log/staging_area.h"
#include "stage/engine_state.h"

namespace forebay::stage {

namespace {

// What a log has besides payload: headers, and what it keeps for commits (log/file_log.cc), which is a 32nd of a segment.
constexpr std::uint64_t kPayloadPerRest = 16;
// A process, or all of a node that share a file, take no more than this share of the machine's memory for pages touched ahead.
constexpr std::uint64_t kReserveMemoryShare = 16;

std::uint64_t physical_memory_bytes() noexcept {
    const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGE_SIZE);
    return pages > 0 && page > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page) : 0;
}

}   // namespace

std::uint64_t Engine::State::reserve_bytes(std::uint64_t processes) const noexcept {
    const std::uint64_t payload = loaded_.options.reserve;
    return std::min({payload + payload / kPayloadPerRest, loaded_.options.size / 2, physical_memory_bytes() / kReserveMemoryShare / processes});
}

// Whether a file may be staged: nothing, or the reason why not. An error only with option strict.
Result<std::optional<log::AsideReason>> Engine::State::staging_opening(std::string& warning) {
    if (!loaded_.options.stage) return std::optional(log::AsideReason::kDisabled);
    look_opening();
    if (!obstacle_) return std::optional<log::AsideReason>();
    if (loaded_.options.strict) return obstacle_->status;
    if (!warned_) {
        warned_ = true;
        warning = obstacle_->status.message() + " (writing without staging)";
    }
    return std::optional(obstacle_->reason);
}

void Engine::State::look_opening() {
    if (std::exchange(area_tried_, true)) return;
    const Status looked = attempt([&] {
        obstacle_ = open_area_opening();
    });
    if (!looked) obstacle_ = Obstacle{log::AsideReason::kStagingArea, looked};   // what was made of it is of no use
}

std::optional<Engine::Obstacle> Engine::State::open_area_opening() {
    if (!loaded_.problems.empty()) return Obstacle{log::AsideReason::kBadOption, loaded_.problems.front()};
    auto area = open_area_();
    if (!area) return Obstacle{log::AsideReason::kStagingArea, area.status()};
    area_ = std::move(area).value();
    return make_process_directory_opening();
}

std::optional<Engine::Obstacle> Engine::State::make_process_directory_opening() {
    const auto refuse = [](const Status& status) { return Obstacle{log::AsideReason::kStagingArea, status}; };
    const auto process = log::identify_this_process();
    if (!process) return refuse(process.status());
    log::remove_leftovers(*area_);
    // A second engine of the process (another libhdf5) takes the next number.
    for (unsigned number = 0;; ++number) {
        directory_name_ = fmt::format("{}-{}-{}", process.value().pid, process.value().start_ticks, number);
        auto directory = area_->create_directory(directory_name_);
        if (directory) {
            directory_ = std::move(directory).value();
            break;
        }
        if (directory.status().code() != Code::kAlreadyExists) return refuse(directory.status());
    }
    // Best effort: without it those in other PID namespaces take this process for dead.
    if (auto claim = io::Claim::make(directory_->name(), std::string(log::kAliveClaim))) alive_ = std::move(claim).value();
    const Options& options = loaded_.options;
    const bool durable = options.durability == Durability::kNode;
    if (const Status synced = durable ? area_->sync() : Status::ok(); !synced) return refuse(synced);
    auto ledger = directory_->open_file("ledger", io::OpenMode::kCreateNew);
    if (!ledger) return refuse(ledger.status());
    if (const Status published = ledger_.publish(std::move(ledger).value(), process.value(), options.size, options.segment);
        !published)
        return refuse(published);
    auto log = directory_->open_file("log", io::OpenMode::kCreateNew);
    if (!log) return refuse(log.status());
    if (const Status synced = durable ? directory_->sync() : Status::ok(); !synced) return refuse(synced);
    const auto file_system = log::file_system_of(area_->name());
    const log::PoolLimits limits{.capacity_bytes = options.size,
                                 .segment_bytes = options.segment,
                                 .reserve_bytes = reserve_bytes(1),
                                 .in_memory = file_system && file_system.value().memory};
    pool_ = std::make_unique<log::SegmentPool>(
        std::move(log).value(), limits, process.value(),
        log::PoolGauges{&ledger_.header().segments_allocated, &ledger_.header().segments_free});
    pool_->warm_up();
    return std::nullopt;
}

void Engine::State::tell_statistics() {
    if (!loaded_.options.stats.empty() && (anything_to_tell_ || stranded_.load() > 0 || ledger_.header().files_opened.load() > 0)) {
        std::string reasons;
        for (std::size_t i = 0; i < log::kReasonCount; ++i)
            if (const auto count = ledger_.header().aside[i].load(); count > 0)
                reasons += fmt::format(R"({}"{}":{})", reasons.empty() ? "" : ",", log::reason_name(static_cast<log::AsideReason>(i)), count);
        const std::string line = fmt::format(
            R"({{"process":{{"pid":{},"files_opened":{},"files_staged":{},"aside":{{{}}},"stranded":{}}}}})", ::getpid(),
            ledger_.header().files_opened.load(), ledger_.header().files_staged.load(), reasons, stranded_.load());
        // Statistics that cannot be written must not make a program fail that has lost nothing.
        (void)io::append_line(loaded_.options.stats, line);
    }
}

void Engine::State::close_area() noexcept {
    // Without memory a process loses its line of statistics, and leaves a directory in which nothing is staged.
    (void)attempt([&] {
        tell_statistics();
    });
    const bool keep = std::any_of(files_.begin(), files_.end(), [](const auto& item) { return item.second.file->leaves_log(); });
    files_.clear();   // before the pool that their logs live in
    if (!directory_ || keep) return;
    (void)attempt([&] {
        remove_process_directory();
    });
}

void Engine::State::remove_process_directory() {
    // A board or a journal that was left tells others, and recovery, what their logs mean.
    const auto names = directory_->list();
    if (!names || std::any_of(names.value().begin(), names.value().end(), [](const std::string& name) { return name != "log" && name != "ledger" && name != log::kAliveClaim; })) return;
    // What cannot be removed is found, and reported, by `forebay status`.
    (void)directory_->remove_file("log");
    (void)directory_->remove_file("ledger");
    alive_.reset();
    (void)area_->remove_directory(directory_name_);
}

}   // namespace forebay::stage
