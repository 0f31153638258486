#include "io/served_lock.h"

#include <fcntl.h>

#include <cerrno>
#include <limits>

#include "io/lock_wait.h"

namespace forebay::io {

namespace {

// The mark of server 0; that of the next one is the byte before. POSIX counts the end of a lock as an offset, too.
constexpr off_t kMark = std::numeric_limits<off_t>::max() - 1;

struct flock mark(short type, off_t first, off_t count) noexcept {
    struct flock lock{};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = first;
    lock.l_len = count;
    return lock;
}

// Asks only: a lock of the descriptor's own stays as it is.
bool is_unserved(int number, std::optional<std::uint32_t> server) {
    const off_t first = kMark - static_cast<off_t>(server.value_or(kServersMax - 1));
    struct flock asked = mark(F_WRLCK, first, server ? 1 : kServersMax);
    if (::fcntl(number, F_OFD_GETLK, &asked) != 0) return true;   // there are none
    // What somebody has locked from end to end is no mark.
    if (asked.l_type == F_UNLCK || asked.l_start <= kMark - static_cast<off_t>(kServersMax)) return true;
    errno = EWOULDBLOCK;
    return false;
}

}   // namespace

bool mark_served(Descriptor& descriptor, std::uint32_t server) noexcept {
    auto use = descriptor.use();
    if (!use) return false;
    struct flock wanted = mark(F_RDLCK, kMark - static_cast<off_t>(server), 1);
    return ::fcntl(use.value().number(), F_OFD_SETLK, &wanted) == 0;
}

Status await_unserved(Descriptor& descriptor, std::chrono::milliseconds at_most, std::optional<std::uint32_t> server) {
    const auto use = descriptor.use();
    if (!use) return use.status();
    const auto ended = [server](int number) { return is_unserved(number, server); };
    if (await_lock(use.value().number(), at_most, ended)) return Status::ok();
    return {Code::kUnavailable, "a staging server still writes it", EWOULDBLOCK, true};
}

}   // namespace forebay::io
