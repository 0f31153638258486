// When an operation is over on the simulated file system.
//
// Bandwidth is a timeline shared by all operations in flight: each transfer takes the next free slot of it, as long as
// its bytes need. Latency is added behind the slot, to each operation for itself, so that the latencies of concurrent
// operations overlap while their transfers queue:
//
//     end = max(timeline free, arrival) + bytes / bandwidth + latency
//
// Reads and writes share one timeline and may have one of their own each; the latest end counts. An idle timeline saves
// nothing up: there is no burst. Each caller, a thread or a process, may have a timeline of its own besides, as clients
// of a parallel file system have.
//
// Times are nanoseconds of any one clock, given by the caller: nothing here sleeps or reads a clock. Thread-safe.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "operation.h"

namespace forebay::slowfs {

enum class Channel : std::uint8_t { kShared, kRead, kWrite };

class Throttle {
  public:
    // The time at which an operation that arrived at `arrival_ns` and moved `size_bytes` is to be answered.
    // `caller`: whose own timeline it takes, if there is a limit for each (caller_kind).
    [[nodiscard]] std::int64_t reserve(Op op, std::uint64_t size_bytes, std::int64_t arrival_ns, pid_t caller = 0);
    // The same without latency, for the rest of an operation (split_tracker.h).
    [[nodiscard]] std::int64_t reserve_rest(Op op, std::uint64_t size_bytes, std::int64_t arrival_ns, pid_t caller = 0);

    // Who has a timeline of its own. 0 bytes per second: nobody.
    enum class Caller : std::uint8_t { kThread, kProcess };
    void set_caller_bandwidth(Caller kind, std::uint64_t bytes_per_second);
    [[nodiscard]] std::uint64_t caller_bandwidth(Caller kind) const;
    // Whose number `reserve` wants; nothing is limited by caller: kThread.
    [[nodiscard]] Caller caller_kind() const;

    // 0 is unlimited. Slots already given out stand; what queued behind the old bandwidth is forgotten.
    void set_bandwidth(Channel channel, std::uint64_t bytes_per_second);
    [[nodiscard]] std::uint64_t bandwidth(Channel channel) const;

    void set_latency(const OpSet& ops, std::int64_t latency_ns);
    [[nodiscard]] std::int64_t latency_ns(Op op) const;

  private:
    struct Timeline {
        std::uint64_t bytes_per_second = 0;
        std::int64_t free_ns = 0;

        std::int64_t take(std::uint64_t size_bytes, std::int64_t arrival_ns) noexcept;
    };

    // A caller whose timeline is free is forgotten once there are so many.
    static constexpr std::size_t kCallersKept = 1024;

    [[nodiscard]] std::int64_t transfer_end(Op op, std::uint64_t size_bytes, std::int64_t arrival_ns, pid_t caller);

    mutable std::mutex mutex_;
    std::array<Timeline, 3> timelines_;   // by Channel
    std::array<std::int64_t, kOpCount> latencies_ns_{};
    Caller caller_kind_ = Caller::kThread;
    std::uint64_t caller_bytes_per_second_ = 0;
    std::unordered_map<pid_t, Timeline> callers_;
};

}   // namespace forebay::slowfs
