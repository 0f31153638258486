// The state that all parts of one cached file share: its source, its replica, and what limits and judges their use. The
// parts that read, fetch and store own it together (cache/attached_replica.h), and so do their tasks. Each member that
// changes is a type with a page of its own, and guards itself. Lock order: Prefetcher, UnitReplacement, PendingBudget,
// AheadBuffer. The other locks are taken alone. Thread-safe. Only the parts block.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "cache/admission.h"
#include "cache/ahead_buffer.h"
#include "cache/cache_counters.h"
#include "cache/cache_policy.h"
#include "cache/peer_access.h"
#include "cache/pending_budget.h"
#include "cache/replica.h"
#include "cache/source_speed.h"
#include "cache/task_count.h"
#include "cache/unread_blocks.h"
#include "cache/version_watch.h"
#include "extent/range.h"
#include "io/file.h"
#include "task/engine.h"

namespace forebay::cache {

[[nodiscard]] constexpr std::uint64_t block_floor(std::uint64_t offset) noexcept {
    return offset / kBlockBytes * kBlockBytes;
}

// The storable part of a range: whole blocks. The last block ends with the file.
[[nodiscard]] constexpr ByteRange whole_blocks(ByteRange range, std::uint64_t file_bytes) noexcept {
    const std::uint64_t begin = block_floor(range.begin + kBlockBytes - 1);
    return {begin, std::max(begin, range.end == file_bytes ? range.end : block_floor(range.end))};
}

struct CachedFileState {
    CachedFileState(std::shared_ptr<io::File> file, std::shared_ptr<Replica> stored, task::Engine& engine,
                    const CachePolicy& how, std::shared_ptr<Peers> servers, std::shared_ptr<CacheCounters> counted)
        : counters(std::move(counted)),
          source(std::move(file)),
          replica(std::move(stored)),
          tasks(engine),
          policy(how),
          peers(std::move(servers)),
          speed(policy, *counters),
          admission(replica->source(), policy, speed, *counters),
          unread(replica->source().size),
          buffer(policy.budget_bytes - policy.budget_bytes / 4, policy.shared),
          budget(policy, buffer),
          version(*source, *replica, policy, admission, buffer) {}
    CachedFileState(const CachedFileState&) = delete;
    CachedFileState& operator=(const CachedFileState&) = delete;

    [[nodiscard]] std::uint64_t size() const noexcept { return replica->source().size; }
    // True if bytes that have no room in the cache may be fetched ahead into memory.
    [[nodiscard]] bool buffers() const noexcept {
        return admission.is_full() && !budget.is_closed() && !replica->unusable() && !speed.is_fast() && buffer.pays();
    }

    const std::shared_ptr<CacheCounters> counters;
    const std::shared_ptr<io::File> source;
    const std::shared_ptr<Replica> replica;
    task::Engine& tasks;
    const std::shared_ptr<TaskCount> task_count = std::make_shared<TaskCount>();
    const CachePolicy policy;
    PeerAccess peers;
    SourceSpeed speed;
    Admission admission;
    UnreadBlocks unread;
    AheadBuffer buffer;
    PendingBudget budget;
    VersionWatch version;
};

}   // namespace forebay::cache
