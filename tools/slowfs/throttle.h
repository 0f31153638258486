// When an operation is over on the simulated file system.
//
// Bandwidth is a timeline shared by all operations in flight: each transfer takes the next free slot of it. Latency is
// added behind the slot, to each operation for itself, so latencies overlap while transfers queue:
//     end = max(timeline free, arrival) + bytes / bandwidth + latency
// Reads and writes share one timeline and may have one of their own each; the latest end counts. An idle timeline saves
// nothing up: there is no burst. Each caller, a thread or a process, may also have a timeline of its own, as clients of
// a parallel file system have. Times are nanoseconds of the caller's clock: nothing here sleeps. Thread-safe.
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
    // `caller` is the thread or process with its own timeline, if callers are limited (caller_kind).
    [[nodiscard]] std::int64_t reserve(Op op, std::uint64_t size_bytes, std::int64_t arrival_ns, pid_t caller = 0);
    // Reserves without latency, for the rest of an operation (split_tracker.h).
    [[nodiscard]] std::int64_t reserve_rest(Op op, std::uint64_t size_bytes, std::int64_t arrival_ns, pid_t caller = 0);

    // The kind of caller with its own timeline. 0 bytes per second: no limit.
    enum class Caller : std::uint8_t { kThread, kProcess };
    void set_caller_bandwidth(Caller kind, std::uint64_t bytes_per_second);
    [[nodiscard]] std::uint64_t caller_bandwidth(Caller kind) const;
    // The kind of number that `reserve` takes; kThread if callers are not limited.
    [[nodiscard]] Caller caller_kind() const;

    // 0 means unlimited. Given slots stay; the queue behind the old bandwidth is dropped.
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

    // Above this number, callers with a free timeline are forgotten.
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
