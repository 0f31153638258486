// The read cache of one process: chooses the files that are read through it, and has their common state. With option
// `read_cache` it caches regular files whose file system is not known to be local. With `auto` a file starts on trial,
// and the cache gives no warnings. Errors of the cache are no errors of a read: it reads the file, counts the reason,
// and with `on` warns of a fault once (docs/read-cache.md). Thread-safe. `open` blocks on metadata of the file and of
// the staging area. A forked child makes a cache of its own; the inherited one still serves files that were open.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/options.h"
#include "cache/cached_file.h"
#include "cache/counted_files.h"
#include "cache/kept_replicas.h"
#include "cache/leases.h"
#include "cache/many_files.h"
#include "cache/process_store.h"
#include "cache/small_copy.h"
#include "io/trace.h"
#include "task/engine.h"

namespace forebay::cache {

class ReadCache {
  public:
    // Opens `<nls>/forebay-<uid>`. Called once, for the first cached file.
    using OpenArea = ProcessStore::OpenArea;
    struct Manner {
        bool judge_speed = true;   // false: store files even if their file system is fast
        // For other nodes' programs, which read ahead themselves: fetches only requested bytes, waits for equal
        // fetches.
        bool for_others = false;
    };
    ReadCache(const Options& options, OpenArea open_area, Manner manner);
    ReadCache(const Options& options, OpenArea open_area) : ReadCache(options, std::move(open_area), Manner{}) {}
    // Lets later opens read from other nodes. Call before the first `open`.
    void find_peers_by(FindPeers find) noexcept { find_peers_ = std::move(find); }
    // Also adds all counts to `tally`, from the next `open` on.
    void count_into(area::ReadTally& tally) noexcept { counted_.count_into(tally); }
    ~ReadCache();
    ReadCache(const ReadCache&) = delete;
    ReadCache& operator=(const ReadCache&) = delete;

    // The file through which to read `source`, which is open for reading; null: read `source` itself. Sets `warning`
    // once, for the user. Without `may_share`, for files that other nodes join, the replica is its own. `leased` is a
    // result of `leased` for the file; `source` need not be open then (io/descriptor.h).
    [[nodiscard]] std::shared_ptr<CachedFile> open(const std::shared_ptr<io::File>& source, std::string& warning,
                                                   bool may_share = true, LeasedFile* leased = nullptr) noexcept;
    // The file at this complete path, if option `revalidate` allows that and the node has all of it. Null: open the
    // file. May throw std::bad_alloc. Blocks on the staging area.
    [[nodiscard]] std::unique_ptr<LeasedFile> leased(const std::string& path);
    [[nodiscard]] bool has_leases() const noexcept { return leases_.enabled(); }
    void drop_lease(const std::string& path) noexcept { leases_.drop(path); }
    // Prefetches an opened file, after other nodes joined, if option `prefetch` says so.
    void prefetch_opened(CachedFile& file) noexcept;
    // Compares the version at a further open of a file of this process, if option `revalidate` says so.
    void opened_again(CachedFile& file) noexcept;
    void note_closed(const CachedFile& file) noexcept;
    // Call before the file is written. Voids its replica on this node; no process stores its bytes while the lock
    // lives. Null: never cached, the staging area failed, or option `read_cache` is off.
    [[nodiscard]] std::unique_ptr<io::Lock> begin_writing(io::File& target) noexcept;

    [[nodiscard]] CacheTotals totals(CountedFiles::Open open = {}) const { return counted_.totals(open); }
    [[nodiscard]] std::map<std::string, CacheTotals> totals_by_path(CountedFiles::Open open = {}) const {
        return counted_.totals_by_path(open);
    }
    // Stops storing and reading ahead. False: at `until` a thread is still in a call of the source or the staging area;
    // this must then stay to the end of the process.
    [[nodiscard]] bool stop(std::chrono::steady_clock::time_point until);
    // For a forked child, first of all: the threads belong to the parent.
    void forget_threads() noexcept { tasks_.forget_threads(); }

  private:
    [[nodiscard]] Result<std::shared_ptr<CachedFile>> try_open(const std::shared_ptr<io::File>& source, bool may_share);
    [[nodiscard]] std::shared_ptr<CachedFile> open_small(const std::shared_ptr<io::File>& source,
                                                         const io::FileTraits& traits, std::unique_ptr<SmallCopy> copy);
    [[nodiscard]] std::shared_ptr<CachedFile> begin_trial(const std::shared_ptr<io::File>& source,
                                                          const io::FileTraits& traits,
                                                          std::shared_ptr<SharedTrial> trial);
    [[nodiscard]] std::unique_ptr<SmallCopy> small_copy_of(const Version& version, const io::FileTraits& traits);
    [[nodiscard]] Result<CachedFile::Opened> open_replica(const Version& version, io::File& source,
                                                          const io::FileTraits& traits, bool make);
    [[nodiscard]] CachedFile::Opened attach(const std::shared_ptr<io::File>& source, const io::FileTraits& traits,
                                            CachedFile::Cause cause);
    [[nodiscard]] std::shared_ptr<SharedTrial> trial_of(const Version& version);
    [[nodiscard]] bool has_replica(const io::Identity& identity) const;
    [[nodiscard]] bool asked() const noexcept { return options_.read_cache == ReadCacheMode::kOn; }
    [[nodiscard]] bool is_permanent() const noexcept {
        return asked() && options_.read_cache_lifetime == CacheLifetime::kPermanent;
    }
    // For `leave_replicas`: a worker's replicas stay for its parent, which removes them (Keeping::parent).
    void note_opened(const io::Identity& identity);
    void leave_replicas() noexcept;
    void note_written(const io::Identity& identity);
    [[nodiscard]] CachePolicy policy_for(const io::FileTraits& traits) const noexcept;
    [[nodiscard]] CachePolicy policy_of_small(const io::FileTraits& traits) const noexcept;

    const Options& options_;
    const io::Trace trace_;
    const Manner manner_;
    const std::shared_ptr<SharedBudget> pending_;
    Leases leases_;
    FindPeers find_peers_;
    CountedFiles counted_;
    mutable std::mutex mutex_;           // guards the members up to small_opens_; never held over a system call
    std::deque<io::Identity> written_;   // by this process, the last ones, with prefetch=written
    std::set<io::Identity> opened_;      // files that may have temporal replicas; the first ones
    struct KnownTrial {
        Version version;
        std::shared_ptr<SharedTrial> trial;
    };
    std::map<io::Identity, KnownTrial> trials_;
    ManyFiles small_opens_;   // of small files without a kept replica
    const std::uint64_t forks_;
    KeptReplicas kept_;    // until the process ends
    ProcessStore store_;   // its `let_go` uses `kept_`
    task::Engine tasks_;   // last: its threads end first
};

}   // namespace forebay::cache
