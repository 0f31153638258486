// The background thread of a pool: touches the pages of segments, so that stores do not fault. It warms the segments
// that came back cold, and makes new ones ahead of need. It makes at most as many as were ever in use at a time,
// within the reserve. After a failed creation it waits until a log asks for a segment again. The thread begins after
// `warm_up_after`, as a short program never uses warm pages. It works only while no log takes segments, because a
// writer needs the processors. Invariant: the lock is not held while pages are touched. Ownership: this owns the
// thread, which the destructor stops and joins. Without a thread, pages fault at the first store. Thread-safety: the
// pool's lock, which the caller holds for `call` only. Nothing blocks but the destructor.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>

#include "log/room_changes.h"
#include "log/segment_file.h"
#include "log/segment_slots.h"

namespace forebay::log {

class SegmentWarmer {
  public:
    // `mutex` is the pool's and guards `slots` and `changes`. All outlive the warmer.
    SegmentWarmer(SegmentFile& file, const PoolLimits& limits, std::mutex& mutex, SegmentSlots& slots,
                  RoomChanges& changes)
        : file_(file),
          mutex_(mutex),
          slots_(slots),
          changes_(changes),
          begin_after_(limits.warm_up_after),
          reserve_bytes_(limits.reserve_bytes),
          has_reserve_(limits.reserve_bytes != 0) {}
    SegmentWarmer(const SegmentWarmer&) = delete;
    SegmentWarmer& operator=(const SegmentWarmer&) = delete;

    // Starts the thread, unless there is no reserve. Later calls do nothing. Without the lock.
    void start();
    // Lowers the reserve to `bytes`, if that is less. Any thread.
    void lower_reserve(std::uint64_t bytes) noexcept;
    // Wakes the thread if there is work for it. With the lock.
    void call() noexcept;
    // Abandons the thread in a forked child, where it does not run.
    void forget_thread() noexcept { (void)thread_.release(); }   // joining a thread of the parent is undefined

  private:
    void run(const std::stop_token& stop);
    bool await_quiet(std::unique_lock<std::mutex>& lock, const std::stop_token& stop);
    [[nodiscard]] bool wants_more() const noexcept;
    [[nodiscard]] bool has_work() const noexcept { return slots_.any_cold() || wants_more(); }
    void make_one(std::unique_lock<std::mutex>& lock);
    void warm_one(std::unique_lock<std::mutex>& lock) noexcept;

    SegmentFile& file_;
    std::mutex& mutex_;
    SegmentSlots& slots_;
    RoomChanges& changes_;
    const std::chrono::milliseconds begin_after_;
    std::atomic<std::uint64_t> reserve_bytes_;
    const bool has_reserve_;                           // at the start
    std::condition_variable_any work_;                 // of its own: `changes_` is announced far more often
    bool idle_ = false;                                // it waits for work
    std::uint64_t made_bytes_ = 0;                     // of new segments
    std::uint64_t requests_when_quiet_ = UINT64_MAX;   // the requests when none had come for a while
    std::unique_ptr<std::jthread> thread_;
};

}   // namespace forebay::log
