// The counters of the read cache of a process: the totals of all its files, and those of each path.
//
// A cached file counts for itself until it is closed; then its counters are added here. Ownership: the tally, if there
// is one, outlives this. Thread-safety: any thread may make any call, but `count_into` comes first. No call blocks.
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

// The counters of all files of the process, or of one file.
struct CacheTotals {
    std::uint64_t files = 0;   // files read through the cache; for one file: how often it was opened
    std::uint64_t hit_bytes = 0, missed_bytes = 0, fetched_bytes = 0, stored_bytes = 0, unread_bytes = 0;
    std::uint64_t remote_bytes = 0, remote_ns = 0, late_answers = 0;
    std::uint64_t ahead_bytes = 0, replaced_bytes = 0;
    std::array<std::uint64_t, kAsideCount> asides{};   // files, by the last reason to leave one alone
};

class CountedFiles {
  public:
    using Open = std::span<const std::shared_ptr<CachedFile>>;

    // Adds later counts to the tally, too.
    void count_into(area::ReadTally& tally) noexcept { tally_ = &tally; }
    // The file adds what it counts to the tally, if there is one.
    void follow(CachedFile& file) const {
        if (tally_ != nullptr) file.count_into(*tally_);
    }
    // A file is read through the cache.
    void note_opened() noexcept;
    // The file at this path is read without the cache.
    void note_aside(const std::string& path, Aside why) noexcept;
    void note_closed(const CachedFile& file) noexcept;

    // The sum over the closed files and over `open`.
    [[nodiscard]] CacheTotals totals(Open open) const;
    // The totals of each file, by its path. The first 1000 paths have a name; the empty path sums up the others.
    [[nodiscard]] std::map<std::string, CacheTotals> totals_by_path(Open open) const;

  private:
    area::ReadTally* tally_ = nullptr;
    mutable std::mutex mutex_;   // guards the members below
    CacheTotals totals_;
    std::map<std::string, CacheTotals> by_path_;
};

}   // namespace forebay::cache
