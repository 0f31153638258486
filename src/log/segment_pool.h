// The segments of a process: allocation, recycling, and touching pages ahead of the first burst.
//
// One file on the staging area, cut into segments of equal size. A free segment is taken for the log
// of one file and given back when nothing in it is needed any more; what was given back last is taken
// first, because its pages are warm. The pool never grows beyond its capacity, and a segment's device
// space is allocated before the segment is handed out, so storing into it cannot run out of space. A
// segment whose mapping faults is not handed out again.
//
// Cold and warm. Pages of a mapping have to be touched before storing to them is cheap, and that costs more than
// writing them once by a system call. So a new segment is cold: large payloads are written to the file (`write`), and
// only who wants to store small ones has it touched first (`make_warm`). The background thread warms what was given
// back cold.
//
// Thread-safety: all calls may come from any thread. One background thread, started by `warm_up` only,
// touches pages and ends with the pool.
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

// A segment in use belongs to one FileLog; the fields are guarded by the lock of that log's owner.
class Segment {
  public:
    // `file` is for messages, and outlives the segment.
    Segment(std::uint64_t index, std::unique_ptr<io::Mapping> mapping, const io::File* file = nullptr)
        : index_(index), mapping_(std::move(mapping)), file_(file) {}

    [[nodiscard]] std::uint64_t index() const noexcept { return index_; }
    [[nodiscard]] std::uint64_t size() const noexcept { return mapping_->bytes().size(); }
    [[nodiscard]] std::byte* at(std::uint64_t offset) const noexcept { return mapping_->bytes().data() + offset; }
    [[nodiscard]] io::MutableBytes bytes() const noexcept { return mapping_->bytes(); }

    // Raised whenever the segment changes hands: a reader that finds the same value before and after
    // copying has copied what it meant to. Looks into the mapping, so it may fault.
    [[nodiscard]] std::uint64_t generation() const noexcept;

    // What its records are sealed with (log/format.h). Looks into the mapping, so it may fault.
    [[nodiscard]] std::uint64_t use() const noexcept;

    // The end of the last complete record, as every process sees it.
    [[nodiscard]] std::uint64_t published_tail() const noexcept;

    // EIO: the mapping faulted at `address` (io/guarded_access.h). Names the file and the offset in it.
    [[nodiscard]] Status fault(const std::byte* address) const;

    // Its pages have been touched: storing is cheap. Otherwise every page costs a fault, though it succeeds.
    [[nodiscard]] bool warm() const noexcept { return pages_ == Pages::kTouched; }

    // Nothing in it is needed by its owner or looked at by anybody.
    [[nodiscard]] bool idle() const noexcept {
        return live_bytes == 0 && pins == 0 && unindexed.load(std::memory_order_relaxed) == 0;
    }

    std::uint64_t tail = 0;                    // end of the last record
    std::uint64_t own_generation = 0;          // the generation, for its owner
    std::uint64_t live_bytes = 0;              // payload that is staged and nowhere else yet
    std::uint64_t pins = 0;                    // readers and target writes that still look at it
    std::atomic<std::uint64_t> unindexed{0};   // records that its owner has not taken into its accounts; not guarded
    std::uint64_t first_time_ns = 0;           // CLOCK_REALTIME of its first data record; 0 none
    std::uint64_t participant = 0;             // whose log it is, of the group that writes the file
    SegmentOrder order;                        // of its records among those of all logs of the file

  private:
    friend class SegmentPool;
    enum class Pages : std::uint8_t {
        kNone,      // device space, and nothing else
        kWritten,   // in the page cache, by and large, and not mapped
        kTouched,   // mapped and writable
    };

    std::uint64_t index_;
    std::unique_ptr<io::Mapping> mapping_;
    const io::File* file_;
    Pages pages_ = Pages::kNone;   // changed by who has it: its owner or, while it is free, the pool
};

struct PoolLimits {
    std::uint64_t capacity_bytes = 0;   // never exceeded; at least two segments are always allowed
    std::uint64_t segment_bytes = 0;
    std::uint64_t reserve_bytes = 0;   // touched by warm_up, at most
    // A process that lives no longer would only have waited for pages that nobody uses.
    std::chrono::milliseconds warm_up_after{1000};
    bool in_memory = false;   // the file's pages are its device (tmpfs)
    // So much is mapped at once: a process can have only so many mappings.
    std::uint64_t map_bytes = std::uint64_t{64} << 20;
};

// Where the pool keeps its numbers of segments for others to see; null: nowhere.
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

    // A segment with its header written and its tail at the end of the header. kNoSpace: the capacity
    // is used up, or the device is full or fails. Does not wait, but for the last free one while it is touched.
    enum class Take : std::uint8_t { kAny, kWarm };   // kWarm: only one that has been in use or touched before
    Result<Segment*> acquire(std::uint64_t log, std::uint64_t order, Take take = Take::kAny);

    // Writes `pieces` one after the other to `offset` of a segment of this pool, without its mapping. Blocks as a write
    // does. For who has the segment, as the next.
    [[nodiscard]] Status write(const Segment& segment, std::uint64_t offset, std::span<const io::Bytes> pieces);
    // Touches the pages of a cold segment, whose bytes below its tail stay. Advice: what fails, fails when it is stored
    // to.
    void make_warm(Segment& segment) noexcept;

    // Gives a segment back; its contents are gone for every reader.
    void release(Segment* segment);

    // Of its file.
    [[nodiscard]] Result<io::FileState> state() { return file_->state(io::File::Ask::kTimes); }

    // Waits until everything that was stored into segments before is on the device.
    Status sync() { return file_->sync(); }

    // Starts touching segments ahead in the background, and those that are given back cold, once the process has
    // lived for a moment longer (a short program gains nothing from warm pages), and only while nobody takes segments:
    // somebody who writes needs the processors. Ahead of what is needed come as many as have been in use at one time so
    // far, up to `reserve_bytes`: a program that writes little is to have little taken. Later calls do nothing. Failure
    // to start a thread only means that pages fault later.
    void warm_up();
    // From now on no more than `bytes` are to be touched, less than before: other processes touch theirs.
    void lower_reserve(std::uint64_t bytes) noexcept;

    // Waiting for room: read `changes`, look whether there is something to wait for, then wait until
    // a segment was released or `announce_change` was called since. Returns at once if so already, and at `until`.
    [[nodiscard]] std::uint64_t changes() const;
    void wait_for_change(std::uint64_t seen,
                         std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max());
    void announce_change();

    [[nodiscard]] std::uint64_t allocated() const;   // segments
    [[nodiscard]] std::uint64_t free() const;        // segments
    [[nodiscard]] std::uint64_t segment_bytes() const noexcept { return limits_.segment_bytes; }

    // Ends the background thread without joining it: for a forked child, where it does not exist.
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
    std::condition_variable changed_;                  // what somebody may wait for who wants room
    std::condition_variable_any to_touch_;             // what the background thread waits for
    std::vector<std::unique_ptr<io::Mapping>> maps_;   // of many segments each; they outlive these
    std::mutex mapping_;                               // guards maps_; nothing else is taken below it
    std::vector<std::unique_ptr<Segment>> segments_;   // slot i: segment i, null while it is being made
    std::vector<std::uint64_t> vacant_;   // slots without a segment: it could not be had when it was asked for
    std::vector<Segment*> free_;          // warm
    std::vector<Segment*> free_cold_;
    bool warming_ = false;           // one of these is with the background thread
    std::uint64_t limit_segments_;   // lowered when the device turns out to be smaller
    const std::uint64_t limit_at_start_;
    std::uint64_t changes_ = 0;
    std::uint64_t taken_ = 0;                         // how often a segment was asked for
    std::uint64_t most_in_use_ = 0;                   // segments, at one time
    std::uint64_t ahead_bytes_ = 0;                   // made by the background thread
    bool toucher_idle_ = false;                       // it waits for something to do
    std::uint64_t taken_when_refused_ = UINT64_MAX;   // the same when the last one could not be had
    std::uint64_t taken_when_quiet_ = UINT64_MAX;     // the same when that had been long ago, last time
    std::atomic<std::uint64_t> grown_to_{0};          // the file is at least so long, unless somebody has cut it
    std::unique_ptr<std::jthread> toucher_;
};

}   // namespace forebay::log
