// Decides whether bytes of one file may be stored in its replica: all of these have to hold. The file is old enough, so
// that a change would show in its times. Its source is slower than a replica (cache/source_speed.h). This process is
// not a forked child. `stop` was never called. Invariant: a thread that sees the stop for a
// full cache also sees `is_full`. Thread-safe without a lock. No call blocks. The speed and the counters outlive this.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "cache/cache_counters.h"
#include "cache/cache_policy.h"
#include "cache/presence.h"
#include "cache/source_speed.h"
#include "io/process_lock.h"

namespace forebay::cache {

class Admission {
  public:
    Admission(const Version& version, const CachePolicy& policy, const SourceSpeed& speed,
              CacheCounters& counters) noexcept
        : old_enough_ns_(std::max(version.modified_ns, version.changed_ns) + policy.young_ns),
          forks_(io::forks_so_far()),
          now_ns_(policy.now_ns),
          speed_(speed),
          counters_(counters) {}

    // True if bytes may be stored. Otherwise counts a reason that is not known yet.
    [[nodiscard]] bool stores() noexcept {
        if (is_stopped()) return false;
        if (is_forked()) {
            counters_.step_aside(Aside::kForked);
            return false;
        }
        if (speed_.is_fast()) return false;
        if (is_young()) {
            counters_.step_aside(Aside::kYoung);
            return false;
        }
        return true;
    }
    [[nodiscard]] bool is_young() const noexcept { return now_ns_() < old_enough_ns_; }
    // True in a forked child of the process that opened the file. Such a child takes no lock of the file's parts.
    [[nodiscard]] bool is_forked() const noexcept { return io::forks_so_far() != forks_; }

    // Stores nothing more, for this reason. kFull: the cache has no room.
    void stop(Aside why) noexcept {
        counters_.step_aside(why);
        if (why == Aside::kFull) full_.store(true);
        stopped_.store(true);
    }
    [[nodiscard]] bool is_stopped() const noexcept { return stopped_.load(std::memory_order_acquire); }
    [[nodiscard]] bool is_full() const noexcept { return full_.load(std::memory_order_acquire); }

  private:
    const std::uint64_t old_enough_ns_, forks_;
    std::uint64_t (*const now_ns_)() noexcept;
    const SourceSpeed& speed_;
    CacheCounters& counters_;
    std::atomic<bool> stopped_{false}, full_{false};
};

}   // namespace forebay::cache
