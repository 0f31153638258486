// A file that is read from its replica on the staging area or, where that lacks the bytes, from its source.
//
// A decorator of io::File. A miss reads only the requested bytes from the source. Tasks store them and read ahead,
// within a byte budget. Errors of the cache are no errors of a read: it reads the source, and the cache counts the
// reason (docs/read-cache.md). A file may start on trial: nothing of it is on the staging area until reads show that a
// replica pays (cache/trial.h), or the program asks for it.
//
// Thread-safe: reads run concurrently. A hit takes no lock and allocates no memory, unless the file has peers or a
// known order (`prefetch`), or the replica's descriptor is not kept open. A forked child stores nothing: it reads the
// source, or asks the servers of `read_cache_servers`. Writes fail with kUnsupported. Blocks on the source, the staging
// area, another process that fetches the same bytes, and peers. The destructor blocks as `close` does.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "area/run_tally.h"
#include "cache/cache_counters.h"
#include "cache/cache_policy.h"
#include "cache/peers.h"
#include "cache/replica.h"
#include "cache/trial.h"
#include "io/forwarding_file.h"
#include "task/engine.h"

namespace forebay::cache {

class ReplicaReader;
class SmallCopy;

class CachedFile final : public io::ForwardingFile {
  public:
    // `source` is open for reading. `tasks` outlives this. Any thread, also in a forked child, may ask `peers`.
    CachedFile(std::shared_ptr<io::File> source, std::shared_ptr<Replica> replica, task::Engine& tasks,
               const CachePolicy& policy, std::shared_ptr<Peers> peers = nullptr);
    enum class Cause : std::uint8_t {
        kPays,     // the reads show that caching pays
        kThere,    // use an existing replica, make none
        kWanted,   // the program asks for the cache
    };
    // A replica and its policy or, if `replica` is null, the reason. After kYoung and kOnce later reads call `attach`
    // again; after other reasons only a request of the program does.
    struct Attached {
        std::shared_ptr<Replica> replica;
        CachePolicy policy{};
        std::shared_ptr<Peers> peers{};
        Aside why = Aside::kNone;
    };
    using Attach = std::function<Attached(Cause cause)>;
    // Starts on trial. `trial` has the reads of earlier opens; null: only a request of the program attaches a replica.
    // The reading or asking thread calls `attach`, one call at a time, until it returns a replica.
    CachedFile(std::shared_ptr<io::File> source, std::shared_ptr<SharedTrial> trial, task::Engine& tasks, Attach attach,
               std::uint64_t (*steady_ns)() noexcept);
    ~CachedFile() override;

    // Attaches a replica to a file on trial, or waits for a thread that does. False: there can be none now. `prefetch`
    // and `read_version` then fail with kUnsupported; `prefetch_all` and `set_pinned` do nothing. Blocks on the file
    // server and the staging area.
    bool ensure_cached() noexcept;
    // Makes the first read of a file on trial use an existing replica. Call before that read.
    void attach_early() noexcept { early_.store(true, std::memory_order_relaxed); }
    // Call before the first read.
    void read_by(std::unique_ptr<SmallCopy> copy) noexcept;
    [[nodiscard]] bool on_trial() const noexcept { return live_.load(std::memory_order_acquire) == nullptr; }

    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override;
    Result<std::uint64_t> size() override;
    Status write_at(std::uint64_t offset, io::Bytes bytes) override;
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override;
    Status resize(std::uint64_t size) override;
    Status allocate(std::uint64_t offset, std::uint64_t length) override;
    Status punch(std::uint64_t offset, std::uint64_t length) override;

    // Reads bytes of the replica's version only, also on trial. kUnavailable: the file changed; kUnsupported: no
    // replica.
    [[nodiscard]] Result<std::size_t> read_version(std::uint64_t offset, io::MutableBytes into);
    // True if the version changed or the staging area failed, so that reads go to the source. False on trial.
    [[nodiscard]] bool unusable() const noexcept;
    // Replica::label, or an empty string on trial.
    [[nodiscard]] std::string replica_label() const;
    // The replica, to keep after the close. Null on trial, or if the file system's versions are not sure.
    [[nodiscard]] std::shared_ptr<Replica> replica_to_keep() const;

    // Compares the version at a reopen. After a change reads go to the source. Does nothing on trial.
    void look_again();

    // Queues the ranges for background fetching, in this order, after earlier calls. Does not wait. Once the cache is
    // full, bytes are fetched into memory, unless the only range is the whole file. With peers that this thread may
    // ask, the node fetches only the parts of its home. kNoSpace: the queue is full, and no range was added.
    // kUnavailable: in a forked child. kUnsupported: the file has no replica.
    [[nodiscard]] Status prefetch(std::span<const ByteRange> ranges);
    // Prefetches the whole file: now, or at the first read once the file is old enough to be stored.
    void prefetch_all() noexcept;
    // Bytes that are queued, being fetched, or fetched and not stored. 0 once the cache is full.
    [[nodiscard]] std::uint64_t prefetch_left() const;
    // Also drops bytes that were fetched into memory.
    void cancel_prefetch();
    // Bytes, in whole blocks, fetched ahead and not read by this process.
    [[nodiscard]] std::uint64_t unread_bytes() const noexcept;
    // A pinned replica stays when the cache is full, even when unused.
    void set_pinned(bool pinned) noexcept;
    // Removes stored bytes, also pinned ones, but no unit that a process changes. 0 on trial. Blocks on the staging
    // area.
    [[nodiscard]] Result<std::uint64_t> evict();
    // The replica for readers that bypass this object, also after the close. kUnsupported: on trial, or versions are
    // unsure.
    struct Exposed {
        std::shared_ptr<Replica> replica;
        std::unique_ptr<io::Mapping> bytes;
        std::unique_ptr<io::Replaceable> guard;   // a faulting page reads as zeros, which fail its checksum
    };
    [[nodiscard]] Result<Exposed> expose() const;
    [[nodiscard]] const Version& version() const noexcept;
    // Adds the nodes that read the file together. False: on trial, or it has peers. `peers` is not null.
    [[nodiscard]] bool join(std::shared_ptr<Peers> peers) noexcept;
    void part() noexcept;
    [[nodiscard]] bool has_peers() const noexcept;

    [[nodiscard]] const CacheCounters& counters() const noexcept;
    // Call before the first read.
    void count_into(area::ReadTally& tally) noexcept;
    // Stops reading ahead; waits up to `CachePolicy::close_max` until fetched bytes are stored, not on trial or in a
    // forked child. The destructor calls it.
    void close();
    void await_stored();

  private:
    Result<std::size_t> read_on_trial(std::uint64_t offset, io::MutableBytes into);
    bool attach(Cause cause) noexcept;
    [[nodiscard]] ReplicaReader* live() const noexcept { return live_.load(std::memory_order_acquire); }

    const std::shared_ptr<CacheCounters> counters_;
    std::unique_ptr<ReplicaReader> reader_;       // set once, before `live_`
    std::atomic<ReplicaReader*> live_{nullptr};   // null: on trial
    // On trial. `attaching_` guards `attach_` and `reader_`.
    std::shared_ptr<io::File> source_;
    task::Engine* tasks_ = nullptr;
    std::shared_ptr<SharedTrial> trial_;
    std::unique_ptr<SmallCopy> small_;
    std::mutex attaching_;
    Attach attach_;
    std::uint64_t (*steady_ns_)() noexcept = nullptr;
    std::atomic<bool> early_{false};
    std::atomic<bool> refused_{false};   // its reads decide nothing
    const std::uint64_t forks_;
};

}   // namespace forebay::cache
