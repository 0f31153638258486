// Makes up for slowfs's own lateness, so that one thread alone gets the bandwidth that is configured.
//
// A reply leaves a little after its time, as sleeping ends late on a busy machine, and FUSE takes time to carry it. A
// thread that comes back at once with its next operation would lose that each time. So its next operation is taken to
// have arrived earlier by this lateness, but never before the previous one was due: over a row of operations nothing
// becomes faster than configured. A thread that does something else in between gets nothing back.
//
// Times are nanoseconds of any one clock. Thread-safe.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <mutex>

namespace forebay::slowfs {

class Lateness {
  public:
    // What FUSE takes from a reply to the next request of so many bytes, at most: it copies them, at 1 GB/s or faster.
    [[nodiscard]] static constexpr std::int64_t carriage_ns(std::uint64_t size_bytes) noexcept {
        return 50'000 + static_cast<std::int64_t>(size_bytes);
    }
    static constexpr std::int64_t kPauseNs =
        5'000'000;   // who stays away longer, carriage apart, has not come back at once
    static constexpr std::int64_t kLatenessNsMax = 10'000'000;

    // When an operation of the client's `thread`, which arrived at `arrival_ns` with `size_bytes`, would have arrived
    // without the lateness.
    [[nodiscard]] std::int64_t due_arrival(pid_t thread, std::uint64_t size_bytes, std::int64_t arrival_ns) const;
    // One that was due at `due_ns` is answered now, at `answered_ns`.
    void answered(pid_t thread, std::int64_t due_ns, std::int64_t answered_ns);

  private:
    struct Answer {
        pid_t thread = 0;
        std::int64_t due_ns = 0;
        std::int64_t answered_ns = 0;
    };

    static constexpr std::size_t kSlotCount = 256;   // threads that share one take turns in it, and lose a little

    mutable std::mutex mutex_;
    std::array<Answer, kSlotCount> answers_{};
};

}   // namespace forebay::slowfs
