// The planned writes and those in flight of one outflow, and its change of size.
//
// A write is planned, then taken by a thread, then over. Until its end its range is in flight and its segments are
// pinned. A write that bypasses the log is in flight too, but never planned.
// Invariants: ranges in flight are disjoint, so two versions of a byte never race to the target. Each piece of a
// planned write has one pin. `running` counts the planned writes that were taken and are not over. Not thread-safe: the
// file's lock guards it. Nothing blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "drain/concurrency.h"
#include "extent/range_set.h"
#include "index/staged_bytes.h"
#include "plan/merge.h"

namespace forebay::drain {

class WriteQueue {
  public:
    WriteQueue(index::StagedBytes& bytes, std::size_t threads) : bytes_(bytes), concurrency_(threads) {}

    [[nodiscard]] const RangeSet& in_flight() const noexcept { return in_flight_; }
    [[nodiscard]] bool none_in_flight() const noexcept { return in_flight_.empty(); }
    [[nodiscard]] std::uint64_t in_flight_bytes() const noexcept { return in_flight_bytes_; }   // planned ones only
    // True if no write and no change of size is in flight.
    [[nodiscard]] bool idle() const noexcept { return none_in_flight() && !resizing_; }
    [[nodiscard]] bool resizing() const noexcept { return resizing_; }
    void set_resizing(bool resizing) noexcept { resizing_ = resizing; }
    void begin_bypass(ByteRange range) { in_flight_.add(range); }
    void end_bypass(ByteRange range) noexcept { in_flight_.remove(range); }

    [[nodiscard]] const std::deque<plan::TargetWrite>& planned() const noexcept { return planned_; }
    void add(plan::TargetWrite write) {
        in_flight_.add(write.range);
        try {
            planned_.push_back(std::move(write));
        } catch (...) {
            in_flight_.remove(write.range);
            throw;
        }
        const plan::TargetWrite& planned = planned_.back();
        in_flight_bytes_ += planned.range.size();
        for (const plan::Piece& piece : planned.pieces) bytes_.index().keepers().pin(piece.keeper);
    }
    // Takes the first planned write for a thread. `now_ns` is of the clock of waits.
    [[nodiscard]] plan::TargetWrite take(std::uint64_t now_ns) {
        plan::TargetWrite write = std::move(planned_.front());
        planned_.pop_front();
        if (running_++ == 0) busy_since_ns_ = now_ns;
        return write;
    }
    // A write that was taken is over.
    void complete(const plan::TargetWrite& write, std::uint64_t now_ns) {
        put_back(write);
        concurrency_.completed(write.range.size(), now_ns - std::exchange(busy_since_ns_, now_ns));
    }
    // A write that was taken has not begun; its bytes are ready again.
    void put_back(const plan::TargetWrite& write) {
        release(write);
        --running_;
    }
    // Makes the bytes of planned writes ready again. Returns their lowest offset.
    std::uint64_t drop_planned() {
        std::uint64_t lowest = kOffsetMax;
        for (const plan::TargetWrite& write : planned_) {
            release(write);
            lowest = std::min(lowest, write.range.begin);
        }
        planned_.clear();
        return lowest;
    }

    [[nodiscard]] std::size_t running() const noexcept { return running_; }
    [[nodiscard]] bool has_room() const noexcept { return running_ < concurrency_.allowed(); }
    // When writes began to run, or when the last one ended, whichever is later.
    [[nodiscard]] std::uint64_t busy_since_ns() const noexcept { return busy_since_ns_; }
    [[nodiscard]] Concurrency& concurrency() noexcept { return concurrency_; }

  private:
    void release(const plan::TargetWrite& write) {
        in_flight_.remove(write.range);
        in_flight_bytes_ -= write.range.size();
        for (const plan::Piece& piece : write.pieces) bytes_.index().keepers().unpin(piece.keeper);
    }

    index::StagedBytes& bytes_;
    std::deque<plan::TargetWrite> planned_;
    RangeSet in_flight_;
    std::uint64_t in_flight_bytes_ = 0;
    std::size_t running_ = 0;
    bool resizing_ = false;
    std::uint64_t busy_since_ns_ = 0;
    Concurrency concurrency_;
};

}   // namespace forebay::drain
