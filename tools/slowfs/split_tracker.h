// Finds FUSE requests that are the rest of a transfer which the kernel had to split.
//
// A request holds at most 256 pages of the caller's buffer. A buffer that does not begin on a page, as is usual,
// spreads 1 MiB over 257 pages: one write() arrives as 1 MiB - 16 bytes and 16 bytes. The rest is no operation and pays
// no latency, so a transfer is one per MiB. Use one tracker per open file and direction. Thread-safe.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>

namespace forebay::slowfs {

class SplitTracker {
  public:
    static constexpr std::uint64_t kUnitBytes = 1U << 20;
    static constexpr std::uint64_t kPageBytes = 4096;

    // Returns true if this request, the next one of this file, is such a rest. `thread` is the client's.
    [[nodiscard]] bool is_rest(pid_t thread, std::uint64_t offset, std::uint64_t size_bytes);

  private:
    std::mutex mutex_;
    pid_t thread_ = 0;
    std::uint64_t end_ = 0;             // of the previous request
    std::uint64_t missing_bytes_ = 0;   // the missing part of full units since the last split
};

}   // namespace forebay::slowfs
