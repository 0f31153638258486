// The state that reads of a cached file share with its tasks.
//
// cached_file_core.cc reads, fetches and stores. cached_file_prefetch.cc fetches named ranges ahead.
// cached_file_ahead.cc fetches into memory when the cache is full. cached_file_replace.cc stores in the place of other
// bytes. cached_file_version.cc compares versions. cached_file_speed.cc judges speed. Internal to these files.
// Thread-safety and blocking: as CachedFile's.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cache/ahead_buffer.h"
#include "cache/cached_file.h"
#include "cache/next_uses.h"
#include "cache/peer_patience.h"
#include "cache/peers.h"
#include "cache/replica.h"
#include "cache/unread_blocks.h"
#include "io/process_lock.h"

namespace forebay::cache {

inline constexpr std::uint64_t kFetchMax = 1 << 20;   // of one request for bytes that were not requested

[[nodiscard]] constexpr std::uint64_t block_floor(std::uint64_t offset) noexcept {
    return offset / kBlockBytes * kBlockBytes;
}

// The storable part of a range: whole blocks. The last block ends with the file.
[[nodiscard]] constexpr ByteRange whole_blocks(ByteRange range, std::uint64_t file_bytes) noexcept {
    const std::uint64_t begin = block_floor(range.begin + kBlockBytes - 1);
    return {begin, std::max(begin, range.end == file_bytes ? range.end : block_floor(range.end))};
}

// Counts the tasks of a file. A task counts until the engine has destroyed it with all that it owns.
class TaskCount {
  public:
    // One task; a member that is declared before what the task owns.
    class Entry {
      public:
        explicit Entry(std::shared_ptr<TaskCount> count) noexcept : count_(std::move(count)) {
            const std::lock_guard lock(count_->mutex_);
            ++count_->tasks_;
        }
        ~Entry() {
            const std::lock_guard lock(count_->mutex_);
            if (--count_->tasks_ == 0) count_->none_.notify_all();
        }
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;

      private:
        const std::shared_ptr<TaskCount> count_;
    };
    // Blocks until there is none, or until then.
    void await_none(std::chrono::steady_clock::time_point until) {
        std::unique_lock lock(mutex_);
        none_.wait_until(lock, until, [this] { return tasks_ == 0; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable none_;
    std::size_t tasks_ = 0;
};

// Tasks share its ownership until they end.
class CachedFile::Core {
  public:
    Core(std::shared_ptr<io::File> source, std::shared_ptr<Replica> replica, task::Engine& tasks,
         const CachePolicy& policy, std::shared_ptr<Peers> servers, std::shared_ptr<CacheCounters> counted)
        : counted_(std::move(counted)),
          counters(*counted_),
          source_(std::move(source)),
          replica_(std::move(replica)),
          tasks_(tasks),
          policy_(policy),
          servers_(std::move(servers)),
          ahead_(replica_->source().size, servers_ != nullptr ? servers_->first_byte() : 0, policy_.sample_share),
          unread_(replica_->source().size),
          buffer_(policy_.budget_bytes - policy_.budget_bytes / 4, policy_.shared),
          old_enough_ns_(std::max(replica_->source().modified_ns, replica_->source().changed_ns) + policy.young_ns),
          forks_(io::forks_so_far()),
          looked_ns_(policy_.steady_ns()) {}

    Result<std::size_t> read(const std::shared_ptr<Core>& self, std::uint64_t offset, io::MutableBytes into);
    Result<std::size_t> read_version(const std::shared_ptr<Core>& self, std::uint64_t offset, io::MutableBytes into);
    void await_stored();
    void look_again();
    void close();
    // The order that a queued range gives of the program's reads.
    enum class Order : std::uint8_t {
        kOfReads,   // the program reads the ranges in this order
        kOfFile,    // unknown
    };
    Status prefetch(const std::shared_ptr<Core>& self, std::span<const ByteRange> ranges, Order order);
    void prefetch_all(const std::shared_ptr<Core>& self);
    [[nodiscard]] std::uint64_t prefetch_left() const;
    [[nodiscard]] std::uint64_t unread_bytes() const noexcept { return unread_.bytes(); }
    void cancel_prefetch();
    [[nodiscard]] bool join(std::shared_ptr<Peers> peers) noexcept;
    void part() noexcept;
    [[nodiscard]] bool has_peers() const noexcept { return servers_ != nullptr || has_peers_.load(); }
    [[nodiscard]] const std::shared_ptr<Replica>& replica() const noexcept { return replica_; }
    [[nodiscard]] bool outlives_close() const noexcept { return policy_.outlives_close; }

  private:
    const std::shared_ptr<CacheCounters> counted_;   // first

  public:
    CacheCounters& counters;

  private:
    // A part of the byte budget, while it lives.
    class Budget {
      public:
        Budget() noexcept = default;
        Budget(std::shared_ptr<Core> core, std::uint64_t bytes) noexcept : core_(std::move(core)), bytes_(bytes) {}
        ~Budget() { shrink(0); }
        Budget(Budget&& other) noexcept : core_(std::move(other.core_)), bytes_(std::exchange(other.bytes_, 0)) {}
        Budget& operator=(Budget&& other) noexcept {
            shrink(0);
            core_ = std::move(other.core_);
            bytes_ = std::exchange(other.bytes_, 0);
            return *this;
        }
        void shrink(std::uint64_t to) noexcept {
            if (bytes_ > to) core_->give_back_budget(std::exchange(bytes_, to) - to);
        }

      private:
        std::shared_ptr<Core> core_;
        std::uint64_t bytes_ = 0;
    };
    // Bytes of the source from `offset` on, on their way into the replica, and the right to store them.
    struct Fetched {
        Budget budget;   // first, so it is given back last
        std::uint64_t offset = 0;
        std::vector<std::byte> bytes;
        std::vector<Replica::Claim> claims;
    };

    // The origin of a read's bytes: from the replica, from the buffer, and whether others are from the file.
    struct Sources {
        std::uint64_t kept = 0, ahead = 0;
        bool file = false;
    };
    struct Wanted {
        ByteRange range;
        Order order = Order::kOfReads;
    };
    // A piece of the queue that a task fetches into `room` or, without room, into the replica.
    struct Taken {
        std::shared_ptr<Core> core;   // first, so it ends last
        Wanted piece;
        bool again = false;
        ByteRange fetched{};   // into `room`: the piece, or whole blocks
        AheadBuffer::Room room;
    };
    Result<std::size_t> read_known(const std::shared_ptr<Core>& self, std::uint64_t offset, io::MutableBytes into,
                                   Sources& from);
    void note_hit(std::uint64_t offset, std::size_t bytes, Sources& from) noexcept;
    [[nodiscard]] bool is_still_source();
    void note_changed() noexcept;
    void look_if_due(const std::shared_ptr<Core>& self);
    Result<std::size_t> read_source(std::uint64_t offset, io::MutableBytes into);
    Result<std::size_t> read_unstored(std::uint64_t offset, io::MutableBytes into);
    // The latest end of a claim that begins at `offset`.
    [[nodiscard]] std::uint64_t end_of_claim(std::uint64_t offset) const noexcept {
        const std::uint64_t within = servers_ != nullptr ? servers_->claim_within() : 0;
        return within == 0 ? kOffsetMax : (offset / within + 1) * within;
    }
    Result<std::size_t> read_whole(Peers* peers, ByteRange whole, ByteRange asked, io::MutableBytes into);
    [[nodiscard]] std::shared_ptr<Peers> peers_here() noexcept;
    Result<std::size_t> fetch(const std::shared_ptr<Core>& self, ByteRange missing, io::MutableBytes into,
                              Sources& from);
    std::size_t await_others(ByteRange whole, io::MutableBytes into, std::uint64_t offset,
                             std::vector<Replica::Claim>& claims);
    std::vector<Replica::Claim> claim_units(ByteRange range) const;
    void read_ahead(const std::shared_ptr<Core>& self, ByteRange range, Peers* peers);
    [[nodiscard]] std::uint64_t fetch_ahead(const std::shared_ptr<Core>& self, ByteRange piece);
    bool submit(std::function<Status()> run);
    [[nodiscard]] std::vector<ByteRange> share_of(Peers& peers, std::span<const ByteRange> ranges);
    void start_prefetchers(const std::shared_ptr<Core>& self);
    bool prefetch_one(const std::shared_ptr<Core>& self);
    [[nodiscard]] bool take_piece(Taken& taken);
    void fetch_piece(Taken& taken);
    [[nodiscard]] std::uint64_t fetch_missing(Wanted piece, bool again);
    void leave_out(Wanted rest);
    void put_back(Wanted rest);
    void forget_unordered();
    [[nodiscard]] bool buffers() const noexcept;
    [[nodiscard]] ByteRange widened(ByteRange piece) const noexcept;
    void fetch_into_memory(Taken& taken);
    void fetch_ahead_of_read(ByteRange part) noexcept;
    std::size_t read_buffer(const std::shared_ptr<Core>& self, std::uint64_t offset, io::MutableBytes into) noexcept;
    void keep(const std::shared_ptr<Core>& self, std::uint64_t offset, AheadBuffer::Bytes bytes) noexcept;
    void keep_read(const std::shared_ptr<Core>& self, std::uint64_t offset, io::Bytes bytes) noexcept;
    [[nodiscard]] bool is_worth_keeping(ByteRange range) const noexcept;
    void store_instead(std::uint64_t offset, io::Bytes bytes);
    [[nodiscard]] bool make_room(std::uint64_t unit, std::uint64_t blocks);
    void forget_order() noexcept;
    void overtake(const std::shared_ptr<Core>& self, ByteRange range) noexcept;
    void resume(const std::shared_ptr<Core>& self) noexcept;
    [[nodiscard]] std::uint64_t patience_ns() const noexcept;
    void fetch_claimed(Fetched& fetched, std::uint64_t bytes);
    [[nodiscard]] static std::optional<Fetched> begin_fetch(const std::shared_ptr<Core>& self, ByteRange whole);
    void store(Fetched& fetched);
    void submit_store(const std::shared_ptr<Core>& self, Fetched fetched) noexcept;
    void read_ahead_after_miss(const std::shared_ptr<Core>& self, ByteRange missed, Peers* peers);
    [[nodiscard]] bool stores();
    [[nodiscard]] bool is_young() const noexcept { return policy_.now_ns() < old_enough_ns_; }
    [[nodiscard]] bool is_source(const io::FileState& state) const noexcept;
    [[nodiscard]] bool take_budget(std::uint64_t bytes);
    [[nodiscard]] bool has_budget(std::uint64_t bytes);
    void give_back_budget(std::uint64_t bytes);
    void judge(std::uint64_t bytes, std::uint64_t took_ns) noexcept;
    void judge_hit(std::uint64_t bytes, std::uint64_t took_ns) noexcept;
    std::size_t read_replica(std::uint64_t offset, io::MutableBytes into);
    void count_down(std::uint64_t bytes) noexcept;
    void step_aside(Aside why) noexcept { counters.step_aside(why); }

    const std::shared_ptr<io::File> source_;
    const std::shared_ptr<Replica> replica_;
    task::Engine& tasks_;
    const std::shared_ptr<TaskCount> task_count_ = std::make_shared<TaskCount>();
    const CachePolicy policy_;
    const std::shared_ptr<Peers> servers_;   // any thread may ask them, without a lock; null: none
    mutable std::mutex mutex_;               // guards the members up to the constants
    std::condition_variable idle_;
    ReadAhead ahead_;
    std::uint64_t pending_bytes_ = 0;   // read ahead or fetched, and not stored
    std::deque<Wanted> wanted_;         // to be prefetched
    std::deque<Wanted> left_out_;       // because other owners had their units
    bool any_unordered_ = false;        // wanted_ may have ranges of Order::kOfFile
    std::uint64_t wanted_bytes_ = 0;    // of both queues
    std::uint64_t taken_bytes_ = 0;     // of pieces in tasks
    std::size_t prefetchers_ = 0;       // tasks
    NextUses uses_;                     // by the order of the queue; without read ranges
    std::uint64_t spare_bytes_ = 0;     // freed by evicting units, not yet used
    bool stored_noted_ = false;         // uses_ has all stored units
    std::shared_ptr<Peers> peers_;
    SourcePace pace_;   // while there are peers
    std::atomic<bool> has_peers_{false};
    UnreadBlocks unread_;
    AheadBuffer buffer_;
    const std::uint64_t old_enough_ns_, forks_;
    std::atomic<std::uint64_t> looked_ns_{0};
    std::atomic<std::uint64_t> requests_{0}, request_ns_{0}, request_bytes_{0}, fast_bytes_left_{0};
    // Timed hits, and the time that the source would have taken.
    std::atomic<std::uint64_t> hits_{0}, timed_hits_{0}, timed_ns_{0}, timed_source_ns_{0};
    std::atomic<bool> passes_by_{false};      // hits are slower than the source: read the source
    std::atomic<bool> stopped_{false};        // store nothing more
    std::atomic<bool> full_{false};           // because the cache has no room
    std::atomic<bool> ordered_{false};        // uses_ has an order
    std::atomic<bool> paused_{false};         // prefetchers ended for lack of memory
    std::atomic<bool> closing_{false};        // read nothing ahead
    std::atomic<bool> looking_{false};        // a task compares the version
    std::atomic<bool> all_once_old_{false};   // prefetch the whole file then
};

}   // namespace forebay::cache
