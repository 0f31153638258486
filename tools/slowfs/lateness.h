// Compensates slowfs's own lateness, so that one thread alone gets the configured bandwidth.
//
// A reply is a little late: sleeping ends late on a busy machine, and FUSE takes time to transfer it. So the next
// operation of a thread counts as having arrived earlier by this lateness, but never before the previous one was due.
// Over many operations no transfer becomes faster than configured. A thread that pauses in between gets no
// compensation. All times are nanoseconds of the same clock. Thread-safe.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <mutex>

namespace forebay::slowfs {

class Lateness {
  public:
    // Upper bound of FUSE's time from a reply to the next request of this size. FUSE copies at 1 GB/s or faster.
    [[nodiscard]] static constexpr std::int64_t carriage_ns(std::uint64_t size_bytes) noexcept {
        return 50'000 + static_cast<std::int64_t>(size_bytes);
    }
    static constexpr std::int64_t kPauseNs =
        5'000'000;   // a longer pause, without the transfer, is no immediate return
    static constexpr std::int64_t kLatenessNsMax = 10'000'000;

    // Without the lateness, for an operation of the client's `thread` that arrived at `arrival_ns` with `size_bytes`.
    [[nodiscard]] std::int64_t due_arrival(pid_t thread, std::uint64_t size_bytes, std::int64_t arrival_ns) const;
    // Notes that the operation due at `due_ns` is answered at `answered_ns`.
    void answered(pid_t thread, std::int64_t due_ns, std::int64_t answered_ns);

  private:
    struct Answer {
        pid_t thread = 0;
        std::int64_t due_ns = 0;
        std::int64_t answered_ns = 0;
    };

    static constexpr std::size_t kSlotCount = 256;   // threads that share a slot take turns, and lose a little

    mutable std::mutex mutex_;
    std::array<Answer, kSlotCount> answers_{};
};

}   // namespace forebay::slowfs
