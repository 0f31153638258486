#include "io/append.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace forebay::io {

Status append_line(const std::string& path, std::string_view line) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) return Status::from_errno(errno, "open " + path);
    std::string text(line);
    text += '\n';
    const ssize_t wrote = ::write(descriptor, text.data(), text.size());
    const int error = wrote < 0 ? errno : EIO;
    ::close(descriptor);
    if (wrote != static_cast<ssize_t>(text.size())) return Status::from_errno(error, "append to " + path);
    return Status::ok();
}

}   // namespace forebay::io
