#include "io/claim.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "io/own_descriptor.h"
#include "io/posix_file.h"

namespace forebay::io {

namespace {

int open_folder(const std::string& path) noexcept {
    return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

}   // namespace

Result<std::unique_ptr<Claim>> Claim::make(const std::string& folder, const std::string& name) {
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return Status::from_errno(errno, "make " + folder);
    const OwnDescriptor at(open_folder(folder));
    if (at.number() < 0) return Status::from_errno(errno, "open " + folder);
    std::string path = folder + "/" + name;
    auto lock = ProcessLock::take(at.number(), name, path);
    if (!lock) return lock.status();
    return std::unique_ptr<Claim>(new Claim(std::move(path), std::move(lock).value()));
}

// The unlink precedes the end of the lock, so it never removes another process's file.
Claim::~Claim() {
    if (lock_->is_of_this_process()) (void)::unlink(path_.c_str());
}

Result<bool> Claim::is_held(const std::string& folder, const std::string& name) {
    Holder holder = Holder::kUntold;
    if (const int error = ProcessLock::look_at(folder, name, holder); error != 0)
        return Status::from_errno(error, "look whether a process has claimed " + folder + "/" + name);
    return holder == Holder::kSomebody;
}

// One process at a time: two that find the same file free might also remove a newer file.
void Claim::remove_leftovers(const std::string& folder) {
    const OwnDescriptor at(open_folder(folder));
    if (at.number() < 0) return;
    const auto directory = open_posix_directory(folder);
    const auto lock = directory ? directory.value()->lock(Directory::Patience::kTry) : directory.status();
    const auto names = lock ? directory.value()->list() : lock.status();
    if (!names) return;
    for (const std::string& name : names.value()) {
        const auto kept = ProcessLock::keep_free(at.number(), name, folder + "/" + name);
        if (kept) (void)::unlinkat(at.number(), name.c_str(), 0);
    }
}

}   // namespace forebay::io
