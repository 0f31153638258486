#include "io/owned_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace forebay::io {

Status make_owned_directory(const std::string& path, uid_t user, gid_t group) {
    const std::string doing = "make " + path;
    if (::mkdir(path.c_str(), 0700) != 0) return errno == EEXIST ? Status::ok() : Status::from_errno(errno, doing);
    const int made = ::open(path.c_str(), O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made < 0) return Status::from_errno(errno, doing);
    const Status given = ::fchown(made, user, group) == 0 ? Status::ok() : Status::from_errno(errno, doing);
    ::close(made);
    return given;
}

}   // namespace forebay::io
