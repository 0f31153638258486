// Facts about a target that threads read without the file's lock: its stripe, whether it may hang, its pace, and
// whether it is unsynced. Thread-safe, except functions that need the file's lock. Nothing blocks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/options.h"
#include "drain/target_pace.h"
#include "io/file.h"

namespace forebay::drain {

// The alignment of target writes if no option and no file system tells one.
inline constexpr std::uint64_t kStripeUnlessTold = std::uint64_t{1} << 20;

class TargetFacts {
  public:
    // Begins anew. The target counts as unsynced, because the open may have emptied or extended it.
    void open(const io::FileTraits& traits, const Options& options) noexcept {
        may_hang_ = traits.may_hang && options.patience != 0;
        reports_late_ = traits.reports_late;
        writes_are_final_ = false;
        lost_ = false;
        stripe_ = options.stripe != 0        ? options.stripe
                  : traits.stripe_bytes != 0 ? traits.stripe_bytes
                                             : kStripeUnlessTold;
        note_unsynced();
        forget_pace();
    }
    [[nodiscard]] std::uint64_t stripe() const noexcept { return stripe_.load(std::memory_order_relaxed); }
    // True if a call of the target may never return.
    [[nodiscard]] bool may_hang() const noexcept { return may_hang_.load(std::memory_order_relaxed); }
    // From now on no returned write is repeated, whatever a later call reports: the report stays as an error.
    void take_writes_for_final() noexcept { writes_are_final_.store(true, std::memory_order_relaxed); }
    [[nodiscard]] bool writes_are_final() const noexcept { return writes_are_final_.load(std::memory_order_relaxed); }
    // A call beside the drain got a report that may be about bytes which are never written again.
    void note_lost() noexcept { lost_.store(true, std::memory_order_relaxed); }
    [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
    // True if a later call may report that bytes of an earlier write are lost (io::FileTraits).
    [[nodiscard]] bool reports_late() const noexcept { return reports_late_.load(std::memory_order_relaxed); }
    // True if the log keeps written bytes until the target confirms them.
    [[nodiscard]] bool keeps_sent() const noexcept { return reports_late() && !writes_are_final(); }
    // The time in ns that draining TargetPace::kBytes takes; none unless the target is as fast as the log.
    [[nodiscard]] std::optional<std::uint64_t> pace() const noexcept {
        const std::uint64_t ns = pace_ns_.load(std::memory_order_relaxed);
        return ns != 0 ? std::optional(ns) : std::nullopt;
    }
    // True after an open, a bypassing write, a change of size beside the drain or a failed sync, until a sync that
    // begins later succeeds.
    [[nodiscard]] bool unsynced() const noexcept { return unsynced_ != synced_; }
    void note_unsynced() noexcept { ++unsynced_; }

    // ---- with the file's lock -------------------------------------------------------------------

    // Ask before a sync begins; `note_synced` takes the answer once it has succeeded.
    [[nodiscard]] std::uint64_t unsynced_count() const noexcept { return unsynced_; }
    void note_synced(std::uint64_t count) noexcept { synced_ = std::max(synced_.load(), count); }
    // True if the target answers slowly; before any measurement, if its file system may hang.
    [[nodiscard]] bool waited_for() const noexcept {
        return !measured_.of_memory() && (measured_.known() || may_hang());
    }
    // Learns from a write that was alone. Returns true if the target has turned out to be memory.
    [[nodiscard]] bool learn(std::uint64_t bytes, std::uint64_t cpu_ns, std::uint64_t took_ns, bool slept) noexcept {
        const bool waited = waited_for();
        measured_.wrote(bytes, cpu_ns, took_ns, slept);
        return waited && !waited_for();
    }
    // A halted drain has no pace, so that all bytes are staged.
    void publish_pace(bool halted) noexcept { pace_ns_ = halted ? 0 : measured_.of_memory().value_or(0); }
    void forget_pace() noexcept {
        measured_ = {};
        pace_ns_ = 0;
    }

  private:
    std::atomic<std::uint64_t> stripe_{kStripeUnlessTold};
    std::atomic<bool> may_hang_{true};   // see io::FileTraits
    std::atomic<bool> reports_late_{false};
    std::atomic<bool> writes_are_final_{false};
    std::atomic<bool> lost_{false};
    std::atomic<std::uint64_t> unsynced_{0}, synced_{0};   // calls of `note_unsynced`, and those that a sync covers
    std::atomic<std::uint64_t> pace_ns_{0};                // 0: none
    TargetPace measured_;
};

}   // namespace forebay::drain
