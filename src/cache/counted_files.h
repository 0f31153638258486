// The counters of the read cache of a process: of all its files, and of each path.
// A cached file's close adds its counters here. Ownership: the tally, if any, outlives this. Thread-safe, but
// `count_into` comes first. No call blocks.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "cache/cached_file.h"

namespace forebay::cache {

struct CacheTotals {
    std::uint64_t files = 0;   // read through the cache; for one file: its opens
    std::uint64_t hit_bytes = 0, missed_bytes = 0, fetched_bytes = 0, stored_bytes = 0, unread_bytes = 0;
    std::uint64_t remote_bytes = 0, remote_ns = 0, late_answers = 0;
    std::uint64_t ahead_bytes = 0, replaced_bytes = 0;
    std::array<std::uint64_t, kAsideCount> asides{};   // files, by the last reason
};

class CountedFiles {
  public:
    using Open = std::span<const std::shared_ptr<CachedFile>>;

    void count_into(area::ReadTally& tally) noexcept { tally_ = &tally; }
    void follow(CachedFile& file) const {
        if (tally_ != nullptr) file.count_into(*tally_);
    }
    void note_opened() noexcept;
    void note_aside(const std::string& path, Aside why) noexcept;
    void note_closed(const CachedFile& file) noexcept;

    [[nodiscard]] CacheTotals totals(Open open) const;
    // The totals by path. The first 1000 paths have a name; the empty path has the sum of the others.
    [[nodiscard]] std::map<std::string, CacheTotals> totals_by_path(Open open) const;

  private:
    area::ReadTally* tally_ = nullptr;
    mutable std::mutex mutex_;   // guards the members below
    CacheTotals totals_;
    std::map<std::string, CacheTotals> by_path_;
};

}   // namespace forebay::cache
