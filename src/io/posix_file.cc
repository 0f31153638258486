#include "io/posix_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <limits>

#include "io/guarded_access.h"

namespace forebay::io {

namespace {

// Linux transfers at most 0x7ffff000 bytes per call; a round number below keeps the pieces aligned.
constexpr std::size_t kTransferMax = std::size_t{1} << 30;
constexpr std::size_t kPiecesMax = 1024;   // IOV_MAX on Linux

template <class Call>
auto restarted(Call call) {
    for (;;) {
        const auto result = call();
        if (result >= 0 || errno != EINTR) return result;
    }
}

std::uint64_t modified_ns(const struct stat& facts) {
    return static_cast<std::uint64_t>(facts.st_mtim.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(facts.st_mtim.tv_nsec);
}

off_t as_off(std::uint64_t value) { return static_cast<off_t>(value); }

class PosixMapping final : public Mapping {
  public:
    explicit PosixMapping(MutableBytes bytes) noexcept : Mapping(bytes) {}
    ~PosixMapping() override { ::munmap(bytes().data(), bytes().size()); }

    void touch() noexcept override {
#ifdef MADV_POPULATE_WRITE
        if (::madvise(bytes().data(), bytes().size(), MADV_POPULATE_WRITE) == 0) return;
#endif
        // Kernels before 5.14: pages are touched by whoever stores first.
    }
    bool present(Bytes part) noexcept override {
        if (part.empty()) return true;
        const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), before = reinterpret_cast<std::uintptr_t>(part.data()) % page;
        const MutableBytes pages(const_cast<std::byte*>(part.data()) - before, part.size() + before);
        if (all_in_memory(pages, page)) return true;
#ifdef MADV_POPULATE_READ
        if (restarted([&] { return ::madvise(pages.data(), pages.size(), MADV_POPULATE_READ); }) == 0) return true;
#endif
        return find_unreadable(part, part.data()) == nullptr;
    }

  private:
    // Asks the page cache, a fifth of the cost of loading the pages into the process's tables.
    static bool all_in_memory(MutableBytes pages, std::size_t page) noexcept {
        std::array<unsigned char, 512> in_memory;
        for (; !pages.empty(); pages = pages.subspan(std::min(pages.size(), in_memory.size() * page))) {
            const std::size_t bytes = std::min(pages.size(), in_memory.size() * page), count = (bytes + page - 1) / page;
            if (::mincore(pages.data(), bytes, in_memory.data()) != 0) return false;
            if (!std::all_of(in_memory.begin(), in_memory.begin() + static_cast<std::ptrdiff_t>(count), [](unsigned char flags) { return (flags & 1) != 0; })) return false;
        }
        return true;
    }
};

class PosixFile final : public File {
  public:
    PosixFile(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
    ~PosixFile() override { ::close(descriptor_); }

    const std::string& name() const noexcept override { return name_; }

    Result<std::size_t> read_at(std::uint64_t offset, MutableBytes into) override {
        std::size_t done = 0;
        while (done < into.size()) {
            const std::size_t want = std::min(into.size() - done, kTransferMax);
            const ssize_t got = restarted(
                [&] { return ::pread(descriptor_, into.data() + done, want, as_off(offset + done)); });
            if (got < 0) return failure("read", offset + done, want);
            if (got == 0) break;
            done += static_cast<std::size_t>(got);
        }
        return done;
    }

    Status write_at(std::uint64_t offset, Bytes bytes) override {
        return write_gather_at(offset, std::span(&bytes, 1));
    }

    Status write_gather_at(std::uint64_t offset, std::span<const Bytes> pieces) override {
        std::size_t skip = 0;   // bytes of pieces.front() already written
        while (!pieces.empty()) {
            if (pieces.front().size() == skip) {
                pieces = pieces.subspan(1);
                skip = 0;
                continue;
            }
            std::array<iovec, kPiecesMax> vector;
            std::size_t count = 0, want = 0;
            for (const Bytes& piece : pieces.first(std::min(pieces.size(), kPiecesMax))) {
                const Bytes rest = piece.subspan(count == 0 ? skip : 0);
                const std::size_t take = std::min(rest.size(), kTransferMax - want);
                // iovec has no const form; pwritev only reads through it.
                vector[count++] = {const_cast<std::byte*>(rest.data()), take};
                want += take;
                if (take < rest.size()) break;
            }
            const ssize_t wrote = restarted(
                [&] { return ::pwritev(descriptor_, vector.data(), static_cast<int>(count), as_off(offset)); });
            if (wrote < 0) return failure("write", offset, want);
            if (wrote == 0) {
                errno = EIO;
                return failure("write", offset, want);
            }
            offset += static_cast<std::uint64_t>(wrote);
            std::size_t advance = static_cast<std::size_t>(wrote) + skip;
            while (!pieces.empty() && advance >= pieces.front().size()) {
                advance -= pieces.front().size();
                pieces = pieces.subspan(1);
            }
            skip = advance;
        }
        return Status::ok();
    }

    Result<std::uint64_t> size() override {
        struct stat facts {};
        if (::fstat(descriptor_, &facts) != 0) return failure("stat");
        return static_cast<std::uint64_t>(facts.st_size);
    }

    Status resize(std::uint64_t size) override {
        if (restarted([&] { return ::ftruncate(descriptor_, as_off(size)); }) != 0)
            return Status::from_errno(errno, fmt::format("set size of {} to {} bytes", name_, size));
        return Status::ok();
    }

    Status allocate(std::uint64_t offset, std::uint64_t length) override {
        if (restarted([&] { return ::fallocate(descriptor_, 0, as_off(offset), as_off(length)); }) == 0)
            return Status::ok();
        if (errno != EOPNOTSUPP) return failure("allocate", offset, length);
        // File systems without fallocate: writing is the only reservation there is.
        const int error = ::posix_fallocate(descriptor_, as_off(offset), as_off(length));
        if (error == 0) return Status::ok();
        errno = error;
        return failure("allocate", offset, length);
    }

    Status punch(std::uint64_t offset, std::uint64_t length) override {
        if (restarted([&] {
                return ::fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, as_off(offset),
                                   as_off(length));
            }) != 0)
            return failure("punch a hole", offset, length);
        return Status::ok();
    }

    Result<std::unique_ptr<Mapping>> map(std::uint64_t offset, std::size_t length) override {
        install_fault_handler();
        void* address =
            ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, as_off(offset));
        if (address == MAP_FAILED) return failure("map", offset, length);
        return std::unique_ptr<Mapping>(
            std::make_unique<PosixMapping>(MutableBytes(static_cast<std::byte*>(address), length)));
    }

    Status sync() override {
        if (restarted([&] { return ::fdatasync(descriptor_); }) != 0) return failure("sync");
        return Status::ok();
    }

    void begin_sync(std::uint64_t offset, std::uint64_t length) noexcept override {
        // This flag alone waits for nothing, and takes no error of the file away from a later sync.
        (void)::sync_file_range(descriptor_, as_off(offset), as_off(length), SYNC_FILE_RANGE_WRITE);
    }

  private:
    Status failure(const char* call) const {
        const int error = errno;
        return Status::from_errno(error, fmt::format("{} {}", call, name_));
    }
    Status failure(const char* call, std::uint64_t offset, std::uint64_t length) const {
        const int error = errno;
        return Status::from_errno(error,
                                  fmt::format("{} {} bytes at offset {} of {}", call, length, offset, name_));
    }

    int descriptor_;
    std::string name_;
};

// Of an open file of its own, so that closing it ends the lock.
class PosixLock final : public Lock {
  public:
    explicit PosixLock(int descriptor) noexcept : descriptor_(descriptor) {}
    ~PosixLock() override { ::close(descriptor_); }

  private:
    int descriptor_;
};

// Whether the lock was had; else errno says why. flock waits without end or not at all, so somebody else's lock is waited for by its
// effect: whoever gives it up, or dies, closes the directory, and the kernel tells (inotify). It does not tell of another machine's, and may
// refuse to, so it is tried again now and then all the same.
bool lock_within(int directory, std::chrono::milliseconds at_most) {
    constexpr std::chrono::milliseconds kTryAgain{500};
    const auto end = std::chrono::steady_clock::now() + at_most;
    int closed = -1;
    for (;;) {
        if (restarted([&] { return ::flock(directory, LOCK_EX | LOCK_NB); }) == 0) break;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        if (errno != EWOULDBLOCK || left.count() <= 0) {
            const int error = errno;
            if (closed >= 0) ::close(closed);
            errno = error;
            return false;
        }
        if (closed < 0) {
            closed = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
            if (closed >= 0 && ::inotify_add_watch(closed, fmt::format("/proc/self/fd/{}", directory).c_str(), IN_CLOSE) >= 0) continue;   // it may have been closed before that
        }
        pollfd waiting{closed, POLLIN, 0};   // a negative one is passed over
        (void)::poll(&waiting, 1, static_cast<int>(std::min(left, kTryAgain).count()));
        std::array<char, 4096> told;
        while (closed >= 0 && ::read(closed, told.data(), told.size()) > 0) {
        }
    }
    if (closed >= 0) ::close(closed);
    return true;
}

class PosixDirectory final : public Directory {
  public:
    PosixDirectory(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}
    ~PosixDirectory() override { ::close(descriptor_); }

    const std::string& name() const noexcept override { return name_; }

    Result<std::unique_ptr<File>> open_file(const std::string& name, OpenMode mode) override {
        int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;   // nobody's pipe is waited for
        switch (mode) {
            case OpenMode::kRead: flags |= O_RDONLY; break;
            case OpenMode::kReadWrite: flags |= O_RDWR; break;
            case OpenMode::kCreateNew: flags |= O_RDWR | O_CREAT | O_EXCL; break;
        }
        const int descriptor = restarted([&] { return ::openat(descriptor_, name.c_str(), flags, 0600); });
        if (descriptor < 0) return failure("open", name);
        return adopt_posix_file(descriptor, path_of(name));
    }

    Result<std::unique_ptr<Directory>> create_directory(const std::string& name) override {
        if (::mkdirat(descriptor_, name.c_str(), 0700) != 0) return failure("create directory", name);
        return open_directory(name);
    }

    Result<std::unique_ptr<Directory>> open_directory(const std::string& name) override {
        const int descriptor = restarted([&] {
            return ::openat(descriptor_, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        });
        if (descriptor < 0) return failure("open directory", name);
        return std::unique_ptr<Directory>(std::make_unique<PosixDirectory>(descriptor, path_of(name)));
    }

    Status remove_file(const std::string& name) override {
        if (::unlinkat(descriptor_, name.c_str(), 0) != 0) return failure("remove", name);
        return Status::ok();
    }

    Status remove_directory(const std::string& name) override {
        if (::unlinkat(descriptor_, name.c_str(), AT_REMOVEDIR) != 0) return failure("remove directory", name);
        return Status::ok();
    }

    Result<std::vector<std::string>> list() override {
        const int descriptor = ::openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (descriptor < 0) return failure("list", ".");
        DIR* stream = ::fdopendir(descriptor);
        if (stream == nullptr) {
            ::close(descriptor);
            return failure("list", ".");
        }
        struct Close {
            void operator()(DIR* open) const noexcept { ::closedir(open); }
        };
        std::unique_ptr<DIR, Close> closing(stream);   // also if there is no memory for a name
        std::vector<std::string> names;
        errno = 0;
        while (const dirent* entry = ::readdir(stream)) {
            const std::string name = entry->d_name;
            if (name != "." && name != "..") names.push_back(name);
            errno = 0;
        }
        const int error = errno;
        closing.reset();
        errno = error;
        if (error != 0) return failure("list", ".");
        std::sort(names.begin(), names.end());
        return names;
    }

    Status sync() override {
        if (restarted([&] { return ::fsync(descriptor_); }) != 0) return failure("sync", ".");
        return Status::ok();
    }

    Result<Facts> facts(const std::string& name) override {
        struct stat found {};
        if (::fstatat(descriptor_, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) return failure("stat", name);
        Facts facts;
        facts.owner = found.st_uid;
        facts.mode = found.st_mode & 07777;
        facts.modified_ns = modified_ns(found);
        if (S_ISREG(found.st_mode)) facts.kind = Facts::Kind::kFile;
        else if (S_ISDIR(found.st_mode)) facts.kind = Facts::Kind::kDirectory;
        else if (S_ISLNK(found.st_mode)) facts.kind = Facts::Kind::kSymbolicLink;
        return facts;
    }

    Result<std::unique_ptr<Lock>> lock(Patience patience) override {
        const int own = ::openat(descriptor_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (own < 0) return failure("open", ".");
        auto lock = std::make_unique<PosixLock>(own);
        if (patience.at_most ? lock_within(own, *patience.at_most) : restarted([&] { return ::flock(own, LOCK_EX); }) == 0)
            return std::unique_ptr<Lock>(std::move(lock));
        if (errno == EWOULDBLOCK) return Status(Code::kUnavailable, "lock " + name_ + ": another process holds it", EWOULDBLOCK, true);
        return Status::from_errno(errno, "lock " + name_);
    }

  private:
    std::string path_of(const std::string& name) const { return name_ + "/" + name; }
    Status failure(const char* call, const std::string& name) const {
        const int error = errno;
        return Status::from_errno(error, fmt::format("{} {}", call, path_of(name)));
    }

    int descriptor_;
    std::string name_;
};

}   // namespace

std::unique_ptr<File> adopt_posix_file(int descriptor, std::string name) {
    return std::make_unique<PosixFile>(descriptor, std::move(name));
}

Result<std::unique_ptr<File>> duplicate_posix_file(int descriptor, std::string name) {
    const int copy = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) return Status::from_errno(errno, "duplicate the descriptor of " + name);
    return adopt_posix_file(copy, std::move(name));
}

Result<Identity> identify(int descriptor, const std::string& name) {
    struct stat facts {};
    if (::fstat(descriptor, &facts) != 0) return Status::from_errno(errno, "stat " + name);
    return Identity{static_cast<std::uint64_t>(facts.st_dev), static_cast<std::uint64_t>(facts.st_ino)};
}

Result<Identity> identify(const std::string& path) {
    struct stat facts {};
    if (::stat(path.c_str(), &facts) != 0) return Status::from_errno(errno, "stat " + path);
    return Identity{static_cast<std::uint64_t>(facts.st_dev), static_cast<std::uint64_t>(facts.st_ino)};
}

std::uint64_t born_ns(const std::string& path) noexcept {
    struct statx facts {};
    if (::statx(AT_FDCWD, path.c_str(), 0, STATX_BTIME, &facts) != 0 || (facts.stx_mask & STATX_BTIME) == 0) return 0;
    return static_cast<std::uint64_t>(facts.stx_btime.tv_sec) * 1'000'000'000 + facts.stx_btime.tv_nsec;
}

Status set_modified(const std::string& path, std::uint64_t modified_ns) {
    constexpr std::uint64_t kSecond = 1'000'000'000;
    const timespec times[] = {{0, UTIME_OMIT}, {static_cast<time_t>(modified_ns / kSecond), static_cast<long>(modified_ns % kSecond)}};
    if (::utimensat(AT_FDCWD, path.c_str(), times, 0) != 0) return Status::from_errno(errno, "set the time of the last change of " + path);
    return Status::ok();
}

Result<ExistingFile> open_existing_file(const std::string& path) {
    // Not blocking: what has taken the file's place may be a pipe.
    const int descriptor = restarted([&] { return ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); });
    if (descriptor < 0) return Status::from_errno(errno, "open " + path);
    ExistingFile existing{adopt_posix_file(descriptor, path), {}, 0};
    struct stat facts {};
    if (::fstat(descriptor, &facts) != 0) return Status::from_errno(errno, "stat " + path);
    if (!S_ISREG(facts.st_mode)) return Status(Code::kInvalidArgument, "open " + path + ": it is no regular file");
    existing.identity = {static_cast<std::uint64_t>(facts.st_dev), static_cast<std::uint64_t>(facts.st_ino)};
    existing.modified_ns = modified_ns(facts);
    if (restarted([&] { return ::flock(descriptor, LOCK_EX | LOCK_NB); }) != 0 && errno == EWOULDBLOCK)
        return Status(Code::kUnavailable, "open " + path + ": another process has it open", EWOULDBLOCK, true);
    return existing;
}

Result<std::unique_ptr<Directory>> open_posix_directory(const std::string& path) {
    const int descriptor = restarted(
        [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); });
    if (descriptor < 0) return Status::from_errno(errno, "open directory " + path);
    return std::unique_ptr<Directory>(std::make_unique<PosixDirectory>(descriptor, path));
}

}   // namespace forebay::io
