// Stores bytes that a known order uses again, in the place of bytes that it uses later or never. It knows the order of
// the program's reads and what of the file is stored (cache/next_uses.h). Once the cache is full, bytes that were read
// and are used again may take the place of the stored unit whose next use is last. docs/read-cache.md, "What is read
// again". Its tasks share its ownership. Thread-safe: a lock guards the order and the free room, and is held for short.
// Without an order no call takes it. Only tasks block: on the source's state and the staging area.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "cache/ahead_buffer.h"
#include "cache/next_uses.h"
#include "cache/source_fetcher.h"
#include "extent/range.h"
#include "io/file.h"

namespace forebay::cache {

class UnitReplacement : public std::enable_shared_from_this<UnitReplacement> {
  public:
    UnitReplacement(std::shared_ptr<CachedFileState> file, std::shared_ptr<SourceFetcher> fetcher) noexcept;

    // The program will read `range` after the ranges added before. May throw std::bad_alloc.
    void add(ByteRange range);
    // The ranges added so far are an order to follow.
    void follow_order() noexcept { ordered_.store(true); }
    void forget_order() noexcept;
    // The program reads `range`.
    void note_read(ByteRange range) noexcept;
    // A piece to fetch into memory, widened to whole blocks if these may be stored because they are read again, or if
    // servers are asked for them.
    [[nodiscard]] ByteRange widened(ByteRange piece) const noexcept;
    // The program has read these bytes, of the replica's version. Stores them in a task if they are used again.
    void keep(std::uint64_t offset, AheadBuffer::Bytes bytes) noexcept;
    // The program has read these bytes from the file. The version is compared before they are stored.
    void keep_read(std::uint64_t offset, io::Bytes bytes) noexcept;

  private:
    [[nodiscard]] bool is_ordered() const noexcept { return ordered_.load(std::memory_order_relaxed); }
    [[nodiscard]] bool is_worth_keeping(ByteRange range) const noexcept;
    void store_instead(std::uint64_t offset, io::Bytes bytes);
    [[nodiscard]] bool make_room(std::uint64_t unit, std::uint64_t blocks);

    const std::shared_ptr<CachedFileState> file_;
    const std::shared_ptr<SourceFetcher> fetcher_;
    mutable std::mutex mutex_;   // guards the members up to `ordered_`
    NextUses uses_;
    std::uint64_t spare_bytes_ = 0;   // freed by evicting units, not yet used
    bool stored_noted_ = false;       // uses_ has all stored units
    std::atomic<bool> ordered_{false};
};

}   // namespace forebay::cache
