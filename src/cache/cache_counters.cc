#include "cache/cache_counters.h"

namespace forebay::cache {

const char* aside_name(Aside why) noexcept {
    switch (why) {
        case Aside::kNone: break;
        case Aside::kYoung: return "young";
        case Aside::kFast: return "fast";
        case Aside::kChanged: return "changed";
        case Aside::kFull: return "full";
        case Aside::kFault: return "fault";
        case Aside::kForked: return "forked";
        case Aside::kUnsure: return "unsure";
        case Aside::kOnce: return "once";
        case Aside::kSlow: return "slow";
    }
    return "none";
}

void CacheCounters::count_into(area::ReadTally& tally) noexcept {
    hit_bytes.count_into(tally.hit_bytes);
    missed_bytes.count_into(tally.missed_bytes);
    remote_bytes.count_into(tally.remote_bytes);
    fetched_bytes.count_into(tally.fetched_bytes);
    stored_bytes.count_into(tally.stored_bytes);
    sums = &tally;
}

void CacheCounters::step_aside(Aside why) noexcept {
    if (aside.exchange(why, std::memory_order_relaxed) == why || sums == nullptr) return;
    // The earlier reason stays counted: in a forked child it is the parent's.
    sums->aside[static_cast<std::size_t>(why)].fetch_add(1, std::memory_order_relaxed);
}
void CacheCounters::settle(Aside why) noexcept { aside.store(why, std::memory_order_relaxed); }

}   // namespace forebay::cache
