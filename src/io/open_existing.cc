#include "io/open_existing.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace forebay::io {

int open_patiently(const std::string& path, int flags) noexcept {
    const auto open_with = [&](int more) {
        int number = -1;
        do number = ::open(path.c_str(), flags | more | O_CLOEXEC | O_NOCTTY);
        while (number < 0 && errno == EINTR);
        return number;
    };
    const int number = open_with(O_NONBLOCK);
    if (number >= 0 || errno != EWOULDBLOCK) return number;
    struct stat facts{};
    if (::stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode)) return open_with(0);
    errno = EWOULDBLOCK;
    return -1;
}

Result<OpenedExisting> open_existing(const std::string& path, Access access) {
    const int flags = access == Access::kRead ? O_RDONLY : O_RDWR;
    const int number = open_patiently(path, flags);
    if (number < 0) return Status::from_errno(errno, "open " + path);
    auto descriptor = std::make_shared<Descriptor>(number, path, flags);
    struct stat facts{};
    if (::fstat(number, &facts) != 0) return Status::from_errno(errno, "stat " + path);
    if (!S_ISREG(facts.st_mode)) return Status(Code::kInvalidArgument, path + ": no regular file");
    return OpenedExisting{std::move(descriptor), {facts.st_dev, facts.st_ino}};
}

}   // namespace forebay::io
