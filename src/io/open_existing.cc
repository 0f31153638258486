#include "io/open_existing.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace forebay::io {

Result<OpenedExisting> open_existing(const std::string& path, Access access) {
    // Not to wait for whoever has the other end of a pipe of that name.
    const int flags = (access == Access::kRead ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK;
    const int number = ::open(path.c_str(), flags);
    if (number < 0) return Status::from_errno(errno, "open " + path);
    auto descriptor = std::make_shared<Descriptor>(number, path, flags);
    struct stat facts{};
    if (::fstat(number, &facts) != 0) return Status::from_errno(errno, "stat " + path);
    if (!S_ISREG(facts.st_mode)) return Status(Code::kInvalidArgument, path + ": no regular file");
    return OpenedExisting{std::move(descriptor), {facts.st_dev, facts.st_ino}};
}

}   // namespace forebay::io
