// Adding to the counters of a file's ledger slot. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"

namespace forebay::stage {

inline void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
    counter.fetch_add(amount, std::memory_order_relaxed);
}

// Adds the nanoseconds that it lives to a counter.
class Stopwatch {
  public:
    explicit Stopwatch(std::atomic<std::uint64_t>& counter) noexcept : counter_(counter), begin_(monotonic_ns()) {}
    ~Stopwatch() { add(counter_, monotonic_ns() - begin_); }
    Stopwatch(const Stopwatch&) = delete;
    Stopwatch& operator=(const Stopwatch&) = delete;

  private:
    std::atomic<std::uint64_t>& counter_;
    const std::uint64_t begin_;
};

}   // namespace forebay::stage
