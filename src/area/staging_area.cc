#include "area/staging_area.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "io/file_system.h"
#include "io/posix_file.h"

namespace forebay::area {

namespace {

struct statfs facts_of(const std::string& path, int& error) {
    struct statfs facts{};
    do error = ::statfs(path.c_str(), &facts) == 0 ? 0 : errno;
    while (error == EINTR);
    return facts;
}

// Messages about one option's value: "option nls=/x (FOREBAY_NLS): what is wrong".
class Refusal {
  public:
    Refusal(const LoadedOptions& loaded, std::string_view name)
        : who_(fmt::format("option {}={} ({})", name, option_text(loaded.options, name), loaded.origin_of(name))) {}
    explicit Refusal(const Options& options) : who_(fmt::format("option nls={}", option_text(options, "nls"))) {}
    [[nodiscard]] Status because(Code code, std::string_view what, int error = 0) const {
        return {code, fmt::format("{}: {}", who_, what), error};
    }
    [[nodiscard]] Status because_errno(int error, std::string_view doing) const {
        return Status::from_errno(error, fmt::format("{}: {}", who_, doing));
    }
    [[nodiscard]] Status because(const Status& status) const { return status.with_context(who_); }

  private:
    std::string who_;
};

// After a trailing slash the system would follow a symbolic link in the last component.
std::string without_trailing_slashes(std::string path) {
    while (path.size() > 1 && (path.ends_with('/') || path.ends_with("/."))) path.pop_back();
    return path;
}

Status check_is_directory(const std::string& path, const struct stat& facts, const Refusal& refusal) {
    if (S_ISLNK(facts.st_mode)) {
        std::array<char, PATH_MAX> target{};
        const ssize_t length = ::readlink(path.c_str(), target.data(), target.size());
        return refusal.because(Code::kInvalidArgument,
                               fmt::format("{} is a symbolic link to {}: name the directory itself", path,
                                           std::string_view(target.data(),
                                                            static_cast<std::size_t>(std::max<ssize_t>(length, 0)))));
    }
    if (!S_ISDIR(facts.st_mode))
        return refusal.because(Code::kInvalidArgument, fmt::format("{} is not a directory", path));
    return Status::ok();
}

Status check_root(const std::string& root, const Refusal& refusal) {
    struct stat facts{};
    if (::lstat(root.c_str(), &facts) != 0) return refusal.because_errno(errno, "look at " + root);
    FOREBAY_TRY(check_is_directory(root, facts, refusal));
    if (facts.st_uid != ::geteuid())
        return refusal.because(Code::kPermissionDenied,
                               fmt::format("{} belongs to user {}, not to user {}", root, facts.st_uid, ::geteuid()));
    if ((facts.st_mode & 077) != 0)
        return refusal.because(Code::kPermissionDenied,
                               fmt::format("{} is accessible to other users (mode {:04o}): chmod 700 {}", root,
                                           facts.st_mode & 07777, root));
    if (::eaccess(root.c_str(), W_OK | X_OK) != 0) return refusal.because_errno(errno, "write into " + root);
    return Status::ok();
}

std::uint64_t unit_of(const struct statfs& facts) {
    return static_cast<std::uint64_t>(facts.f_frsize != 0 ? facts.f_frsize : facts.f_bsize);
}
std::uint64_t device_bytes_of(const struct statfs& facts) {
    return static_cast<std::uint64_t>(facts.f_blocks) * unit_of(facts);
}

}   // namespace

Status measure_space(StagingArea& area, const LoadedOptions& loaded) {
    int error = 0;
    const struct statfs facts = facts_of(area.root, error);
    if (error != 0) return Refusal(loaded, "nls").because_errno(error, "look at the file system of " + area.root);
    area.device_bytes = device_bytes_of(facts);
    area.free_bytes = static_cast<std::uint64_t>(facts.f_bavail) * unit_of(facts);
    if (area.device_bytes == 0) return Status::ok();   // a tmpfs or ramfs without a limit
    if (loaded.options.size > area.device_bytes)
        return Refusal(loaded, "size")
            .because(Code::kInvalidArgument,
                     fmt::format("more than the {} that {} ({}, from {}) has in all", format_size(area.device_bytes),
                                 loaded.options.nls, area.file_system, loaded.origin_of("nls")));
    if (area.free_bytes < 2 * loaded.options.segment)
        return Refusal(loaded, "nls")
            .because(Code::kNoSpace,
                     fmt::format("{} free on {}, two segments of {} are the least", format_size(area.free_bytes),
                                 area.file_system, format_size(loaded.options.segment)));
    return Status::ok();
}

void fit_to_staging_area(LoadedOptions& loaded) {
    int error = 0;
    const struct statfs facts = facts_of(without_trailing_slashes(loaded.options.nls), error);
    if (error != 0) return;   // the open reports it
    const std::uint64_t device_bytes = device_bytes_of(facts);
    if (device_bytes == 0 || device_bytes >= loaded.options.size) return;
    // This leaves a margin: a log holds more than payload, and a log without room bypasses.
    const std::uint64_t free_bytes = static_cast<std::uint64_t>(facts.f_bavail) * unit_of(facts);
    shrink_default_size(loaded, free_bytes - free_bytes / 16, "made to fit the staging area");
}

std::string staging_folder() { return fmt::format("{}{}", kStagingFolderPrefix, ::geteuid()); }

namespace {

// Checks `path` and opens its folder `forebay-<uid>`. `parent` receives the directory itself.
Result<StagingArea> enter_area(const std::string& path, const Refusal& refusal,
                               std::unique_ptr<io::Directory>& parent) {
    struct stat facts{};
    if (::lstat(path.c_str(), &facts) != 0) {
        if (errno != ENOENT) return refusal.because_errno(errno, "look at " + path);
        return refusal.because(
            Code::kNotFound,
            fmt::format("staging area {} does not exist: create it, or set nls= to a directory on a local device",
                        path),
            ENOENT);
    }
    FOREBAY_TRY(check_is_directory(path, facts, refusal));
    const Result<io::FileSystemKind> kind = io::file_system_of(path);
    if (!kind) return refusal.because(kind.status());
    if (kind.value().network)
        return refusal.because(Code::kUnsupported,
                               fmt::format("{} is on a network file system ({}): name a directory on a local device",
                                           path, kind.value().name));
    StagingArea area;
    area.root = (path == "/" ? "" : path) + "/" + staging_folder();
    area.file_system = kind.value().name;
    area.is_memory = kind.value().memory;
    auto opened = io::open_posix_directory(path);
    if (!opened) return refusal.because(opened.status());
    parent = std::move(opened).value();
    return area;
}

Status open_root(StagingArea& area, io::Directory& parent, const Refusal& refusal) {
    // Another process of this user may create it at the same moment. The check below covers both cases.
    if (auto created = parent.create_directory(staging_folder());
        !created && created.status().code() != Code::kAlreadyExists)
        return refusal.because(created.status());
    FOREBAY_TRY(check_root(area.root, refusal));
    // If nls is private or sticky, like /tmp, no other user can replace this user's directory between check and open.
    // `forebay doctor` reports an nls that is neither.
    auto root = parent.open_directory(staging_folder());
    if (!root) return refusal.because(root.status());
    area.directory = std::move(root).value();
    return Status::ok();
}

}   // namespace

Result<StagingArea> enter_staging_area(const LoadedOptions& loaded) {
    const Refusal refusal(loaded, "nls");
    const std::string nls = without_trailing_slashes(loaded.options.nls);
    std::unique_ptr<io::Directory> parent;
    auto entered = enter_area(nls, refusal, parent);
    FOREBAY_TRY(entered.status());
    StagingArea area = std::move(entered).value();
    const bool durable = loaded.options.durability == Durability::kNode;
    if (durable && area.is_memory)
        return Refusal(loaded, "durability")
            .because(Code::kUnsupported, fmt::format("{} is in memory ({}), which does not outlive a loss of power",
                                                     nls, area.file_system));
    FOREBAY_TRY(open_root(area, *parent, refusal));
    if (const Status synced = durable ? parent->sync() : Status::ok(); !synced) return refusal.because(synced);
    return area;
}

Result<StagingArea> open_staging_area(const LoadedOptions& loaded) {
    auto area = enter_staging_area(loaded);
    if (area) FOREBAY_TRY(measure_space(area.value(), loaded));
    return area;
}

Result<StagingArea> open_further_area(const Options& options, const std::string& path) {
    const Refusal refusal(options);
    std::unique_ptr<io::Directory> parent;
    auto entered = enter_area(without_trailing_slashes(path), refusal, parent);
    FOREBAY_TRY(entered.status());
    StagingArea area = std::move(entered).value();
    FOREBAY_TRY(open_root(area, *parent, refusal));
    int error = 0;
    const struct statfs facts = facts_of(area.root, error);
    if (error != 0) return refusal.because_errno(error, "look at the file system of " + area.root);
    area.device_bytes = device_bytes_of(facts);
    area.free_bytes = static_cast<std::uint64_t>(facts.f_bavail) * unit_of(facts);
    return area;
}

}   // namespace forebay::area
