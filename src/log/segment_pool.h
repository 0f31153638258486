// The segments of a process: allocates and recycles them, and touches pages ahead of the first burst.
//
// The pool is one file on the staging area, cut into segments of equal size. A log takes a segment, and gives it back
// once nothing in it is needed. The pool hands out the segment that came back last, because its pages are warm.
// Invariants: the pool never exceeds its capacity. It allocates device space before it hands a segment out, so stores
// never run out of space. It never hands out a segment again whose mapping faulted.
//
// Cold and warm. Touching a mapping's pages costs more than writing them once by a system call. So a new segment is
// cold: large payloads go to the file by `write`. A caller that stores small ones calls `make_warm` first. The
// background thread warms segments that came back cold.
//
// Ownership: the pool owns the file, the segments and one background thread, which `warm_up` starts.
// Thread-safe. Blocking: `acquire` allocates device space; `write` and `sync` wait for the device.
// After a crash the file stays; docs/log-format.md tells how to read it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "io/file.h"
#include "log/format.h"
#include "log/frontier.h"

namespace forebay::log {

// A segment in use belongs to one FileLog, and the lock of that log's owner guards its fields.
class Segment {
  public:
    // `file` names the segment in messages, and outlives it.
    Segment(std::uint64_t index, std::unique_ptr<io::Mapping> mapping, const io::File* file = nullptr)
        : index_(index), mapping_(std::move(mapping)), file_(file) {}

    [[nodiscard]] std::uint64_t index() const noexcept { return index_; }
    [[nodiscard]] std::uint64_t size() const noexcept { return mapping_->bytes().size(); }
    [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept { return mapping_->bytes().data() + offset; }
    [[nodiscard]] io::MutableBytes bytes() const noexcept { return mapping_->bytes(); }

    // Rises whenever the segment changes hands. A copy is valid if the generation is the same before and after it.
    // Reads the mapping, so it may fault.
    [[nodiscard]] std::uint64_t generation() const noexcept;

    // The value that seals the segment's records (log/format.h). Reads the mapping, so it may fault.
    [[nodiscard]] std::uint64_t use() const noexcept;

    // The end of the last complete record, as every process sees it.
    [[nodiscard]] std::uint64_t published_tail() const noexcept;

    // EIO with the file's name and the offset of `address`, where the mapping faulted (io/guarded_access.h).
    [[nodiscard]] Status fault(const std::byte* address) const;

    // True if the pages were touched. Stores to a cold segment succeed too, but each page costs a fault.
    [[nodiscard]] bool warm() const noexcept { return pages_ == Pages::kTouched; }

    // True if the segment has no live bytes, no pins, and no records to index.
    [[nodiscard]] bool idle() const noexcept {
        return live_bytes == 0 && pins == 0 && unindexed.load(std::memory_order_relaxed) == 0;
    }

    std::uint64_t tail = 0;                    // end of the last record
    std::uint64_t own_generation = 0;          // the generation, for its owner
    std::uint64_t live_bytes = 0;              // payload that no other place has yet for certain
    std::uint64_t pins = 0;                    // readers and target writes that use it
    std::atomic<std::uint64_t> unindexed{0};   // records that the owner has not indexed yet; not guarded
    std::uint64_t first_time_ns = 0;           // CLOCK_REALTIME of the first data record; 0: none
    std::uint64_t participant = 0;             // the log's owner among the group that writes the file
    SegmentOrder order;                        // order of the records among those of all logs of the file

  private:
    friend class SegmentPool;
    enum class Pages : std::uint8_t {
        kNone,      // allocated only
        kWritten,   // mostly in the page cache, but not mapped
        kTouched,   // mapped and writable
    };

    std::uint64_t index_;
    std::unique_ptr<io::Mapping> mapping_;
    const io::File* file_;
    Pages pages_ = Pages::kNone;   // changed by the owner or, while the segment is free, by the pool
};

struct PoolLimits {
    std::uint64_t capacity_bytes = 0;   // at least two segments are always allowed
    std::uint64_t segment_bytes = 0;
    std::uint64_t reserve_bytes = 0;   // most that warm_up touches
    // Delay before the first touch: a short program never uses warm pages.
    std::chrono::milliseconds warm_up_after{1000};
    bool in_memory = false;   // the file's pages are its device (tmpfs)
    // Bytes of one mapping: the system limits the mappings of a process.
    std::uint64_t map_bytes = std::uint64_t{64} << 20;
};

// Where the pool publishes its numbers of segments; null: nowhere.
struct PoolGauges {
    std::atomic<std::uint64_t>* allocated = nullptr;
    std::atomic<std::uint64_t>* free = nullptr;
};

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

    // Writes `pieces` one after another at `offset` of the caller's segment, past its mapping. Blocks as a write does.
    [[nodiscard]] Status write(const Segment& segment, std::uint64_t offset, std::span<const io::Bytes> pieces);
    // Touches the pages of the caller's cold segment; bytes below the tail stay. Reports no failure: the store will
    // fail.
    void make_warm(Segment& segment) noexcept;

    // Takes a segment back. Readers find a new generation from then on.
    void release(Segment* segment);

    [[nodiscard]] Result<io::FileState> state() { return file_->state(io::File::Ask::kTimes); }

    // Waits until all earlier stores into segments are on the device.
    Status sync() { return file_->sync(); }

    // Starts the thread that touches segments: those that came back cold, and new ones ahead of need. It begins after
    // `warm_up_after`, and works only while no log takes segments, because a writer needs the processors. New segments
    // number at most the most that were ever in use at a time, and `reserve_bytes`. Later calls do nothing. Without a
    // thread pages fault later.
    void warm_up();
    // Lowers the reserve to `bytes`, if that is less: other processes have reserves too.
    void lower_reserve(std::uint64_t bytes) noexcept;

    // To wait for room, read `changes`, look for room, then call `wait_for_change`. It returns once a segment was
    // released or `announce_change` was called since `changes`, or at `until`.
    [[nodiscard]] std::uint64_t changes() const;
    void wait_for_change(std::uint64_t seen,
                         std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max());
    void announce_change();

    [[nodiscard]] std::uint64_t allocated() const;   // segments
    [[nodiscard]] std::uint64_t free() const;        // segments
    [[nodiscard]] std::uint64_t segment_bytes() const noexcept { return limits_.segment_bytes; }

    // Abandons the background thread in a forked child, where it does not run.
    void forget_thread() noexcept;

  private:
    Result<std::unique_ptr<Segment>> create_segment(std::uint64_t index);
    [[nodiscard]] Result<io::Mapping*> map_of(std::uint64_t index);
    [[nodiscard]] std::uint64_t new_slot_locked();
    void give_up_slot_locked(std::uint64_t index, const Status& why, std::uint64_t taken) noexcept;
    [[nodiscard]] bool may_grow_locked() const noexcept {
        return !vacant_.empty() || segments_.size() < limit_segments_;
    }
    [[nodiscard]] bool wants_more_locked() const noexcept;
    [[nodiscard]] Status begin_segment(Segment& segment, std::uint64_t log, std::uint64_t order) const;
    void touch(const std::stop_token& stop);
    bool await_quiet(std::unique_lock<std::mutex>& lock, const std::stop_token& stop);
    [[nodiscard]] bool has_to_touch_locked() const noexcept;
    void call_toucher_locked() noexcept;
    void make_one_warm(std::unique_lock<std::mutex>& lock);
    void warm_one_that_came_back(std::unique_lock<std::mutex>& lock) noexcept;
    void reserve_free_locked();
    void show_locked() noexcept;

    std::unique_ptr<io::File> file_;
    const PoolLimits limits_;
    const area::ProcessIdentity process_;
    const PoolGauges gauges_;

    std::atomic<std::uint64_t> reserve_bytes_;

    mutable std::mutex mutex_;
    std::condition_variable changed_;                  // for writers that wait for room
    std::condition_variable_any to_touch_;             // for the background thread
    std::vector<std::unique_ptr<io::Mapping>> maps_;   // many segments each; outlive the segments
    std::mutex mapping_;                               // guards maps_; innermost lock
    std::vector<std::unique_ptr<Segment>> segments_;   // slot i: segment i, null while it is being made
    std::vector<std::uint64_t> vacant_;                // slots whose segment could not be created
    std::vector<Segment*> free_;                       // warm
    std::vector<Segment*> free_cold_;
    bool warming_ = false;           // the background thread has one free segment
    std::uint64_t limit_segments_;   // lowered if the device turns out to be smaller
    const std::uint64_t limit_at_start_;
    std::uint64_t changes_ = 0;
    std::uint64_t taken_ = 0;                         // requests for a segment so far
    std::uint64_t most_in_use_ = 0;                   // most segments in use at a time
    std::uint64_t ahead_bytes_ = 0;                   // created by the background thread
    bool toucher_idle_ = false;                       // it waits for work
    std::uint64_t taken_when_refused_ = UINT64_MAX;   // `taken_` at the last failed creation
    std::uint64_t taken_when_quiet_ = UINT64_MAX;     // `taken_` when no request had come for a while
    std::atomic<std::uint64_t> grown_to_{0};          // least size of the file, unless another program cut it
    std::unique_ptr<std::jthread> toucher_;
};

}   // namespace forebay::log
