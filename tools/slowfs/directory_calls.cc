// Calls on names: lookup, directories, links, renames.
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <array>
#include <memory>
#include <vector>

#include "call.h"
#include "filesystem.h"

namespace forebay::slowfs {

namespace {

FileSystem& directory_fs_of(fuse_req_t request) { return *static_cast<FileSystem*>(fuse_req_userdata(request)); }

// The kernel makes one read at a time on it.
struct Directory {
    DIR* stream = nullptr;
    dirent* pending = nullptr;   // read, but not yet sent for lack of room in the last reply
    off_t offset = 0;

    ~Directory() {
        if (stream != nullptr) ::closedir(stream);
    }
};

Directory& directory_of(const fuse_file_info* file) { return *reinterpret_cast<Directory*>(file->fh); }

void reply_entry(FileSystem& fs, fuse_req_t request, const fuse_entry_param& entry) {
    if (fuse_reply_entry(request, &entry) != 0 && entry.ino != FileSystem::kControlNode) {
        fs.inodes().forget(fs.inode(entry.ino), 1);
    }
}

void look_up(fuse_req_t request, fuse_ino_t parent, const char* name) {
    FileSystem& fs = directory_fs_of(request);
    fuse_entry_param entry;
    if (FileSystem::is_control(parent, name)) {
        (void)fs.look_up(parent, name, entry);
        return reply_entry(fs, request, entry);
    }
    Call call(fs, request, Op::kLookup, [&] { return fs.path_of(parent, name); });
    if (!call.proceed()) return;
    if (const int error = fs.look_up(parent, name, entry); error != 0) return call.fail(error);
    call.finish();
    reply_entry(fs, request, entry);
}

void forget_one(FileSystem& fs, fuse_ino_t node, std::uint64_t lookups) {
    if (node != FUSE_ROOT_ID && node != FileSystem::kControlNode) fs.inodes().forget(fs.inode(node), lookups);
}

void forget(fuse_req_t request, fuse_ino_t node, std::uint64_t lookups) {
    forget_one(directory_fs_of(request), node, lookups);
    fuse_reply_none(request);
}

void forget_many(fuse_req_t request, std::size_t count, fuse_forget_data* forgotten) {
    for (std::size_t i = 0; i < count; ++i)
        forget_one(directory_fs_of(request), forgotten[i].ino, forgotten[i].nlookup);
    fuse_reply_none(request);
}

// The common part of mknod, mkdir and symlink. `make` creates the name in the given directory and returns 0 or -1.
template <class Make>
void make_entry(fuse_req_t request, Op op, fuse_ino_t parent, const char* name, Make make) {
    FileSystem& fs = directory_fs_of(request);
    if (FileSystem::is_control(parent, name)) return static_cast<void>(fuse_reply_err(request, EEXIST));
    Call call(fs, request, op, [&] { return fs.path_of(parent, name); });
    if (!call.proceed()) return;
    const int directory = fs.inode(parent).fd;
    if (make(directory) != 0) return call.fail(errno);
    const fuse_ctx& client = *fuse_req_ctx(request);
    if (::geteuid() == 0 && client.uid != 0) {
        (void)!::fchownat(directory, name, client.uid, client.gid, AT_SYMLINK_NOFOLLOW);
    }
    fuse_entry_param entry;
    if (const int error = fs.look_up(parent, name, entry); error != 0) return call.fail(error);
    call.finish();
    reply_entry(fs, request, entry);
}

void make_node(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, dev_t device) {
    make_entry(request, Op::kCreate, parent, name, [&](int fd) { return ::mknodat(fd, name, mode, device); });
}

void make_directory(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode) {
    make_entry(request, Op::kMkdir, parent, name, [&](int fd) { return ::mkdirat(fd, name, mode); });
}

void make_symlink(fuse_req_t request, const char* target, fuse_ino_t parent, const char* name) {
    make_entry(request, Op::kSymlink, parent, name, [&](int fd) { return ::symlinkat(target, fd, name); });
}

void make_link(fuse_req_t request, fuse_ino_t node, fuse_ino_t parent, const char* name) {
    FileSystem& fs = directory_fs_of(request);
    if (node == FileSystem::kControlNode) return static_cast<void>(fuse_reply_err(request, EPERM));
    Call call(fs, request, Op::kLink, [&] { return fs.path_of(parent, name); });
    if (!call.proceed()) return;
    if (::linkat(AT_FDCWD, link_to(fs.inode(node).fd).c_str(), fs.inode(parent).fd, name, AT_SYMLINK_FOLLOW) != 0) {
        return call.fail(errno);
    }
    fuse_entry_param entry;
    if (const int error = fs.look_up(parent, name, entry); error != 0) return call.fail(error);
    call.finish();
    reply_entry(fs, request, entry);
}

void remove_entry(fuse_req_t request, Op op, fuse_ino_t parent, const char* name, int flags) {
    FileSystem& fs = directory_fs_of(request);
    if (FileSystem::is_control(parent, name)) return static_cast<void>(fuse_reply_err(request, EPERM));
    Call call(fs, request, op, [&] { return fs.path_of(parent, name); });
    if (!call.proceed()) return;
    if (::unlinkat(fs.inode(parent).fd, name, flags) != 0) return call.fail(errno);
    call.succeed();
}

void unlink_file(fuse_req_t request, fuse_ino_t parent, const char* name) {
    remove_entry(request, Op::kUnlink, parent, name, 0);
}

void remove_directory(fuse_req_t request, fuse_ino_t parent, const char* name) {
    remove_entry(request, Op::kRmdir, parent, name, AT_REMOVEDIR);
}

void rename_entry(fuse_req_t request, fuse_ino_t parent, const char* name, fuse_ino_t new_parent, const char* new_name,
                  unsigned flags) {
    FileSystem& fs = directory_fs_of(request);
    if (FileSystem::is_control(parent, name) || FileSystem::is_control(new_parent, new_name)) {
        return static_cast<void>(fuse_reply_err(request, EPERM));
    }
    Call call(fs, request, Op::kRename, [&] { return fs.path_of(parent, name); });
    if (!call.proceed()) return;
    if (::renameat2(fs.inode(parent).fd, name, fs.inode(new_parent).fd, new_name, flags) != 0) return call.fail(errno);
    call.succeed();
}

void read_symlink(fuse_req_t request, fuse_ino_t node) {
    FileSystem& fs = directory_fs_of(request);
    Call call(fs, request, Op::kReadlink, [&] { return fs.path_of(node); });
    if (!call.proceed()) return;
    std::array<char, PATH_MAX + 1> target{};
    if (::readlinkat(fs.inode(node).fd, "", target.data(), PATH_MAX) < 0) return call.fail(errno);
    call.finish();
    fuse_reply_readlink(request, target.data());
}

void open_directory(fuse_req_t request, fuse_ino_t node, fuse_file_info* file) {
    auto directory = std::make_unique<Directory>();
    const int fd = ::openat(directory_fs_of(request).inode(node).fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) directory->stream = ::fdopendir(fd);
    if (directory->stream == nullptr) {
        const int error = errno;
        if (fd >= 0) ::close(fd);
        fuse_reply_err(request, error);
        return;
    }
    file->fh = reinterpret_cast<std::uint64_t>(directory.get());
    if (fuse_reply_open(request, file) == 0) directory.release();
}

void read_directory(fuse_req_t request, fuse_ino_t node, std::size_t size, off_t offset, fuse_file_info* file) {
    FileSystem& fs = directory_fs_of(request);
    Call call(fs, request, Op::kReaddir, [&] { return fs.path_of(node); });
    if (!call.proceed()) return;
    Directory& directory = directory_of(file);
    if (offset != directory.offset) {
        ::seekdir(directory.stream, offset);
        directory.pending = nullptr;
        directory.offset = offset;
    }
    std::vector<char> reply(size);
    std::size_t used = 0;
    while (true) {
        if (directory.pending == nullptr) {
            errno = 0;
            directory.pending = ::readdir(directory.stream);
            if (directory.pending == nullptr && errno != 0 && used == 0) return call.fail(errno);
            if (directory.pending == nullptr) break;
        }
        const dirent& entry = *directory.pending;
        if (node != FUSE_ROOT_ID || FileSystem::kControlName != entry.d_name) {
            struct stat attributes{};
            attributes.st_ino = entry.d_ino;
            attributes.st_mode = static_cast<mode_t>(DTTOIF(entry.d_type));
            const std::size_t needed = fuse_add_direntry(request, reply.data() + used, size - used, entry.d_name,
                                                         &attributes, entry.d_off);
            if (needed > size - used) break;
            used += needed;
        }
        directory.offset = entry.d_off;
        directory.pending = nullptr;
    }
    call.finish();
    fuse_reply_buf(request, reply.data(), used);
}

void synchronise_directory(fuse_req_t request, fuse_ino_t node, int data_only, fuse_file_info* file) {
    FileSystem& fs = directory_fs_of(request);
    Call call(fs, request, Op::kFsync, [&] { return fs.path_of(node); });
    if (!call.proceed()) return;
    const int fd = ::dirfd(directory_of(file).stream);
    if ((data_only != 0 ? ::fdatasync(fd) : ::fsync(fd)) != 0) return call.fail(errno);
    call.succeed();
}

void release_directory(fuse_req_t request, fuse_ino_t, fuse_file_info* file) {
    delete &directory_of(file);
    fuse_reply_err(request, 0);
}

void file_system_status(fuse_req_t request, fuse_ino_t) {
    FileSystem& fs = directory_fs_of(request);
    Call call(fs, request, Op::kStatfs, [] { return std::string(); });
    if (!call.proceed()) return;
    struct statvfs status{};
    if (::fstatvfs(fs.inode(FUSE_ROOT_ID).fd, &status) != 0) return call.fail(errno);
    call.finish();
    fuse_reply_statfs(request, &status);
}

}   // namespace

void add_directory_calls(fuse_lowlevel_ops& calls) {
    calls.lookup = look_up;
    calls.forget = forget;
    calls.forget_multi = forget_many;
    calls.mknod = make_node;
    calls.mkdir = make_directory;
    calls.symlink = make_symlink;
    calls.link = make_link;
    calls.unlink = unlink_file;
    calls.rmdir = remove_directory;
    calls.rename = rename_entry;
    calls.readlink = read_symlink;
    calls.opendir = open_directory;
    calls.readdir = read_directory;
    calls.fsyncdir = synchronise_directory;
    calls.releasedir = release_directory;
    calls.statfs = file_system_status;
}

}   // namespace forebay::slowfs
