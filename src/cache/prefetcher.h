// Fetches named ranges of one cached file before they are read: a queue, and a few tasks that work on it. A task takes
// a piece of the queue, fetches it, and submits the next task. It fetches into the replica or, once the cache is full
// and the order of reads is known, into the ahead buffer. It leaves a piece of another owner to the end of the queue.
// prefetcher.cc has the queue and stores; prefetcher_memory.cc fetches into memory. Invariant: each byte of a range
// that was queued is in the queue, in a task's piece, fetched, or given up. Its tasks share its ownership. Thread-safe:
// a lock guards the queue, and is held for short. No call but those of tasks blocks, except `prefetch` on the answers
// of peers. In a forked child, where the lock may be locked for ever, no call takes it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "cache/ahead_buffer.h"
#include "cache/source_fetcher.h"
#include "cache/unit_replacement.h"
#include "extent/range.h"

namespace forebay::cache {

class Prefetcher : public std::enable_shared_from_this<Prefetcher> {
  public:
    Prefetcher(std::shared_ptr<CachedFileState> file, std::shared_ptr<SourceFetcher> fetcher,
               std::shared_ptr<UnitReplacement> replacement) noexcept;

    // Queues the ranges for the tasks, in this order, after earlier ones. Waits for answers of peers only. Once the
    // cache is full, bytes are fetched into memory, unless the only range is the whole file. With peers that this
    // thread may ask, the node fetches only the parts of its home. kNoSpace: the queue is full, and no range was added.
    // kUnavailable: in a forked child, or without memory.
    [[nodiscard]] Status prefetch(std::span<const ByteRange> ranges) noexcept;
    // Prefetches the whole file: now, or at the first read once the file is old enough to be stored.
    void prefetch_all() noexcept;
    // Bytes that are queued, being fetched, or fetched and not stored. 0 once the cache is full.
    [[nodiscard]] std::uint64_t left() const;
    // Also drops bytes that were fetched into memory.
    void cancel();

    [[nodiscard]] bool waits_for_age() const noexcept { return all_once_old_.load(std::memory_order_relaxed); }
    // A read takes `range` from the file: removes it from the queue.
    void overtake(ByteRange range) noexcept;
    // Restarts prefetchers that ended for lack of memory.
    void resume() noexcept;

  private:
    enum class Order : std::uint8_t {
        kOfReads,   // the program reads the ranges in this order
        kOfFile,    // unknown
    };
    struct Wanted {
        ByteRange range;
        Order order = Order::kOfReads;
    };
    // A piece of the queue that a task fetches into `room` or, without room, into the replica.
    struct Taken {
        std::shared_ptr<Prefetcher> prefetcher;   // first, so it ends last
        Wanted piece;
        bool again = false;
        ByteRange fetched{};   // into `room`: the piece, or whole blocks
        AheadBuffer::Room room;
    };
    [[nodiscard]] Status add(std::span<const ByteRange> ranges, Order order);
    [[nodiscard]] std::vector<ByteRange> share_of(Peers& peers, std::span<const ByteRange> ranges);
    void start_prefetchers();
    bool prefetch_one();
    [[nodiscard]] bool take_piece(Taken& taken);
    void fetch_piece(Taken& taken);
    [[nodiscard]] std::uint64_t fetch_missing(Wanted piece, bool again);
    void leave_out(Wanted rest);
    void put_back(Wanted rest);
    void forget_unordered();
    void fetch_into_memory(Taken& taken);
    void fetch_ahead_of_read(ByteRange part) noexcept;

    const std::shared_ptr<CachedFileState> file_;
    const std::shared_ptr<SourceFetcher> fetcher_;
    const std::shared_ptr<UnitReplacement> replacement_;
    mutable std::mutex mutex_;   // guards the members up to the atomics
    std::deque<Wanted> wanted_;
    std::deque<Wanted> left_out_;       // because other owners had their units
    bool any_unordered_ = false;        // wanted_ may have ranges of Order::kOfFile
    std::uint64_t wanted_bytes_ = 0;    // of both queues
    std::uint64_t taken_bytes_ = 0;     // of pieces in tasks
    std::size_t prefetchers_ = 0;       // tasks
    std::atomic<bool> paused_{false};   // prefetchers ended for lack of memory
    std::atomic<bool> all_once_old_{false};
};

}   // namespace forebay::cache
