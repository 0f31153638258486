// The segments of a pool: which exist, which are free, how many there may be, and how many are asked for. Slot i has
// segment i. It is reserved before the segment is made, without the lock, and is filled or given up after that. A slot
// whose segment could not be made is vacant, and is reserved again first. Free segments are handed out warm ones first,
// the last that came back first. Invariants: there are no more slots than the capacity has. Giving a segment back, or
// giving up a slot, allocates no memory. A segment that is being warmed counts as free. Ownership: this owns the
// segments. Not thread-safe: the pool's lock guards it. Nothing blocks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "log/segment.h"

namespace forebay::log {

// Where the pool publishes its numbers of segments; null: nowhere.
struct PoolGauges {
    std::atomic<std::uint64_t>* allocated = nullptr;
    std::atomic<std::uint64_t>* free = nullptr;
};

class SegmentSlots {
  public:
    SegmentSlots(std::uint64_t segments_max, PoolGauges gauges) noexcept : gauges_(gauges), limit_(segments_max) {}
    SegmentSlots(const SegmentSlots&) = delete;
    SegmentSlots& operator=(const SegmentSlots&) = delete;

    [[nodiscard]] bool may_grow() const noexcept { return !vacant_.empty() || segments_.size() < limit_; }
    // Reserves the slot of a new segment for the caller.
    [[nodiscard]] std::uint64_t reserve();
    void fill(std::uint64_t slot, std::unique_ptr<Segment> segment) noexcept { segments_[slot] = std::move(segment); }
    // The segment of a reserved slot could not be made. A full device lowers the limit. `requests` is the value at the
    // reservation: later ones do not count as refused.
    void give_up(std::uint64_t slot, const Status& why, std::uint64_t requests) noexcept;

    [[nodiscard]] bool any_free() const noexcept { return !free_.empty() || !free_cold_.empty(); }
    [[nodiscard]] bool any_cold() const noexcept { return !free_cold_.empty(); }
    // Takes a free segment; there is one.
    [[nodiscard]] Segment* take() noexcept;
    void give_back(Segment* segment) noexcept { (segment->warm() ? free_ : free_cold_).push_back(segment); }
    // Adds a warm segment below the others, because the segment used last is warmer still.
    void add_coldest(Segment* segment) { free_.insert(free_.begin(), segment); }

    // One cold segment is warmed at a time, without the lock; it is free meanwhile.
    [[nodiscard]] Segment* begin_warming() noexcept;
    void end_warming(Segment* segment) noexcept;
    [[nodiscard]] bool warming() const noexcept { return warming_; }
    // In a forked child: the segment that its parent warms is lost.
    void forget_warming() noexcept { warming_ = false; }

    void note_request() noexcept { ++requests_; }
    [[nodiscard]] std::uint64_t requests() const noexcept { return requests_; }   // so far
    // True if no log has asked for a segment since one could not be made.
    [[nodiscard]] bool refused() const noexcept { return requests_ == requests_when_refused_; }
    [[nodiscard]] std::uint64_t most_in_use() const noexcept { return most_in_use_; }
    // So many more segments would be in use, had they been warm.
    void note_missed(std::uint64_t segments) noexcept { most_in_use_ = std::min(limit_, most_in_use_ + segments); }

    [[nodiscard]] std::uint64_t allocated() const noexcept { return segments_.size() - vacant_.size(); }
    [[nodiscard]] std::uint64_t free() const noexcept { return free_.size() + free_cold_.size() + (warming_ ? 1 : 0); }
    // Call this after each change: publishes the numbers, and notes how many are in use.
    void publish() noexcept;

  private:
    const PoolGauges gauges_;
    std::vector<std::unique_ptr<Segment>> segments_;   // slot i: segment i, null while it is being made
    std::vector<std::uint64_t> vacant_;                // slots whose segment could not be made
    std::vector<Segment*> free_;                       // warm
    std::vector<Segment*> free_cold_;
    bool warming_ = false;   // the background thread has one free segment
    std::uint64_t limit_;    // lowered if the device turns out to be smaller
    std::uint64_t requests_ = 0;
    std::uint64_t most_in_use_ = 0;
    std::uint64_t requests_when_refused_ = UINT64_MAX;
};

}   // namespace forebay::log
