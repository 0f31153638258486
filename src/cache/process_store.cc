#include "cache/process_store.h"

#include <cerrno>
#include <utility>

#include "area/process.h"
#include "base/attempt.h"
#include "base/clock.h"
#include "cache/further_devices.h"

namespace forebay::cache {

static_assert(static_cast<int>(Replacement::kLru) == static_cast<int>(CacheReplacement::kLru));
static_assert(static_cast<int>(Replacement::kLfu) == static_cast<int>(CacheReplacement::kLfu));
static_assert(static_cast<int>(Replacement::kFifo) == static_cast<int>(CacheReplacement::kFifo));
static_assert(static_cast<int>(Replacement::kLifo) == static_cast<int>(CacheReplacement::kLifo));

ProcessStore::ProcessStore(const Options& options, OpenArea open_area, std::function<void()> let_go)
    : options_(options), open_area_(std::move(open_area)), let_go_(std::move(let_go)) {}

Status ProcessStore::open() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(tried_, true) && !passes(problem_)) return problem_;
    problem_ = attempt([&]() -> Status {
        auto area = open_area_();
        FOREBAY_TRY(area.status());
        const auto process = area::identify_this_process();
        FOREBAY_TRY(process.status());
        auto folder = area.value()->create_directory(kCacheFolder);
        if (folder.status().code() == Code::kAlreadyExists) folder = area.value()->open_directory(kCacheFolder);
        FOREBAY_TRY(folder.status());
        const std::string path = folder.value()->name();
        StoreSetup setup{.folder = std::move(folder).value(),
                         .replacement = static_cast<Replacement>(options_.read_cache_replacement),
                         .boot_id = process.value().boot_id,
                         .now_ns = realtime_ns,
                         .let_go = let_go_};
        device_problem_ = add_devices(setup, options_, path);
        auto store = Store::open(std::move(setup));
        FOREBAY_TRY(store.status());
        store_ = std::move(store).value();
        return Status::ok();
    });
    return problem_;
}

std::shared_ptr<SmallFiles> ProcessStore::small_files(bool permanent) {
    if (!open()) return nullptr;
    const std::lock_guard lock(mutex_);
    if (small_files_ != nullptr || std::exchange(small_tried_, true)) return small_files_;
    if (auto opened = store_->small_files(permanent)) small_files_ = std::move(opened).value();
    return small_files_;
}

void ProcessStore::drop_small_files() noexcept {
    std::shared_ptr<SmallFiles> small;   // destroyed without the lock
    const std::lock_guard lock(mutex_);
    small.swap(small_files_);
    small_tried_ = true;
}

bool ProcessStore::passes(const Status& problem) noexcept {
    return !problem && (io::lacks_descriptors(problem) || problem.sys_errno() == EWOULDBLOCK);
}

void ProcessStore::warn_of(const Status& problem, std::string& warning) noexcept {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(warned_, true))
        (void)attempt([&] { warning = problem.message() + " (files are read without the read cache)"; });
}

void ProcessStore::warn_of_device(std::string& warning) noexcept {
    const std::lock_guard lock(mutex_);
    if (!device_problem_ && !std::exchange(warned_, true))
        (void)attempt([&] { warning = device_problem_.message() + " (the read cache goes on without it)"; });
}

}   // namespace forebay::cache
