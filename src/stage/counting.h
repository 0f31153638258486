// Adding to the counters of a file's ledger slot. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "io/trace.h"
#include "ledger/ledger.h"
#include "stage/spare_time.h"

namespace forebay::stage {

inline void add(std::atomic<std::uint64_t>& counter, std::uint64_t amount) noexcept {
    counter.fetch_add(amount, std::memory_order_relaxed);
}

// A file's counters: a ledger slot once the engine gives one, else its own. Counting: any thread. `use`: both locks.
class Counters {
  public:
    void use(ledger::LedgerSlot* slot) noexcept { slot_ = slot; }
    ledger::LedgerSlot* operator->() const noexcept { return slot_; }
    ledger::LedgerSlot& operator*() const noexcept { return *slot_; }

  private:
    std::unique_ptr<ledger::LedgerSlot> own_ = std::make_unique<ledger::LedgerSlot>();
    ledger::LedgerSlot* slot_ = own_.get();   // never null
};

// A call of the program: adds its nanoseconds to a counter, and notes the time between the calls.
class Call {
  public:
    Call(std::atomic<std::uint64_t>& counter, SpareTime& spare_time, const io::Trace* trace) noexcept
        : counter_(counter), spare_time_(spare_time), trace_(trace), begin_(monotonic_ns()) {
        spare_time_.enter(begin_);
    }
    ~Call() {
        const std::uint64_t end = monotonic_ns();
        add(counter_, end - begin_);
        spare_time_.leave(end);
        if (trace_ != nullptr) trace_->waited(begin_, end);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

  private:
    std::atomic<std::uint64_t>& counter_;
    SpareTime& spare_time_;
    const io::Trace* const trace_;
    const std::uint64_t begin_;
};

}   // namespace forebay::stage
