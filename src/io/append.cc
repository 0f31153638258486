#include "io/append.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/background_thread.h"

namespace forebay::io {

namespace {

Status append_and_close(int descriptor, const std::string& path, std::string_view line) {
    std::string text(line);
    text += '\n';
    ssize_t wrote = -1;
    const OwnWrite own;
    do wrote = ::write(descriptor, text.data(), text.size());
    while (wrote < 0 && errno == EINTR);
    const int error = wrote < 0 ? errno : EIO;
    ::close(descriptor);
    if (wrote != static_cast<ssize_t>(text.size())) return Status::from_errno(error, "append to " + path);
    return Status::ok();
}

}   // namespace

Status append_line(const std::string& path, std::string_view line) {
    int descriptor = -1;
    do descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    while (descriptor < 0 && errno == EINTR);
    return descriptor < 0 ? Status::from_errno(errno, "open " + path) : append_and_close(descriptor, path, line);
}

Status append_line_to_own(const std::string& path, std::string_view line) {
    int descriptor = -1;
    do descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0) return Status::from_errno(errno, "open " + path);
    struct stat facts{};
    if (::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == ::geteuid())
        return append_and_close(descriptor, path, line);
    ::close(descriptor);
    return {Code::kPermissionDenied, "append to " + path + ": no regular file of this user"};
}

}   // namespace forebay::io
