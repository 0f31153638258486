#include "io/served_lock.h"

#include <fcntl.h>

#include <cerrno>
#include <limits>

#include "io/lock_wait.h"

namespace forebay::io {

namespace {

// POSIX counts the end of a lock as an offset, too.
constexpr off_t kMark = std::numeric_limits<off_t>::max() - 1;

struct flock mark(short type) noexcept {
    struct flock lock{};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = kMark;
    lock.l_len = 1;
    return lock;
}

// Asks only: a lock of the descriptor's own stays as it is.
bool is_unserved(int number) {
    struct flock asked = mark(F_WRLCK);
    if (::fcntl(number, F_OFD_GETLK, &asked) != 0) return true;   // there are none
    // What somebody has locked from end to end is no mark.
    if (asked.l_type == F_UNLCK || asked.l_start != kMark) return true;
    errno = EWOULDBLOCK;
    return false;
}

}   // namespace

bool mark_served(Descriptor& descriptor) noexcept {
    auto use = descriptor.use();
    if (!use) return false;
    struct flock wanted = mark(F_RDLCK);
    return ::fcntl(use.value().number(), F_OFD_SETLK, &wanted) == 0;
}

Status await_unserved(Descriptor& descriptor, std::chrono::milliseconds at_most) {
    const auto use = descriptor.use();
    if (!use) return use.status();
    if (await_lock(use.value().number(), at_most, is_unserved)) return Status::ok();
    return {Code::kUnavailable, "a staging server still writes it", EWOULDBLOCK, true};
}

}   // namespace forebay::io
