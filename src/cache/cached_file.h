// A file that is read from its replica on the staging area where that has the bytes, and from its source otherwise.
//
// A decorator of io::File: whoever reads does not know which of the two answers. What is asked for comes first: a miss
// reads just that from the source and returns. Storing it, and reading ahead, is done by tasks, under a byte budget. A
// fault of the cache is never the reader's: the source is read instead, and the reason is counted. docs/read-cache.md.
//
// A file may be on trial first: its source is read, without a replica, until its reads show that one pays
// (cache/trial.h) or the program asks for something that takes one. Until then nothing of it is on the staging area.
//
// Thread-safety: all reads from any thread, at once; a hit takes no lock and no memory. In a forked child the source is
// read, and nothing is stored. Writing is refused: a file that is written is not cached.
// Blocks as its source does; at destruction as `close`.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "area/run_tally.h"
#include "cache/peers.h"
#include "cache/read_ahead.h"
#include "cache/replica.h"
#include "cache/trial.h"
#include "io/forwarding_file.h"
#include "task/engine.h"

namespace forebay::cache {

// Why a file that could be cached is not, or not any more.
enum class Aside : std::uint32_t {
    kNone,
    kYoung,     // it changed so recently that another change might not show
    kFast,      // its file system answers as fast as the replica would
    kChanged,   // another version was seen
    kFull,      // no room
    kFault,     // the staging area failed
    kForked,    // a forked child
    kUnsure,    // its file system does not tell one file, or one version of it, from another for good
    kOnce,      // its reads did not show that caching pays
    kSlow,      // the staging area answers slower than the file system
};
inline constexpr std::size_t kAsideCount = 10;
// "young", "fast", ...: as statistics name it.
[[nodiscard]] const char* aside_name(Aside why) noexcept;

// Of one file, and added to the process's sum at the same time, which outlives the process.
class CacheCounter {
  public:
    void fetch_add(std::uint64_t more, std::memory_order order) noexcept {
        own_.fetch_add(more, order);
        if (sum_ != nullptr) sum_->fetch_add(more, order);
    }
    [[nodiscard]] std::uint64_t load(std::memory_order order = std::memory_order_seq_cst) const noexcept {
        return own_.load(order);
    }
    operator std::uint64_t() const noexcept { return load(); }   // as std::atomic has it
    void count_into(std::atomic<std::uint64_t>& sum) noexcept { sum_ = &sum; }

  private:
    std::atomic<std::uint64_t> own_{0};
    std::atomic<std::uint64_t>* sum_ = nullptr;
};

struct CacheCounters {
    CacheCounter hit_bytes;                       // read from the replica
    CacheCounter missed_bytes;                    // asked for, and read from the source
    CacheCounter remote_bytes;                    // asked for, and given by another node
    std::atomic<std::uint64_t> remote_ns{0};      // that took
    std::atomic<std::uint64_t> late_answers{0};   // questions to other nodes that were not answered, or not in time
    CacheCounter fetched_bytes;                   // read from the source, bytes around a request included
    CacheCounter stored_bytes;
    std::atomic<std::uint64_t> waits{0};      // for what another thread or process fetched
    std::atomic<Aside> aside{Aside::kNone};   // the last reason
    area::ReadTally* sums = nullptr;

    // Before the first read.
    void count_into(area::ReadTally& tally) noexcept;
    // The reason is known once all is: it counts at the close.
    void settle(Aside why) noexcept;
    void step_aside(Aside why) noexcept;
};

// Bytes that all files of a process have read and not stored yet. Thread-safe.
class SharedBudget {
  public:
    explicit SharedBudget(std::uint64_t bytes) noexcept : left_(bytes) {}
    [[nodiscard]] bool take(std::uint64_t bytes) noexcept {
        std::uint64_t left = left_.load(std::memory_order_relaxed);
        while (left >= bytes)
            if (left_.compare_exchange_weak(left, left - bytes)) return true;
        return false;
    }
    void give_back(std::uint64_t bytes) noexcept { left_.fetch_add(bytes); }
    [[nodiscard]] bool has(std::uint64_t bytes) const noexcept {
        return left_.load(std::memory_order_relaxed) >= bytes;
    }

  private:
    std::atomic<std::uint64_t> left_;
};

struct CachePolicy {
    std::uint64_t budget_bytes = 32 << 20;    // of what is read and not stored yet
    std::shared_ptr<SharedBudget> shared{};   // the same of all files of the process; null: no bound
    std::uint64_t young_ns = 2'000'000'000;   // a file is not stored before its last change is so long ago
    std::uint64_t (*now_ns)() noexcept;       // CLOCK_REALTIME
    std::uint64_t (*steady_ns)() noexcept;    // CLOCK_MONOTONIC
    bool judge_speed = true;                  // step aside where the source is as fast as a replica
    // The replica may be in use when the file is not open any more: no other file will be taken for it.
    bool outlives_close = true;
    bool read_ahead = true;                        // fetch what is likely to be asked for next
    std::uint64_t sample_share = kSampleShare;     // asked for less than this part (1 / n) of the file: a sample
    std::chrono::milliseconds close_max{10'000};   // that a close waits for what is stored
    std::uint64_t wait_min_ns =
        1'000'000;   // the least time that a read waits for another process that fetches the same bytes
    // A read compares the version first if the last look is so long ago. kOffsetMax: no read does.
    std::uint64_t look_every_ns = kOffsetMax;
    // The same behind the program: the read goes on meanwhile. Only if `look_every_ns` is kOffsetMax.
    std::uint64_t look_behind_ns = kOffsetMax;
};

class CachedFile final : public io::ForwardingFile {
  public:
    // `source` is open for reading. `tasks` outlives this. `peers`: that any thread may ask, a forked child too.
    CachedFile(std::shared_ptr<io::File> source, std::shared_ptr<Replica> replica, task::Engine& tasks,
               const CachePolicy& policy, std::shared_ptr<Peers> peers = nullptr);
    // Why a file on trial is to get its replica.
    enum class Cause : std::uint8_t {
        kPays,     // its reads show that caching pays
        kThere,    // another process, or a command, has made one: that one, or none
        kWanted,   // the program asks for it
    };
    // The replica of a file, and how it is used. Null: `why` is the reason; after kYoung and kOnce it is asked for
    // again.
    struct Attached {
        std::shared_ptr<Replica> replica;
        CachePolicy policy{};
        std::shared_ptr<Peers> peers{};
        Aside why = Aside::kNone;
    };
    using Attach = std::function<Attached(Cause cause)>;
    // On trial, of which `trial` knows what earlier opens of this file have shown; null: its reads decide nothing, as
    // its file system is none to be cached unasked. `attach` is called by the thread
    // that reads or asks, never twice at once, and not again after it has given a replica.
    CachedFile(std::shared_ptr<io::File> source, std::shared_ptr<SharedTrial> trial, task::Engine& tasks, Attach attach,
               std::uint64_t (*steady_ns)() noexcept);
    ~CachedFile() override;

    // Gives a file on trial its replica; waits for another thread that does. False: it cannot have one now. Calls that
    // need the replica then do nothing, and those that return a status fail with kUnsupported. Blocks on the staging
    // area.
    bool ensure_cached() noexcept;
    // The first read of a file on trial takes the replica that another process has made. Before that read.
    void attach_early() noexcept { early_.store(true, std::memory_order_relaxed); }
    [[nodiscard]] bool on_trial() const noexcept { return live_.load(std::memory_order_acquire) == nullptr; }

    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override;
    Status write_at(std::uint64_t offset, io::Bytes bytes) override;
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override;
    Status resize(std::uint64_t size) override;
    Status allocate(std::uint64_t offset, std::uint64_t length) override;
    Status punch(std::uint64_t offset, std::uint64_t length) override;

    // The same, for somebody who has to be sure of the version: kUnavailable: some of the bytes may be of another one.
    [[nodiscard]] Result<std::size_t> read_version(std::uint64_t offset, io::MutableBytes into);
    // Another version was seen, or the staging area failed: nothing is read from the replica any more.
    [[nodiscard]] bool unusable() const noexcept;
    // Which replica it is (Replica::label).
    [[nodiscard]] std::string replica_label() const;
    // For use after the file is closed. Null: on trial, or its file system does not tell versions for sure.
    [[nodiscard]] std::shared_ptr<Replica> replica_to_keep() const;

    // The file is opened once more: compares the version. If it is another one, the source is read from now on.
    void look_again();

    // Fetches what is missing of these ranges, in this order, after those of earlier calls. In the background: the call
    // does not wait for the file. With peers that the calling thread may ask, each node fetches the parts whose home it
    // is; what another has said to have comes from there when it is read. kNoSpace: too many ranges wait already, none
    // of these is taken; kUnavailable: a forked child.
    [[nodiscard]] Status prefetch(std::span<const ByteRange> ranges);
    // The same with the whole file, once it is so old that it can be stored: now, or beside the first read after that.
    void prefetch_all() noexcept;
    // How many bytes of those ranges have not been seen to yet, and how many that were read are not stored yet. 0 too
    // once nothing more can be stored.
    [[nodiscard]] std::uint64_t prefetch_left() const;
    void cancel_prefetch();
    // Of what was fetched unasked, how many bytes this process has not read since; in whole blocks.
    [[nodiscard]] std::uint64_t unread_bytes() const noexcept;
    // A pinned replica stays when the cache is full, also when no process has it open.
    void set_pinned(bool pinned) noexcept;
    // Removes what is stored of it, pinned or not, but for units that somebody is just changing. Returns the bytes.
    // Blocks on the staging area.
    [[nodiscard]] Result<std::uint64_t> evict();
    // What others read of the replica by themselves: its bytes and its map, for as long as this lives, also when the
    // file is closed. kUnsupported: on trial, or the file system does not tell versions for sure.
    struct Exposed {
        std::shared_ptr<Replica> replica;
        std::unique_ptr<io::Mapping> bytes;
        std::unique_ptr<io::Replaceable> guard;   // a page that faults reads as zeros, which no checksum fits
    };
    [[nodiscard]] Result<Exposed> expose() const;
    // Not of a file on trial.
    [[nodiscard]] const Version& version() const noexcept;
    // Other nodes read the file, too; null: no more. False: there are some already.
    [[nodiscard]] bool join(std::shared_ptr<Peers> peers) noexcept;
    void part() noexcept;
    [[nodiscard]] bool has_peers() const noexcept;

    [[nodiscard]] const CacheCounters& counters() const noexcept;
    // From now on also counted there. Before the first read.
    void count_into(area::ReadTally& tally) noexcept;
    // No more is read ahead or prefetched. Waits until what was asked for is stored, for 10 s at most. The destructor
    // does the same.
    void close();
    // Waits until nothing is left to be stored.
    void await_stored();

  private:
    class Core;
    Result<std::size_t> read_on_trial(std::uint64_t offset, io::MutableBytes into);
    bool attach(Cause cause) noexcept;
    [[nodiscard]] Core* live() const noexcept { return live_.load(std::memory_order_acquire); }

    const std::shared_ptr<CacheCounters> counters_;
    std::shared_ptr<Core> core_;         // set once, before `live_`
    std::atomic<Core*> live_{nullptr};   // null: on trial
    // On trial. `attaching_` guards `attach_` and `core_`.
    std::shared_ptr<io::File> source_;
    task::Engine* tasks_ = nullptr;
    std::shared_ptr<SharedTrial> trial_;
    std::mutex attaching_;
    Attach attach_;
    std::uint64_t (*steady_ns_)() noexcept = nullptr;
    std::atomic<bool> early_{false};
    std::atomic<bool> refused_{false};   // its reads decide nothing any more
    const std::uint64_t forks_;
};

}   // namespace forebay::cache
