#include "io/made_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace forebay::io {

int MadeFile::open(const char* name, int o_flags) {
    constexpr mode_t kMode = 0666;   // reduced by the umask
    const int calm = (o_flags & ~(O_TRUNC | O_CREAT | O_EXCL)) | O_CLOEXEC;
    if ((o_flags & O_CREAT) == 0) return ::open(name, calm);
    if ((o_flags & O_EXCL) == 0) {
        const int descriptor = ::open(name, calm);
        // With O_CREAT some failures have another errno: a name that ends in a slash.
        if (descriptor >= 0 || errno != ENOENT)
            return descriptor >= 0 ? descriptor : ::open(name, calm | O_CREAT, kMode);
    }
    name_ = name;
    const int descriptor = ::open(name, calm | O_CREAT | O_EXCL, kMode);
    if (descriptor < 0) {
        // Another process has created it meanwhile, or it is a link to a missing file, which stays then.
        return errno == EEXIST && (o_flags & O_EXCL) == 0 ? ::open(name, calm | O_CREAT, kMode) : descriptor;
    }
    struct stat facts{};
    if (::fstat(descriptor, &facts) == 0) {
        device_ = facts.st_dev;
        inode_ = facts.st_ino;
        made_ = true;
    }
    return descriptor;
}

MadeFile::~MadeFile() {
    struct stat facts{};
    if (made_ && ::lstat(name_.c_str(), &facts) == 0 && facts.st_dev == device_ && facts.st_ino == inode_)
        (void)::unlink(name_.c_str());
}

Status empty(Descriptor& file, const std::string& path) {
    const auto use = file.use();
    FOREBAY_TRY(use.status());
    struct stat facts{};
    if (::fstat(use.value().number(), &facts) != 0) return Status::from_errno(errno, "stat " + path);
    if (!S_ISREG(facts.st_mode) || facts.st_size == 0) return Status::ok();
    return ::ftruncate(use.value().number(), 0) == 0 ? Status::ok() : Status::from_errno(errno, "truncate " + path);
}

}   // namespace forebay::io
