// Counts the mount's requests. Thread-safe; readers may see one operation counted in part.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include <nlohmann/json_fwd.hpp>

#include "operation.h"

namespace forebay::slowfs {

class Statistics {
  public:
    void begin(Op op) noexcept;
    // Each begin() needs one end(). `asked_bytes`, a read's or write's size, is for the histogram of sizes.
    void end(Op op, std::uint64_t asked_bytes, std::uint64_t moved_bytes, bool failed,
             std::int64_t duration_ns) noexcept;
    // Replaces end() for the rest of an operation (split_tracker.h): adds its bytes, but does not count it.
    void end_rest(Op op, std::uint64_t moved_bytes, bool failed, std::int64_t duration_ns) noexcept;

    // The maxima become those of the operations in flight.
    void reset() noexcept;

    [[nodiscard]] nlohmann::json to_json() const;

  private:
    static constexpr std::size_t kBucketCount = 40;   // bucket i holds sizes in [2^(i-1), 2^i); 0 holds size 0

    struct Counters {
        std::atomic<std::uint64_t> count{0};
        std::atomic<std::uint64_t> rests{0};
        std::atomic<std::uint64_t> errors{0};
        std::atomic<std::uint64_t> bytes{0};
        std::atomic<std::int64_t> duration_ns{0};
        std::atomic<std::int64_t> in_flight{0};
        std::atomic<std::int64_t> in_flight_max{0};

        void finish(std::uint64_t moved_bytes, bool failed, std::int64_t took_ns) noexcept;
    };

    std::array<Counters, kOpCount> by_op_;
    Counters all_;
    std::array<std::atomic<std::uint64_t>, kBucketCount> read_sizes_{};
    std::array<std::atomic<std::uint64_t>, kBucketCount> write_sizes_{};
};

}   // namespace forebay::slowfs
