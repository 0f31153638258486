#include "cli/mounted.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "area/process.h"
#include "area/staging_area.h"
#include "io/posix_file.h"

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;

// The identity of the directory, or of the lowest one above it that exists.
Result<io::Identity> existing_above(fs::path path) {
    auto found = io::identify(path.string());
    while (!found && path.has_parent_path() && path != path.parent_path()) {
        path = path.parent_path();
        found = io::identify(path.string());
    }
    return found;
}

bool is_in_use(const std::string& nls) {
    const fs::path area = fs::path(nls) / area::staging_folder();
    std::error_code error;
    for (fs::directory_iterator entry(area / "cache", error), end; !error && entry != end; entry.increment(error))
        if (entry->is_directory(error)) return true;
    error.clear();
    for (fs::directory_iterator entry(area, error), end; !error && entry != end; entry.increment(error))
        if (area::owner_of_directory(entry->path().filename().string())) return true;
    return error && error != std::errc::no_such_file_or_directory;   // unknown, so assume that it is in use
}

// Returns true if a visible process has it mounted, in its own mount namespace.
bool is_mounted_anywhere(std::uint64_t device) {
    const std::string number = fmt::format("{}:{}", ::major(device), ::minor(device));
    std::error_code error;
    for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        std::ifstream mounts(entry->path() / "mountinfo");
        std::string id, parent, found, rest;
        while (mounts >> id >> parent >> found && std::getline(mounts, rest))
            if (found == number) return true;
    }
    return false;
}

}   // namespace

AreaState state_of(const area::RegisteredArea& area) {
    const auto self = area::identify_this_process();
    const bool same_boot = !self || area::to_text(self.value().boot_id) == area.boot_id;
    const auto there = io::identify(area.nls);
    if (!there && there.status().sys_errno() != ENOENT && there.status().sys_errno() != ENOTDIR)
        return AreaState::kInUse;   // a later access reports the error
    // After a restart a device may have another number, and the directory still has its inode. Below a mount point
    // without its file system lies another directory, possibly with files.
    const auto found = there ? there : existing_above(area.nls);
    if ((found && found.value().device == area.device) || (!same_boot && there && there.value().inode == area.inode))
        return is_in_use(area.nls) ? AreaState::kInUse : AreaState::kGone;
    if (area.in_memory && (!same_boot || !is_mounted_anywhere(area.device))) return AreaState::kGone;
    return AreaState::kElsewhere;
}

bool has_access_list(const std::string& path) {
    return ::getxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
}

}   // namespace forebay::cli
