#include "io/owned_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace forebay::io {

Status make_owned_directory(const std::string& path, uid_t user, gid_t group) {
    const std::string doing = "make " + path;
    struct stat facts{};
    const std::string above = path.substr(0, path.find_last_of('/') + 1);
    if (::stat(above.c_str(), &facts) != 0) return Status::from_errno(errno, doing);
    if ((facts.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (facts.st_mode & S_ISVTX) == 0)
        return {Code::kPermissionDenied, doing + ": " + above + " is writable for others, and not sticky (chmod +t)"};
    if (::mkdir(path.c_str(), 0700) != 0) return errno == EEXIST ? Status::ok() : Status::from_errno(errno, doing);
    const int made = ::open(path.c_str(), O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made < 0) return Status::from_errno(errno, doing);
    const bool own = ::fstat(made, &facts) == 0 && facts.st_uid == ::geteuid();
    const Status given = own && ::fchown(made, user, group) == 0 ? Status::ok()
                                                                 : Status::from_errno(own ? errno : EPERM, doing);
    ::close(made);
    return given;
}

}   // namespace forebay::io
