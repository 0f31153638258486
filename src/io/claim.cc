#include "io/claim.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/posix_file.h"

namespace forebay::io {

namespace {

// Each attempt fails because somebody else has just given the name up.
constexpr int kAttempts = 1000;

struct flock whole(short type) noexcept {
    struct flock range {};
    range.l_type = type;
    range.l_whence = SEEK_SET;
    return range;
}

bool lock(int file) noexcept {
    struct flock range = whole(F_WRLCK);
    return ::fcntl(file, F_SETLK, &range) == 0;
}

// Whoever gives a name up removes the file while it is locked: then a lock on it is worth nothing.
bool is_there(int file) noexcept {
    struct stat facts {};
    return ::fstat(file, &facts) == 0 && facts.st_nlink > 0;
}

int open_folder(const std::string& folder) noexcept {
    return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

}   // namespace

Claim::Claim(int folder, int file, std::string name) noexcept : folder_(folder), file_(file), name_(std::move(name)), process_(::getpid()) {}

Result<std::unique_ptr<Claim>> Claim::make(const std::string& folder, const std::string& name) {
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return Status::from_errno(errno, "make " + folder);
    const int at = open_folder(folder);
    if (at < 0) return Status::from_errno(errno, "open " + folder);
    std::unique_ptr<Claim> claim(new Claim(at, -1, name));
    const std::string path = folder + "/" + name;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        const int file = ::openat(at, name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0) return Status::from_errno(errno, "open " + path);
        if (lock(file)) {
            if (is_there(file)) {
                claim->file_ = file;
                return claim;
            }
            ::close(file);
            continue;
        }
        const int error = errno;
        struct flock holder = whole(F_WRLCK);
        const bool known = ::fcntl(file, F_GETLK, &holder) == 0;
        ::close(file);
        if (error != EACCES && error != EAGAIN) return Status::from_errno(error, "lock " + path);
        if (known && holder.l_type == F_UNLCK) continue;
        return Status(Code::kUnavailable, known && holder.l_pid > 0 ? fmt::format("process {}", holder.l_pid) : std::string("another process"), EBUSY, true);
    }
    return Status(Code::kUnavailable, "lock " + path + ": others take and give it back all the time", EAGAIN, true);
}

Claim::~Claim() {
    if (file_ >= 0) {
        if (::getpid() == process_) (void)::unlinkat(folder_, name_.c_str(), 0);
        ::close(file_);
    }
    ::close(folder_);
}

bool Claim::is_held(const std::string& folder, const std::string& name) noexcept {
    const int at = open_folder(folder);
    if (at < 0) return false;
    const int file = ::openat(at, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ::close(at);
    if (file < 0) return false;
    struct flock holder = whole(F_WRLCK);
    const bool held = ::fcntl(file, F_GETLK, &holder) == 0 && holder.l_type != F_UNLCK;
    ::close(file);
    return held;
}

void Claim::remove_leftovers(const std::string& folder) {
    const auto directory = open_posix_directory(folder);
    const auto names = directory ? directory.value()->list() : directory.status();
    if (!names) return;
    const int at = open_folder(folder);
    if (at < 0) return;
    for (const std::string& name : names.value()) {
        const int file = ::openat(at, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file < 0) continue;
        if (lock(file) && is_there(file)) (void)::unlinkat(at, name.c_str(), 0);
        ::close(file);
    }
    ::close(at);
}

}   // namespace forebay::io
