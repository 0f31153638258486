#include "filesystem.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <cerrno>

#include <array>
#include <utility>

namespace forebay::slowfs {

Result<std::unique_ptr<FileSystem>> FileSystem::open(const std::string& backing, Simulation& simulation,
                                                     FileSystemOptions options) {
    const int fd = ::open(backing.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return Status::from_errno(errno, "open the backing directory " + backing);
    struct stat attributes{};
    std::array<char, PATH_MAX> path{};
    if (::fstat(fd, &attributes) != 0 || ::realpath(backing.c_str(), path.data()) == nullptr) {
        const int error = errno;
        ::close(fd);
        return Status::from_errno(error, "find out about the backing directory " + backing);
    }
    return std::unique_ptr<FileSystem>(new FileSystem(fd, attributes, path.data(), simulation, options));
}

FileSystem::FileSystem(int root_fd, const struct stat& attributes, std::string root_path, Simulation& simulation,
                       FileSystemOptions options)
    : root_(root_fd, attributes), root_path_(std::move(root_path)), simulation_(simulation), options_(options) {
    add_file_calls(calls_);
    add_directory_calls(calls_);
    // If slowfs lacks lock calls, the kernel keeps locks itself, as for a local file system.
    if (!options_.locks) add_lock_refusals(calls_);
}

Inode& FileSystem::inode(fuse_ino_t node) noexcept {
    return node == FUSE_ROOT_ID ? root_ : *reinterpret_cast<Inode*>(node);
}

bool FileSystem::is_control(fuse_ino_t parent, const char* name) noexcept {
    return parent == FUSE_ROOT_ID && name == kControlName;
}

struct stat FileSystem::control_attributes() noexcept {
    struct stat attributes{};
    attributes.st_ino = 0x736c6f776673;   // far from the first inode numbers of file systems
    attributes.st_mode = S_IFREG | 0600;
    attributes.st_nlink = 1;
    attributes.st_uid = ::geteuid();
    attributes.st_gid = ::getegid();
    return attributes;
}

void FileSystem::tell_times(struct stat& attributes) const noexcept {
    const auto behind = static_cast<time_t>(options_.clock_behind_s);
    attributes.st_atim.tv_sec -= behind;
    attributes.st_mtim.tv_sec -= behind;
    attributes.st_ctim.tv_sec -= behind;
}

std::string FileSystem::path_of(fuse_ino_t node) {
    std::array<char, PATH_MAX> target{};
    const ssize_t length = ::readlink(link_to(inode(node).fd).c_str(), target.data(), target.size());
    std::string path(target.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
    if (constexpr std::string_view kDeleted = " (deleted)"; path.ends_with(kDeleted)) {
        path.resize(path.size() - kDeleted.size());
    }
    if (path.starts_with(root_path_)) path.erase(0, root_path_.size());
    if (path.starts_with('/')) path.erase(0, 1);
    return path;
}

std::string FileSystem::path_of(fuse_ino_t parent, const char* name) {
    std::string path = path_of(parent);
    if (!path.empty()) path += '/';
    return path + name;
}

int FileSystem::look_up(fuse_ino_t parent, const char* name, fuse_entry_param& entry) {
    entry = {};
    if (is_control(parent, name)) {
        entry.attr = control_attributes();
        entry.ino = kControlNode;
        return 0;
    }
    const int fd = ::openat(inode(parent).fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return errno;
    if (::fstat(fd, &entry.attr) != 0) {
        const int error = errno;
        ::close(fd);
        return error;
    }
    entry.ino = reinterpret_cast<fuse_ino_t>(&inodes_.found(fd, entry.attr));
    tell_times(entry.attr);
    return 0;
}

std::string link_to(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

}   // namespace forebay::slowfs
