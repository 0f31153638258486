#include "cache/further_devices.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "area/staging_area.h"
#include "base/checksum.h"
#include "io/file_system.h"
#include "io/posix_file.h"
#include "io/process_limits.h"

namespace forebay::cache {

namespace {

namespace fs = std::filesystem;

constexpr const char* kCacheName = "cache";
constexpr const char* kHomeFile = "home";
constexpr std::string_view kPartsPrefix = "parts-";
constexpr std::size_t kPathMax = 4096;
constexpr std::uint64_t kUnaskedMemoryShare = 32;   // of a staging area in memory, which the program may need

std::uint64_t free_bytes_at(const std::string& path) {
    std::error_code failed;
    const auto space = fs::space(path, failed);
    return failed ? 0 : space.available;   // in doubt store nothing
}

// A staging area in memory competes with the program, unless the user gave its size.
std::uint64_t capacity_of(const Options& options, std::uint64_t given, bool in_memory) {
    if (given != 0) return given;
    if (options.read_cache == ReadCacheMode::kOn || !in_memory) return options.read_cache_size;
    return std::min(options.read_cache_size, io::usable_memory_bytes() / kUnaskedMemoryShare);
}

Result<std::unique_ptr<io::Directory>> enter(io::Directory& parent, const std::string& name) {
    auto folder = parent.create_directory(name);
    return !folder && folder.status().code() == Code::kAlreadyExists ? parent.open_directory(name) : std::move(folder);
}

Result<StoreSetup::Further> open_further(const Options& options, const StagingDevice& device, const std::string& home,
                                         bool& in_memory) {
    auto area = area::open_further_area(options, device.path);
    FOREBAY_TRY(area.status());
    in_memory = area.value().is_memory;
    auto cache = enter(*area.value().directory, kCacheName);
    FOREBAY_TRY(cache.status());
    auto folder = enter(*cache.value(),
                        fmt::format("{}{:016x}", kPartsPrefix, checksum(std::as_bytes(std::span(home)))));
    FOREBAY_TRY(folder.status());
    // For people: the owner of these parts.
    if (const auto file = folder.value()->open_file(kHomeFile, io::OpenMode::kCreateNew))
        (void)file.value()->write_at(0, std::as_bytes(std::span(home)));
    StoreSetup::Further further;
    further.path = folder.value()->name();
    further.folder = std::move(folder).value();
    further.limits.capacity_bytes = capacity_of(options, device.bytes, in_memory);
    // Other programs may stage writes there.
    further.limits.keep_free_bytes = device.bytes != 0 ? 0 : options.size;
    further.limits.free_bytes = [path = further.path] { return free_bytes_at(path); };
    return further;
}

}   // namespace

Status add_devices(StoreSetup& setup, const Options& options, const std::string& path) {
    const auto kind = io::file_system_of(path);
    bool leading = kind && kind.value().memory;
    setup.capacity_bytes = capacity_of(options, options.nls_bytes, leading);
    setup.keep_free_bytes = options.size;
    setup.free_bytes = [path] { return free_bytes_at(path); };
    setup.open_part = open_part_folder;
    setup.filled_first = leading ? 1 : 0;
    if (options.more_devices.empty()) return Status::ok();
    std::error_code failed;
    std::string home = fs::canonical(path, failed).string();
    if (failed) home = path;
    Status problem = Status::ok();
    for (const StagingDevice& device : options.more_devices) {
        bool in_memory = false;
        auto further = open_further(options, device, home, in_memory);
        if (!further) {
            problem = further.status();
            continue;
        }
        leading = leading && in_memory;
        if (leading) ++setup.filled_first;
        setup.further.push_back(std::move(further).value());
    }
    return problem;
}

std::uint64_t remove_orphaned_parts(io::Directory& cache) {
    std::uint64_t removed = 0;
    const auto names = cache.list();
    if (!names) return removed;
    for (const std::string& name : names.value()) {
        if (!name.starts_with(kPartsPrefix)) continue;
        const auto folder = cache.open_directory(name);
        const auto file = folder ? folder.value()->open_file(kHomeFile, io::OpenMode::kRead) : folder.status();
        if (!file) continue;
        std::string home(kPathMax, '\0');
        const auto read = file.value()->read_at(0, std::as_writable_bytes(std::span(home)));
        home.resize(read ? read.value() : 0);
        std::error_code failed;
        if (home.empty() || fs::symlink_status(home, failed).type() != fs::file_type::not_found) continue;
        const auto files = folder.value()->list();
        if (!files) continue;
        for (const std::string& one : files.value()) {
            const bool is_part = one != kHomeFile && one != "account";
            if (folder.value()->remove_file(one) && is_part) ++removed;
        }
        (void)cache.remove_directory(name);
    }
    return removed;
}

Result<std::unique_ptr<io::Directory>> open_part_folder(const std::string& path) {
    auto folder = io::open_posix_directory(path);
    FOREBAY_TRY(folder.status());
    const auto facts = folder.value()->facts(".");
    FOREBAY_TRY(facts.status());
    if (facts.value().owner != ::geteuid() || (facts.value().mode & io::Facts::kRightsOfOthers) != 0)
        return Status(Code::kPermissionDenied, path + ": others may change what is there");
    return folder;
}

}   // namespace forebay::cache
