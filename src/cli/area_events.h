// Wakes a command when the files in question change, or when process directories appear or vanish on the staging areas.
// If inotify is unavailable, `wait` returns after the interval only. Not thread-safe.
#pragma once

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "cli/staging_areas.h"

namespace forebay::cli {

class AreaEvents {
  public:
    explicit AreaEvents(const Survey& asked) : descriptor_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
        if (descriptor_ < 0) return;   // `wait` then uses the interval only
        for (const recover::Wanted& file : asked.files)
            (void)::inotify_add_watch(descriptor_, file.path.c_str(), IN_MODIFY | IN_CLOSE_WRITE);
        for (const UserAreas& user : asked.users)
            for (const auto& area : user.areas)
                (void)::inotify_add_watch(descriptor_, area->name().c_str(), IN_CREATE | IN_DELETE | IN_ONLYDIR);
    }
    ~AreaEvents() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    AreaEvents(const AreaEvents&) = delete;
    AreaEvents& operator=(const AreaEvents&) = delete;

    void wait(std::chrono::milliseconds at_most) const {
        pollfd waiting{descriptor_, POLLIN, 0};
        if (::poll(&waiting, 1, static_cast<int>(at_most.count())) <= 0) return;
        (void)::poll(nullptr, 0, static_cast<int>(std::min(kSettle, at_most).count()));
        std::array<char, 4096> told;
        while (::read(descriptor_, told.data(), told.size()) > 0) {
        }
    }

  private:
    // Events come in bursts, and a process lowers a counter shortly after the write that the counter counts.
    static constexpr std::chrono::milliseconds kSettle{10};

    const int descriptor_;
};

}   // namespace forebay::cli
