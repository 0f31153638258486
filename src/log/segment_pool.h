// The segments of a process: hands them out to logs and takes them back. The pool is one file on the staging area, cut
// into segments of equal size. A log takes a segment, and gives it back once nothing in it is needed. The pool hands
// out the segment that came back last, because its pages are warm. Its parts:
//
//   SegmentFile     the file: makes, writes, warms and syncs segments    log/segment_file.h
//   SegmentSlots    which segments exist and are free; the demand        log/segment_slots.h
//   SegmentWarmer   a background thread that touches pages               log/segment_warmer.h
//   RoomChanges     waits for room                                       log/room_changes.h
//
// Invariants: the pool never exceeds its capacity. It never hands out a segment again whose mapping faulted. Ownership:
// the pool owns its parts. Thread-safe: `mutex_` guards the slots and the changes; it is never held across a call of
// the file. Blocking: `acquire` allocates device space. After a crash the file stays (docs/log-format.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include "io/file.h"
#include "log/format.h"
#include "log/room_changes.h"
#include "log/segment.h"
#include "log/segment_file.h"
#include "log/segment_slots.h"
#include "log/segment_warmer.h"

namespace forebay::log {

class SegmentPool {
  public:
    // `file` is new and empty; `process` goes into the segments' headers.
    SegmentPool(std::unique_ptr<io::File> file, PoolLimits limits, const area::ProcessIdentity& process,
                PoolGauges gauges = {});
    ~SegmentPool();
    SegmentPool(const SegmentPool&) = delete;
    SegmentPool& operator=(const SegmentPool&) = delete;

    // Returns a segment with its header written and its tail behind the header. kNoSpace: the pool is at capacity, or
    // the device is full or fails. Waits only while the background thread warms the last free segment.
    enum class Take : std::uint8_t { kAny, kWarm };   // kWarm: never a new segment
    Result<Segment*> acquire(std::uint64_t log, std::uint64_t order, Take take = Take::kAny);
    // Takes a segment back. Readers find a new generation from then on.
    void release(Segment* segment);

    [[nodiscard]] SegmentFile& file() noexcept { return file_; }

    void warm_up() { warmer_.start(); }
    // Lowers the reserve to `bytes`, if that is less: other processes have reserves too.
    void lower_reserve(std::uint64_t bytes) noexcept { warmer_.lower_reserve(bytes); }
    void forget_thread() noexcept;

    // To wait for room, read `changes`, look for room, then call `wait_for_change`. It returns once a segment was
    // released or `announce_change` was called since `changes`, or at `until`.
    [[nodiscard]] std::uint64_t changes() const;
    void wait_for_change(std::uint64_t seen,
                         std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max());
    void announce_change();

    [[nodiscard]] std::uint64_t allocated() const;   // segments
    [[nodiscard]] std::uint64_t free() const;        // segments
    [[nodiscard]] std::uint64_t segment_bytes() const noexcept { return file_.segment_bytes(); }

  private:
    const area::ProcessIdentity process_;
    SegmentFile file_;
    mutable std::mutex mutex_;
    SegmentSlots slots_;
    RoomChanges changes_;
    SegmentWarmer warmer_;   // the last member: its thread uses all others
};

}   // namespace forebay::log
