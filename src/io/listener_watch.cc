#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "io/socket.h"

namespace forebay::io {

namespace {

constexpr std::chrono::milliseconds kPauseMin{50}, kPauseMax{1000};

}   // namespace

ListenerWatch::ListenerWatch(const Address& address) noexcept : pause_(kPauseMin) {
    const std::size_t slash = address.path.rfind('/');
    if (slash == std::string::npos) return;
    try {
        name_ = address.path.substr(slash + 1);
        const std::string folder = address.path.substr(0, std::max<std::size_t>(slash, 1));
        number_ = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
        struct stat facts{};
        if (number_ >= 0 && ::fstat(number_, &facts) == 0) {
            device_ = facts.st_dev;
            inode_ = facts.st_ino;
        }
        if (number_ >= 0) (void)::inotify_add_watch(number_, folder.c_str(), IN_MOVED_TO | IN_CREATE | IN_ATTRIB);
    } catch (const std::bad_alloc&) {   // the pauses suffice
    }
}

ListenerWatch::~ListenerWatch() {
    if (is_ours()) ::close(number_);
}

// The program may have closed the descriptor, and its number may belong to another file.
bool ListenerWatch::is_ours() const noexcept {
    struct stat facts{};
    return number_ >= 0 && ::fstat(number_, &facts) == 0 && facts.st_dev == device_ && facts.st_ino == inode_;
}

bool ListenerWatch::named(std::span<const std::byte> events) const noexcept {
    inotify_event event;
    while (events.size() >= sizeof event) {
        std::memcpy(&event, events.data(), sizeof event);
        const auto* const name = reinterpret_cast<const char*>(events.data() + sizeof event);
        if (event.len > 0 && name_ == name) return true;
        events = events.subspan(std::min(events.size(), sizeof event + event.len));
    }
    return false;
}

void ListenerWatch::await(std::optional<std::chrono::milliseconds> at_most) noexcept {
    using Clock = std::chrono::steady_clock;
    const auto until = Clock::now() + std::min(pause_, at_most.value_or(pause_));
    pause_ = std::min(2 * pause_, kPauseMax);
    for (;;) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
        pollfd look{is_ours() ? number_ : -1, POLLIN, 0};   // -1: only the pause
        const int ready = left > 0 ? ::poll(&look, 1, static_cast<int>(left)) : 0;
        if (ready == 0) return;
        std::array<std::byte, 4096> events;
        if (ready > 0 && ((look.revents & POLLIN) == 0 || !is_ours())) {
            number_ = -1;
            continue;
        }
        const ssize_t got = ready > 0 ? ::read(number_, events.data(), events.size()) : 0;
        if (got > 0 && named(std::span(events).first(static_cast<std::size_t>(got)))) return;
    }
}

}   // namespace forebay::io
