#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/attempt.h"
#include "io/lock_wait.h"
#include "io/path.h"
#include "io/posix_call.h"
#include "io/posix_file.h"
#include "io/process_lock.h"

namespace forebay::io {

namespace {

// A lock on an open directory that no other object shares. A child that another thread forks meanwhile inherits the
// descriptor, so closing it alone would leave the child the lock.
class PosixLock final : public Lock {
  public:
    PosixLock(int descriptor, std::string path) noexcept
        : descriptor_(descriptor, std::move(path), O_RDONLY | O_DIRECTORY) {}
    PosixLock(const PosixLock&) = delete;
    PosixLock& operator=(const PosixLock&) = delete;
    ~PosixLock() override {
        if (process_ == ::getpid() && descriptor_.is_ours()) (void)::flock(descriptor_.number(), LOCK_UN);
    }

  private:
    Descriptor descriptor_;
    const pid_t process_ = ::getpid();
};

class PosixDirectory final : public Directory {
  public:
    PosixDirectory(int descriptor, std::string name)
        : descriptor_(descriptor, complete_path(name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW), name_(std::move(name)) {}

    const std::string& name() const noexcept override { return name_; }

    Result<std::unique_ptr<File>> open_file(const std::string& name, OpenMode mode) override {
        int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;   // does not wait for the other end of a pipe
        switch (mode) {
            case OpenMode::kRead: flags |= O_RDONLY; break;
            case OpenMode::kReadWrite: flags |= O_RDWR; break;
            case OpenMode::kCreateNew: flags |= O_RDWR | O_CREAT | O_EXCL; break;
        }
        const auto use = descriptor_.use();
        if (!use) return use.status();
        const int descriptor = restarted([&] { return ::openat(use.value().number(), name.c_str(), flags, 0600); });
        if (descriptor < 0) return failure("open", name);
        auto owned = std::make_shared<Descriptor>(descriptor, complete_path(path_of(name)), flags);
        return make_staging_file(std::move(owned), path_of(name));
    }

    Result<std::unique_ptr<Directory>> create_directory(const std::string& name) override {
        const auto use = descriptor_.use();
        if (!use) return use.status();
        if (restarted([&] { return ::mkdirat(use.value().number(), name.c_str(), 0700); }) != 0)
            return failure("create directory", name);
        return open_directory(name);
    }

    Result<std::unique_ptr<Directory>> open_directory(const std::string& name) override {
        const auto use = descriptor_.use();
        if (!use) return use.status();
        const int descriptor = restarted([&] {
            return ::openat(use.value().number(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        });
        if (descriptor < 0) return failure("open directory", name);
        return std::unique_ptr<Directory>(std::make_unique<PosixDirectory>(descriptor, path_of(name)));
    }

    Status remove_file(const std::string& name) override {
        const auto use = descriptor_.use();
        if (!use) return use.status();
        if (restarted([&] { return ::unlinkat(use.value().number(), name.c_str(), 0); }) != 0)
            return failure("remove", name);
        return Status::ok();
    }

    Status remove_directory(const std::string& name) override {
        const auto use = descriptor_.use();
        if (!use) return use.status();
        if (restarted([&] { return ::unlinkat(use.value().number(), name.c_str(), AT_REMOVEDIR); }) != 0)
            return failure("remove directory", name);
        return Status::ok();
    }

    Result<std::vector<std::string>> list() override {
        const auto use = descriptor_.use();
        if (!use) return use.status();
        const int descriptor = restarted([&] {
            return ::openat(use.value().number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        });
        if (descriptor < 0) return failure("list", ".");
        DIR* stream = ::fdopendir(descriptor);
        if (stream == nullptr) {
            ::close(descriptor);
            return failure("list", ".");
        }
        struct Close {
            void operator()(DIR* open) const noexcept { ::closedir(open); }
        };
        std::unique_ptr<DIR, Close> closing(stream);   // closes it also without memory for a name
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
        const auto use = descriptor_.use();
        if (!use) return use.status();
        if (restarted([&] { return ::fsync(use.value().number()); }) != 0) return failure("sync", ".");
        return Status::ok();
    }

    Result<Facts> facts(const std::string& name) override {
        struct stat found{};
        if (name != "." || !is_at_rest_as(found)) {
            const auto use = descriptor_.use();
            const bool itself = name == ".";   // needs no descriptor, so it works when the process has none left
            if (!use && !itself) return use.status();
            const int outcome = use ? ::fstatat(use.value().number(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW)
                                    : ::lstat(name_.c_str(), &found);
            if (outcome != 0) return failure("stat", name);
        }
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
        const auto use = descriptor_.use();
        if (!use) return use.status();
        const int own = restarted([&] {
            return ::openat(use.value().number(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        });
        if (own < 0) return failure("open", ".");
        auto lock = std::make_unique<PosixLock>(own, name_);
        if (patience.at_most ? await_exclusive_lock(own, *patience.at_most)
                             : restarted([&] { return ::flock(own, LOCK_EX); }) == 0)
            return std::unique_ptr<Lock>(std::move(lock));
        if (errno == EWOULDBLOCK)
            return Status(Code::kUnavailable, "lock " + name_ + ": another process holds it", EWOULDBLOCK, true);
        return Status::from_errno(errno, "lock " + name_);
    }

    void rest() noexcept override { descriptor_.rest(); }

    Result<std::unique_ptr<Lock>> hold(const std::string& name) override {
        const auto use = descriptor_.use();
        if (!use) return use.status();
        auto lock = ProcessLock::take(use.value().number(), name, path_of(name));
        if (!lock) return lock.status();
        return std::unique_ptr<Lock>(std::move(lock).value());
    }
    Result<Holder> holder_of(const std::string& name) override {
        const auto use = descriptor_.use();
        if (!use) return use.status();
        return ProcessLock::holder(use.value().number(), name, path_of(name));
    }
    Result<std::unique_ptr<Lock>> keep_free(const std::string& name) override {
        const auto use = descriptor_.use();
        if (!use) return use.status();
        return ProcessLock::keep_free(use.value().number(), name, path_of(name));
    }

  private:
    std::string path_of(const std::string& name) const { return name_ + "/" + name; }
    // Returns true if the directory rests without a descriptor and its path still leads to it; `found` has its facts.
    bool is_at_rest_as(struct stat& found) const {
        const auto known = descriptor_.number() < 0 ? descriptor_.identity() : std::nullopt;
        return known && ::lstat(name_.c_str(), &found) == 0 && found.st_dev == known->device &&
               found.st_ino == known->inode;
    }
    Status failure(const char* call, const std::string& name) const {
        return failed_call(errno, [&] { return fmt::format("{} {}", call, path_of(name)); });
    }

    Descriptor descriptor_;
    const std::string name_;
};

}   // namespace

Result<std::unique_ptr<Directory>> open_posix_directory(const std::string& path) {
    const int descriptor = restarted([&] {
        return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    });
    if (descriptor < 0) return Status::from_errno(errno, "open directory " + path);
    return std::unique_ptr<Directory>(std::make_unique<PosixDirectory>(descriptor, path));
}

}   // namespace forebay::io
