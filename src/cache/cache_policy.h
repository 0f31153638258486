// How one file is read through the cache: its limits, its clocks, and what it may do ahead of requests.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "cache/read_ahead.h"
#include "cache/shared_budget.h"
#include "extent/range.h"

namespace forebay::cache {

struct CachePolicy {
    // Limit of the file's bytes that were read and are not stored yet. Bytes fetched ahead take three quarters at most.
    std::uint64_t budget_bytes = 32 << 20;
    std::shared_ptr<SharedBudget> shared{};   // limit for all files of the process; null: none
    std::uint64_t young_ns = 2'000'000'000;   // bytes are stored only if the file's last change is at least this old
    std::uint64_t (*now_ns)() noexcept;       // CLOCK_REALTIME
    std::uint64_t (*steady_ns)() noexcept;    // CLOCK_MONOTONIC
    bool judge_speed = true;                  // step aside if the source is as fast as a replica
    // A process may use the replica after the close. Set if equal versions mean equal bytes: FileTraits::sure_versions.
    bool outlives_close = true;
    bool read_ahead = true;                        // fetch bytes that are likely to be requested next
    std::uint64_t sample_share = kSampleShare;     // random reads of 1 / sample_share of the file start read-ahead
    std::chrono::milliseconds close_max{10'000};   // longest wait of `close` for bytes that are being stored
    std::uint64_t wait_min_ns = 1'000'000;         // least wait for another process's fetch of the same bytes
    // Least time between two version checks by reads. kOffsetMax: reads make none.
    std::uint64_t look_every_ns = kOffsetMax;
    // Least time between two version checks in the background; used if `look_every_ns` is kOffsetMax.
    std::uint64_t look_behind_ns = kOffsetMax;
};

}   // namespace forebay::cache
