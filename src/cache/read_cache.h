// The read cache of one process: which files are read through it, and what they have in common.
//
// A file is read through the cache if option `read_cache` is on, if it is a regular file, and if its file system is not
// known to be on this machine: there a replica would be a second copy at the same speed. With `auto` nobody has asked
// for a cache, so a file is on trial first, and nothing is told. What keeps the cache from its work is never the
// reader's: the file is read itself, the reason is counted, and with `on` a fault is told once.
// docs/read-cache.md.
//
// Thread-safety: all calls from any thread. `open` blocks on metadata of the file and of the staging area. A forked
// child makes one of its own, and calls `open` of that; files that were open go on being read by the inherited one.
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
#include "cache/leases.h"
#include "cache/many_files.h"
#include "cache/small_copy.h"
#include "cache/store.h"
#include "io/trace.h"
#include "task/engine.h"

namespace forebay::cache {

class ReadCache {
  public:
    // Opens `<nls>/forebay-<uid>`. Called once, when the first file is to be cached.
    using OpenArea = std::function<Result<std::unique_ptr<io::Directory>>()>;
    struct Manner {
        bool judge_speed = true;   // false: files are stored, however fast their file system answers
        // For programs of other nodes, which read ahead themselves: what is asked for is fetched, and nothing else; and
        // whoever fetches the same is waited for.
        bool for_others = false;
    };
    ReadCache(const Options& options, OpenArea open_area, Manner manner);
    ReadCache(const Options& options, OpenArea open_area) : ReadCache(options, std::move(open_area), Manner{}) {}
    // Files that are opened from now on may be read from other nodes. Before the first `open`.
    void find_peers_by(FindPeers find) noexcept { find_peers_ = std::move(find); }
    // All that is counted is added there, too, from the next `open` on.
    void count_into(area::ReadTally& tally) noexcept { counted_.count_into(tally); }
    ~ReadCache();
    ReadCache(const ReadCache&) = delete;
    ReadCache& operator=(const ReadCache&) = delete;

    // `source`, which is open for reading, as it is to be read. Null: as it is. `warning` is set once, for the user.
    // `may_share` false: the file has a replica of its own in any case, for example as other nodes will join it.
    // `leased`: what `leased` has returned for the file; `source` need not be open then (io/descriptor.h).
    [[nodiscard]] std::shared_ptr<CachedFile> open(const std::shared_ptr<io::File>& source, std::string& warning,
                                                   bool may_share = true, LeasedFile* leased = nullptr) noexcept;
    // The file at this complete path, if option `revalidate` lets this process open it without asking its file system,
    // and all of its bytes are on the node. Null: open it. May throw std::bad_alloc. Blocks on the staging area.
    [[nodiscard]] std::unique_ptr<LeasedFile> leased(const std::string& path);
    [[nodiscard]] bool has_leases() const noexcept { return leases_.enabled(); }
    // The program removes what is at the path.
    void drop_lease(const std::string& path) noexcept { leases_.drop(path); }
    // `file` was opened, and other nodes have joined if there are any: fetches all of it if option `prefetch` says so.
    void prefetch_opened(CachedFile& file) noexcept;
    // A file of this process is opened once more: whether it is still the same, if option `revalidate` says so.
    void opened_again(CachedFile& file) noexcept;
    // The file is closed: its counters go into the totals.
    void note_closed(const CachedFile& file) noexcept;
    // Before the file is written: nobody on this node reads what is stored of it any more, nor stores anything of it
    // for as long as what is returned lives. Null: it is never cached, or the staging area failed; with option
    // `read_cache` off nothing is looked at.
    [[nodiscard]] std::unique_ptr<io::Lock> begin_writing(io::File& target) noexcept;

    // Of the files that were closed, and of these.
    [[nodiscard]] CacheTotals totals(CountedFiles::Open open = {}) const { return counted_.totals(open); }
    // The same of each file, by its path. The first 1000 have a name; of the others the sum is under the empty path.
    [[nodiscard]] std::map<std::string, CacheTotals> totals_by_path(CountedFiles::Open open = {}) const {
        return counted_.totals_by_path(open);
    }
    // Nothing is read ahead or stored any more. False: at `until` a thread has not come back from the source or the
    // staging area, and this must stay to the end of the process.
    [[nodiscard]] bool stop(std::chrono::steady_clock::time_point until);
    // The threads belong to the parent: in a forked child, before anything else.
    void forget_threads() noexcept { tasks_.forget_threads(); }

  private:
    [[nodiscard]] Result<std::shared_ptr<CachedFile>> try_open(const std::shared_ptr<io::File>& source, bool may_share);
    [[nodiscard]] std::shared_ptr<CachedFile> open_small(const std::shared_ptr<io::File>& source,
                                                         const io::FileTraits& traits, std::unique_ptr<SmallCopy> copy);
    [[nodiscard]] std::shared_ptr<CachedFile> begin_trial(const std::shared_ptr<io::File>& source,
                                                          const io::FileTraits& traits,
                                                          std::shared_ptr<SharedTrial> trial);
    [[nodiscard]] std::unique_ptr<SmallCopy> small_copy_of(const Version& version, const io::FileTraits& traits);
    [[nodiscard]] std::shared_ptr<SmallFiles> small_files();
    [[nodiscard]] std::shared_ptr<Replica> take_kept(const Version& version);
    void let_go() noexcept;
    [[nodiscard]] Status open_store();
    [[nodiscard]] Result<CachedFile::Attached> open_replica(const Version& version, io::File& source,
                                                            const io::FileTraits& traits, bool make);
    [[nodiscard]] CachedFile::Attached attach(const std::shared_ptr<io::File>& source, const io::FileTraits& traits,
                                              CachedFile::Cause cause);
    [[nodiscard]] std::shared_ptr<SharedTrial> trial_of(const Version& version);
    [[nodiscard]] bool has_replica(const io::Identity& identity) const;
    // The user has asked for a cache, of all files.
    [[nodiscard]] bool asked() const noexcept { return options_.read_cache == ReadCacheMode::kOn; }
    [[nodiscard]] bool is_permanent() const noexcept {
        return asked() && options_.read_cache_lifetime == CacheLifetime::kPermanent;
    }
    void keep(const CachedFile& file) noexcept;
    // A worker's replicas stay for later workers of its parent, which removes them here (Keeping::parent).
    void note_opened(const io::Identity& identity);
    void leave_replicas() noexcept;
    void note_written(const io::Identity& identity);
    [[nodiscard]] CachePolicy policy_for(const io::FileTraits& traits) const noexcept;
    [[nodiscard]] CachePolicy policy_of_small(const io::FileTraits& traits) const noexcept;

    const Options& options_;
    const io::Trace trace_;
    const OpenArea open_area_;
    const Manner manner_;
    const std::shared_ptr<SharedBudget> pending_;
    Leases leases_;
    FindPeers find_peers_;
    CountedFiles counted_;
    mutable std::mutex mutex_;           // guards what follows; never held over a call of the system
    std::deque<io::Identity> written_;   // by this process, the last ones; with prefetch=written
    std::set<io::Identity> opened_;      // whose replicas may be temporal; the first ones
    struct KnownTrial {
        Version version;
        std::shared_ptr<SharedTrial> trial;
    };
    std::map<io::Identity, KnownTrial> trials_;
    const std::uint64_t forks_;
    std::vector<std::shared_ptr<Replica>> kept_;   // of closed files, until the process ends; the last ones
    ManyFiles small_opens_;                        // of small files without a kept replica
    std::mutex store_mutex_;                       // guards what follows
    bool store_tried_ = false, warned_ = false;
    Status store_problem_, device_problem_;   // the second: of a further device
    std::shared_ptr<Store> store_;
    std::shared_ptr<SmallFiles> small_files_;
    bool small_tried_ = false;
    task::Engine tasks_;   // last: its threads end first
};

}   // namespace forebay::cache
