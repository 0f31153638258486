// A file that is read from its replica on the staging area or, where that lacks the bytes, from its source.
// A decorator of io::File. A miss reads only the requested bytes from the source. Tasks store them and read ahead,
// within a byte budget. Errors of the cache are no errors of a read: it reads the source, and the cache counts the
// reason (docs/read-cache.md). A file may start on trial: nothing of it is on the staging area until reads show that a
// replica pays (cache/trial.h), or the program asks for it.
// Thread-safe: reads run concurrently. A hit takes no lock and allocates no memory, unless the file has peers or a
// known order (cache/prefetcher.h), or the replica's descriptor is not kept open. A forked child stores nothing: it
// reads the source, or asks the servers of `read_cache_servers`. Writes fail with kUnsupported. Blocks on the source,
// the staging area, another process that fetches the same bytes, and peers. The destructor blocks as `close` does.
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

class AttachedReplica;
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
    struct Opened {
        std::shared_ptr<Replica> replica;
        CachePolicy policy{};
        std::shared_ptr<Peers> peers{};
        Aside why = Aside::kNone;
    };
    using Attach = std::function<Opened(Cause cause)>;
    // Starts on trial. `trial` has the reads of earlier opens; null: only a request of the program attaches a replica.
    // The reading or asking thread calls `attach`, one call at a time, until it returns a replica.
    CachedFile(std::shared_ptr<io::File> source, std::shared_ptr<SharedTrial> trial, task::Engine& tasks, Attach attach,
               std::uint64_t (*steady_ns)() noexcept);
    ~CachedFile() override;

    // The replica and its parts, which live as long as this. Null: on trial.
    [[nodiscard]] AttachedReplica* attached() const noexcept { return attached_.load(std::memory_order_acquire); }
    // Attaches a replica to a file on trial, or waits for a thread that does. Null: there can be none now. Blocks on
    // the file server and the staging area.
    [[nodiscard]] AttachedReplica* attach() noexcept;
    // Makes the first read of a file on trial use an existing replica. Call before that read.
    void attach_early() noexcept { early_.store(true, std::memory_order_relaxed); }
    // Call before the first read.
    void read_by(std::unique_ptr<SmallCopy> copy) noexcept;

    Result<std::size_t> read_at(std::uint64_t offset, io::MutableBytes into) override;
    Result<std::uint64_t> size() override;
    Status write_at(std::uint64_t offset, io::Bytes bytes) override;
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override;
    Status resize(std::uint64_t size) override;
    Status allocate(std::uint64_t offset, std::uint64_t length) override;
    Status punch(std::uint64_t offset, std::uint64_t length) override;

    void look_again();

    [[nodiscard]] const CacheCounters& counters() const noexcept;
    // Call before the first read.
    void count_into(area::ReadTally& tally) noexcept;
    // As of AttachedReplica; they do nothing on trial. The destructor calls `close`.
    void close();
    void await_stored();

  private:
    Result<std::size_t> read_on_trial(std::uint64_t offset, io::MutableBytes into);
    AttachedReplica* attach(Cause cause) noexcept;

    const std::shared_ptr<CacheCounters> counters_;
    std::unique_ptr<AttachedReplica> made_;             // set once, before `attached_`
    std::atomic<AttachedReplica*> attached_{nullptr};   // null: on trial
    // On trial. `attaching_` guards `attach_` and `made_`.
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
