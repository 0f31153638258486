// Finds the process of a request, because FUSE names only the thread. Looks it up in /proc, and keeps it for
// kBelievedNs: a request may outlive its thread, and thread numbers are reused. A kernel thread (write-back, with
// --page-cache) counts as a caller, by the number 0 or its own. So all its write-back shares one limit. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace forebay::slowfs {

class Callers {
  public:
    static constexpr std::int64_t kBelievedNs = 1'000'000'000;
    static constexpr std::size_t kKept = 4096;

    // Or `thread` itself if the process is unknown (it has ended, or is in another PID namespace).
    [[nodiscard]] pid_t process_of(pid_t thread, std::int64_t now_ns);

  private:
    struct Known {
        pid_t process = 0;
        std::int64_t since_ns = 0;
    };
    std::mutex mutex_;
    std::unordered_map<pid_t, Known> known_;
};

}   // namespace forebay::slowfs
