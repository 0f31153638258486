#include "cache/counted_files.h"

#include <atomic>

#include "area/run_tally.h"
#include "base/attempt.h"
#include "cache/attached_replica.h"

namespace forebay::cache {

namespace {

constexpr std::size_t kNamedMax = 1000;   // paths with totals of their own

CacheTotals& totals_of_path(std::map<std::string, CacheTotals>& by_path, const std::string& path) {
    const bool named = by_path.size() < kNamedMax || by_path.contains(path);
    return by_path[named ? path : std::string()];
}

void add_counters(const CachedFile& file, CacheTotals& totals) noexcept {
    const CacheCounters& counters = file.counters();
    const Aside why = counters.aside.load(std::memory_order_relaxed);
    if (why != Aside::kNone) ++totals.asides[static_cast<std::size_t>(why)];
    totals.hit_bytes += counters.hit_bytes.load(std::memory_order_relaxed);
    totals.missed_bytes += counters.missed_bytes.load(std::memory_order_relaxed);
    totals.fetched_bytes += counters.fetched_bytes.load(std::memory_order_relaxed);
    totals.stored_bytes += counters.stored_bytes.load(std::memory_order_relaxed);
    if (const AttachedReplica* const attached = file.attached()) totals.unread_bytes += attached->unread_bytes();
    totals.remote_bytes += counters.remote_bytes.load(std::memory_order_relaxed);
    totals.remote_ns += counters.remote_ns.load(std::memory_order_relaxed);
    totals.late_answers += counters.late_answers.load(std::memory_order_relaxed);
    totals.ahead_bytes += counters.ahead_bytes.load(std::memory_order_relaxed);
    totals.replaced_bytes += counters.replaced_bytes.load(std::memory_order_relaxed);
}

}   // namespace

void CountedFiles::note_opened() noexcept {
    if (tally_ != nullptr) tally_->files.fetch_add(1, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    ++totals_.files;
}

// Without memory, here and below, a file counts in the sum only.
void CountedFiles::note_aside(const std::string& path, Aside why) noexcept {
    const std::lock_guard lock(mutex_);
    ++totals_.asides[static_cast<std::size_t>(why)];
    if (tally_ != nullptr) tally_->aside[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
    (void)attempt([&] { ++totals_of_path(by_path_, path).asides[static_cast<std::size_t>(why)]; });
}

void CountedFiles::note_closed(const CachedFile& file) noexcept {
    const std::lock_guard lock(mutex_);
    add_counters(file, totals_);
    // A file that was not on trial has already counted its reason in the tally.
    if (const Aside why = file.counters().aside.load();
        file.attached() == nullptr && why != Aside::kNone && tally_ != nullptr)
        tally_->aside[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
    (void)attempt([&] {
        CacheTotals& own = totals_of_path(by_path_, file.name());
        ++own.files;
        add_counters(file, own);
    });
}

CacheTotals CountedFiles::totals(Open open) const {
    CacheTotals totals;
    {
        const std::lock_guard lock(mutex_);
        totals = totals_;
    }
    for (const auto& file : open) add_counters(*file, totals);
    return totals;
}

std::map<std::string, CacheTotals> CountedFiles::totals_by_path(Open open) const {
    std::map<std::string, CacheTotals> by_path;
    {
        const std::lock_guard lock(mutex_);
        by_path = by_path_;
    }
    for (const auto& file : open) {
        CacheTotals& own = totals_of_path(by_path, file->name());
        ++own.files;
        add_counters(*file, own);
    }
    return by_path;
}

}   // namespace forebay::cache
