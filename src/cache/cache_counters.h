// The counters of one file that is read through the cache, and the reason why the cache leaves it aside. A counter also
// adds to the process's sum, if the file has one. Thread-safe, but `count_into` comes first. No call blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "area/run_tally.h"

namespace forebay::cache {

enum class Aside : std::uint32_t {
    kNone,
    kYoung,     // its last change is too recent: a further change might not show in its times
    kFast,      // its file system answers as fast as the replica would
    kChanged,   // it has another version
    kFull,      // no room
    kFault,     // the staging area failed
    kForked,    // a forked child
    kUnsure,    // its file system may reuse an inode number and times for other content
    kOnce,      // on trial: its reads have not shown that caching pays
    kSlow,      // the staging area answers slower than the file system
};
inline constexpr std::size_t kAsideCount = 10;
// The name in statistics: "young", "fast", ...
[[nodiscard]] const char* aside_name(Aside why) noexcept;

class CacheCounter {
  public:
    void fetch_add(std::uint64_t more, std::memory_order order) noexcept {
        own_.fetch_add(more, order);
        if (sum_ != nullptr) sum_->fetch_add(more, order);
    }
    [[nodiscard]] std::uint64_t load(std::memory_order order = std::memory_order_seq_cst) const noexcept {
        return own_.load(order);
    }
    operator std::uint64_t() const noexcept { return load(); }   // as std::atomic has it
    void count_into(std::atomic<std::uint64_t>& sum) noexcept { sum_ = &sum; }

  private:
    std::atomic<std::uint64_t> own_{0};
    std::atomic<std::uint64_t>* sum_ = nullptr;
};

struct CacheCounters {
    CacheCounter hit_bytes;                       // read from the replica
    CacheCounter missed_bytes;                    // requested, and read from the source
    CacheCounter remote_bytes;                    // requested, and received from another node
    std::atomic<std::uint64_t> remote_ns{0};      // spent on reads from other nodes
    std::atomic<std::uint64_t> late_answers{0};   // questions to other nodes without an answer in time
    CacheCounter fetched_bytes;                   // read from the source, with bytes around a request
    CacheCounter stored_bytes;
    std::atomic<std::uint64_t> ahead_bytes{0};      // of missed_bytes: fetched ahead into memory
    std::atomic<std::uint64_t> replaced_bytes{0};   // evicted for bytes that a known order uses sooner
    std::atomic<std::uint64_t> waits{0};            // reads that waited for another thread's or process's fetch
    std::atomic<Aside> aside{Aside::kNone};         // the last reason
    area::ReadTally* sums = nullptr;

    // Also adds to `tally`. Call before the first read.
    void count_into(area::ReadTally& tally) noexcept;
    // Sets the reason without counting it. `ReadCache::note_closed` counts it for a file on trial.
    void settle(Aside why) noexcept;
    // Sets the reason and counts it in the process's sums if it is new.
    void step_aside(Aside why) noexcept;
};

}   // namespace forebay::cache
