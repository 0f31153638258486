// Who a request is from: FUSE names the thread.
//
// Its process is looked up in /proc and kept, as a request of a thread that has ended meanwhile may still be under way.
// Thread numbers are used again: what was looked up is believed for kBelievedNs. A kernel thread (write-back, with
// --page-cache) has the number 0, or one of its own: it is a caller like any other, so all that it writes back shares
// one limit. Thread-safe.
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

    // The process of `thread`; `thread` itself where that cannot be found out (it has ended, or is of another PID
    // namespace).
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
