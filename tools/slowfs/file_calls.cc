// Calls on files: open, read, write, attributes, locks, and the control file.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "call.h"
#include "control.h"
#include "filesystem.h"
#include "reply.h"
#include "split_tracker.h"

namespace forebay::slowfs {

namespace {

FileSystem& fs_of(fuse_req_t request) { return *static_cast<FileSystem*>(fuse_req_userdata(request)); }

struct OpenFile {
    int fd = -1;
    SplitTracker reads;
    SplitTracker writes;

    explicit OpenFile(int backing_fd) noexcept : fd(backing_fd) {}
    ~OpenFile() { ::close(fd); }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
};

OpenFile& open_file_of(const fuse_file_info* file) { return *reinterpret_cast<OpenFile*>(file->fh); }

int fd_of(const fuse_file_info* file) { return open_file_of(file).fd; }

template <class Handle>
std::uint64_t number_of(const std::unique_ptr<Handle>& handle) {
    return reinterpret_cast<std::uint64_t>(handle.get());
}

// The mount already satisfies the client's O_DIRECT, which would require aligned buffers here.
int backing_flags(int flags) { return (flags & ~(O_NOFOLLOW | O_DIRECT)) | O_CLOEXEC; }

// One open of the control file. It holds the report of its first read.
struct ControlHandle {
    std::mutex mutex;
    std::string report;
};

ControlHandle& control_of(const fuse_file_info* file) { return *reinterpret_cast<ControlHandle*>(file->fh); }

void read_control(fuse_req_t request, std::size_t size, off_t offset, const fuse_file_info* file) {
    ControlHandle& handle = control_of(file);
    std::string part;
    {
        const std::scoped_lock lock(handle.mutex);
        if (offset == 0) handle.report = report(fs_of(request).simulation());
        part = handle.report.substr(std::min(static_cast<std::size_t>(offset), handle.report.size()), size);
    }
    // After the reply the reader may close the handle, so its lock is not held here.
    fuse_reply_buf(request, part.data(), part.size());
}

void write_control(fuse_req_t request, const char* data, std::size_t size) {
    Simulation& simulation = fs_of(request).simulation();
    if (Status status = execute_lines(simulation, {data, size}); !status) {
        // A write() can only return a number. So the message goes to slowfs's standard error.
        std::fprintf(stderr, "slowfs: control: %s\n", status.message().c_str());
        fuse_reply_err(request, EINVAL);
        return;
    }
    fuse_reply_write(request, size);
}

void get_attributes(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
    if (node == FileSystem::kControlNode) {
        const struct stat attributes = FileSystem::control_attributes();
        fuse_reply_attr(request, &attributes, 0);
        return;
    }
    FileSystem& fs = fs_of(request);
    Call call(fs, request, Op::kGetattr, [&] { return fs.path_of(node); });
    if (!call.proceed()) return;
    struct stat attributes{};
    if (::fstat(fs.inode(node).fd, &attributes) != 0) return call.fail(errno);
    fs.tell_times(attributes);
    call.finish();
    fuse_reply_attr(request, &attributes, 0);
}

timespec time_to_set(int to_set, int given, int now, const timespec& time) {
    if ((to_set & now) != 0) return {.tv_sec = 0, .tv_nsec = UTIME_NOW};
    if ((to_set & given) != 0) return time;
    return {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
}

int change_attributes(const Inode& inode, const struct stat& wanted, int to_set, const fuse_file_info* file) {
    const std::string link = link_to(inode.fd);
    if ((to_set & FUSE_SET_ATTR_MODE) != 0 && ::chmod(link.c_str(), wanted.st_mode) != 0) return errno;
    if ((to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)) != 0) {
        const uid_t owner = (to_set & FUSE_SET_ATTR_UID) != 0 ? wanted.st_uid : static_cast<uid_t>(-1);
        const gid_t group = (to_set & FUSE_SET_ATTR_GID) != 0 ? wanted.st_gid : static_cast<gid_t>(-1);
        if (::fchownat(inode.fd, "", owner, group, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0) return errno;
    }
    if ((to_set & FUSE_SET_ATTR_SIZE) != 0) {
        const int result = file != nullptr ? ::ftruncate(fd_of(file), wanted.st_size)
                                           : ::truncate(link.c_str(), wanted.st_size);
        if (result != 0) return errno;
    }
    if ((to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)) != 0) {
        const timespec times[2] = {
            time_to_set(to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW, wanted.st_atim),
            time_to_set(to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW, wanted.st_mtim),
        };
        if (::utimensat(AT_FDCWD, link.c_str(), times, 0) != 0) return errno;
    }
    return 0;
}

void set_attributes(fuse_req_t request, fuse_ino_t node, struct stat* wanted, int to_set, fuse_file_info* file) {
    // `echo clear > .slowfs` truncates it first.
    if (node == FileSystem::kControlNode) return get_attributes(request, node, file);
    FileSystem& fs = fs_of(request);
    const Op op = (to_set & FUSE_SET_ATTR_SIZE) != 0 ? Op::kTruncate : Op::kSetattr;
    Call call(fs, request, op, [&] { return fs.path_of(node); });
    if (!call.proceed()) return;
    const auto behind = static_cast<time_t>(fs.options().clock_behind_s);
    wanted->st_atim.tv_sec += behind;
    wanted->st_mtim.tv_sec += behind;
    if (const int error = change_attributes(fs.inode(node), *wanted, to_set, file); error != 0) return call.fail(error);
    struct stat attributes{};
    if (::fstat(fs.inode(node).fd, &attributes) != 0) return call.fail(errno);
    fs.tell_times(attributes);
    call.finish();
    fuse_reply_attr(request, &attributes, 0);
}

void open_file(fuse_req_t request, fuse_ino_t node, fuse_file_info* file) {
    if (node == FileSystem::kControlNode) {
        auto handle = std::make_unique<ControlHandle>();
        if (reply_open(request, number_of(handle), false) == 0) handle.release();
        return;
    }
    FileSystem& fs = fs_of(request);
    Call call(fs, request, Op::kOpen, [&] { return fs.path_of(node); });
    if (!call.proceed()) return;
    const int fd = ::open(link_to(fs.inode(node).fd).c_str(), backing_flags(file->flags));
    if (fd < 0) return call.fail(errno);
    auto opened = std::make_unique<OpenFile>(fd);
    call.finish();
    if (reply_open(request, number_of(opened), fs.options().page_cache) == 0) opened.release();
}

void create_file(fuse_req_t request, fuse_ino_t parent, const char* name, mode_t mode, fuse_file_info* file) {
    FileSystem& fs = fs_of(request);
    if (FileSystem::is_control(parent, name)) {
        fuse_reply_err(request, EEXIST);
        return;
    }
    Call call(fs, request, Op::kCreate, [&] { return fs.path_of(parent, name); });
    if (!call.proceed()) return;
    const int fd = ::openat(fs.inode(parent).fd, name, backing_flags(file->flags) | O_CREAT | O_NOFOLLOW, mode);
    if (fd < 0) return call.fail(errno);
    auto opened = std::make_unique<OpenFile>(fd);
    const fuse_ctx& client = *fuse_req_ctx(request);
    if (::geteuid() == 0 && client.uid != 0) (void)!::fchown(fd, client.uid, client.gid);
    fuse_entry_param entry;
    if (const int error = fs.look_up(parent, name, entry); error != 0) return call.fail(error);
    call.finish();
    if (reply_create(request, entry, number_of(opened), fs.options().page_cache) == 0) {
        opened.release();
    } else {
        fs.inodes().forget(fs.inode(entry.ino), 1);
    }
}

void read_file(fuse_req_t request, fuse_ino_t node, std::size_t size, off_t offset, fuse_file_info* file) {
    if (node == FileSystem::kControlNode) return read_control(request, size, offset, file);
    thread_local std::vector<char> buffer;
    FileSystem& fs = fs_of(request);
    Call call(fs, request, Op::kRead, [&] { return fs.path_of(node); }, static_cast<std::uint64_t>(offset), size);
    if (open_file_of(file).reads.is_rest(fuse_req_ctx(request)->pid, static_cast<std::uint64_t>(offset), size)) {
        call.mark_as_rest();
    }
    if (!call.proceed()) return;
    if (buffer.size() < size) buffer.resize(size);
    const ssize_t moved = ::pread(fd_of(file), buffer.data(), call.size_bytes(), offset);
    if (moved < 0) return call.fail(errno);
    call.finish(static_cast<std::uint64_t>(moved));
    fuse_reply_buf(request, buffer.data(), static_cast<std::size_t>(moved));
}

void write_file(fuse_req_t request, fuse_ino_t node, const char* data, std::size_t size, off_t offset,
                fuse_file_info* file) {
    if (node == FileSystem::kControlNode) return write_control(request, data, size);
    FileSystem& fs = fs_of(request);
    Call call(fs, request, Op::kWrite, [&] { return fs.path_of(node); }, static_cast<std::uint64_t>(offset), size);
    if (open_file_of(file).writes.is_rest(fuse_req_ctx(request)->pid, static_cast<std::uint64_t>(offset), size)) {
        call.mark_as_rest();
    }
    if (!call.proceed()) return;
    if (call.late_error() != 0) {
        fs.inode(node).late_error = call.late_error();
        call.finish(size);
        fuse_reply_write(request, size);
        return;
    }
    const ssize_t moved = ::pwrite(fd_of(file), data, call.size_bytes(), offset);
    if (moved < 0) return call.fail(errno);
    call.finish(static_cast<std::uint64_t>(moved));
    fuse_reply_write(request, static_cast<std::size_t>(moved));
}

void allocate(fuse_req_t request, fuse_ino_t node, int mode, off_t offset, off_t length, fuse_file_info* file) {
    // ENOSYS would stop the kernel from asking again, for any file.
    if (node == FileSystem::kControlNode) return static_cast<void>(fuse_reply_err(request, EOPNOTSUPP));
    FileSystem& fs = fs_of(request);
    Call call(
        fs, request, Op::kFallocate, [&] { return fs.path_of(node); }, static_cast<std::uint64_t>(offset),
        static_cast<std::uint64_t>(length));
    if (!call.proceed()) return;
    if (::fallocate(fd_of(file), mode, offset, length) != 0) return call.fail(errno);
    call.succeed();
}

void seek(fuse_req_t request, fuse_ino_t node, off_t offset, int whence, fuse_file_info* file) {
    if (node == FileSystem::kControlNode) return static_cast<void>(fuse_reply_err(request, EINVAL));
    FileSystem& fs = fs_of(request);
    Call call(fs, request, Op::kSeek, [&] { return fs.path_of(node); });
    if (!call.proceed()) return;
    const off_t position = ::lseek(fd_of(file), offset, whence);
    if (position < 0) return call.fail(errno);
    call.finish();
    fuse_reply_lseek(request, position);
}

void flush(fuse_req_t request, fuse_ino_t node, fuse_file_info*) {
    if (node == FileSystem::kControlNode) return static_cast<void>(fuse_reply_err(request, 0));
    FileSystem& fs = fs_of(request);
    Call call(fs, request, Op::kFlush, [&] { return fs.path_of(node); });
    if (!call.proceed()) return;
    if (const int error = fs.inode(node).late_error.exchange(0); error != 0) return call.fail(error);
    call.succeed();   // there is no buffer to flush
}

void synchronise(fuse_req_t request, fuse_ino_t node, int data_only, fuse_file_info* file) {
    if (node == FileSystem::kControlNode) return static_cast<void>(fuse_reply_err(request, 0));
    FileSystem& fs = fs_of(request);
    Call call(fs, request, Op::kFsync, [&] { return fs.path_of(node); });
    if (!call.proceed()) return;
    if (const int error = fs.inode(node).late_error.exchange(0); error != 0) return call.fail(error);
    if ((data_only != 0 ? ::fdatasync(fd_of(file)) : ::fsync(fd_of(file))) != 0) return call.fail(errno);
    call.succeed();
}

void release(fuse_req_t request, fuse_ino_t node, fuse_file_info* file) {
    if (node == FileSystem::kControlNode) {
        delete &control_of(file);
    } else {
        delete &open_file_of(file);
    }
    fuse_reply_err(request, 0);
}

void refuse_flock(fuse_req_t request, fuse_ino_t, fuse_file_info*, int) { fuse_reply_err(request, ENOSYS); }

void refuse_get_lock(fuse_req_t request, fuse_ino_t, fuse_file_info*, struct flock*) {
    fuse_reply_err(request, ENOSYS);
}

void refuse_set_lock(fuse_req_t request, fuse_ino_t, fuse_file_info*, struct flock*, int) {
    fuse_reply_err(request, ENOSYS);
}

}   // namespace

void add_file_calls(fuse_lowlevel_ops& calls) {
    calls.getattr = get_attributes;
    calls.setattr = set_attributes;
    calls.open = open_file;
    calls.create = create_file;
    calls.read = read_file;
    calls.write = write_file;
    calls.fallocate = allocate;
    calls.lseek = seek;
    calls.flush = flush;
    calls.fsync = synchronise;
    calls.release = release;
}

void add_lock_refusals(fuse_lowlevel_ops& calls) {
    calls.flock = refuse_flock;
    calls.getlk = refuse_get_lock;
    calls.setlk = refuse_set_lock;
}

}   // namespace forebay::slowfs
