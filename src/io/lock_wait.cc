#include "io/lock_wait.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "io/posix_call.h"

namespace forebay::io {

// flock waits without limit or not at all. inotify reports the close of a holder that unlocks or dies, but none on
// other machines, and may refuse a watch. So this also retries at intervals.
bool await_lock(int number, std::chrono::milliseconds at_most, const std::function<bool(int number)>& try_lock) {
    constexpr std::chrono::milliseconds kTryAgain{500};
    const auto end = std::chrono::steady_clock::now() + at_most;
    int closed = -1;
    for (;;) {
        if (try_lock(number)) break;
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        if (errno != EWOULDBLOCK || left.count() <= 0) {
            const int error = errno;
            if (closed >= 0) ::close(closed);
            errno = error;
            return false;
        }
        if (closed < 0) {
            closed = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
            if (closed >= 0 &&
                ::inotify_add_watch(closed, fmt::format("/proc/self/fd/{}", number).c_str(), IN_CLOSE) >= 0)
                continue;   // the holder may have closed it before the watch began
        }
        pollfd waiting{closed, POLLIN, 0};   // poll skips a negative number
        (void)::poll(&waiting, 1, static_cast<int>(std::min(left, kTryAgain).count()));
        std::array<char, 4096> told;
        while (closed >= 0 && ::read(closed, told.data(), told.size()) > 0) {
        }
    }
    if (closed >= 0) ::close(closed);
    return true;
}

bool await_exclusive_lock(int number, std::chrono::milliseconds at_most) {
    return await_lock(number, at_most,
                      [](int own) { return restarted([&] { return ::flock(own, LOCK_EX | LOCK_NB); }) == 0; });
}

}   // namespace forebay::io
