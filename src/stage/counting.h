// Adding to the counters of a file's ledger slot. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "stage/spare_time.h"

namespace forebay::stage {

inline void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
    counter.fetch_add(amount, std::memory_order_relaxed);
}

// A call of the program: adds the nanoseconds that it takes to a counter, and keeps account of the time between the
// calls.
class Call {
  public:
    Call(std::atomic<std::uint64_t>& counter, SpareTime& spare_time) noexcept
        : counter_(counter), spare_time_(spare_time), begin_(monotonic_ns()) {
        spare_time_.enter(begin_);
    }
    ~Call() {
        const std::uint64_t end = monotonic_ns();
        add(counter_, end - begin_);
        spare_time_.leave(end);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

  private:
    std::atomic<std::uint64_t>& counter_;
    SpareTime& spare_time_;
    const std::uint64_t begin_;
};

}   // namespace forebay::stage
