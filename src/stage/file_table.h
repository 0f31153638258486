// The table of the files that are open in this process, by device and inode. All handles of the process on one file
// share an entry and its StagedFile. An entry leaves the table with its last handle, but stays while the newest bytes
// are in the log only. A file whose last writer is closing it can be attached again once that close has ended.
// Locks: `attach` holds `ProcessArea::opening()`, also while the target is opened for staging. `mutex_` guards the
// table. It is held for short, and never while a target or the area is asked. Order: opening(), a file's writer_, the
// mutex of DeferredCloses, mutex_, the mutex of GivenAddresses, a file's mutex(). Thread-safety: every call from any
// thread. Fork: `lock_for_fork` takes the last three of all files, so that a child can look at them. Blocking: as the
// comments say.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "cache/read_cache.h"
#include "io/file.h"
#include "io/forwarded_target.h"
#include "stage/forwarded_writing.h"
#include "stage/process_area.h"
#include "stage/staged_file.h"
#include "stage/statistics.h"

namespace forebay::stage {

struct OpenTarget {
    std::unique_ptr<io::File> file;   // open on the target; its name is the complete path, for messages and the log
    bool writable = false;
    bool with_peers = false;   // other nodes open it, too: `prefetch_opened` comes once they have joined
    std::optional<ledger::AsideReason> aside = std::nullopt;   // why it is not to be staged: no regular file, for one
    // Empties the file. Called once nothing refuses the file any more, before its size is looked at.
    std::function<Status()> prepare = {};
    std::shared_ptr<cache::LeasedFile> leased = {};        // as Engine::leased has returned it for `file`
    std::optional<io::Identity> known_as = std::nullopt;   // replaces the identity of `file`
    // The file at the staging server that stages it for this process. `file` is null then.
    std::unique_ptr<io::ForwardedTarget> forwarded = {};
};

struct Attached {
    std::shared_ptr<StagedFile> file;
    std::string warning;                         // for the user, once; empty: none
    std::shared_ptr<cache::CachedFile> cached;   // through which the file is read, if that is the read cache
};

// The files of which the program has data addresses. It may read them around forebay, so this process stages them no
// more. Each call locks for short. Thread-safe.
class GivenAddresses {
  public:
    void note(const io::Identity& identity);
    // The file is made or emptied: nothing is where it was.
    void forget(const io::Identity& identity);
    [[nodiscard]] bool contains(const io::Identity& identity);

  private:
    friend class FileTable;   // locks it for a fork

    Mutex mutex_;
    std::set<io::Identity> files_ GUARDED_BY(mutex_);
    bool any_ GUARDED_BY(mutex_) = false;   // the set was full: each file counts as in it
};

class FileTable {
  public:
    FileTable(FileContext& context, ProcessArea& area, cache::ReadCache& read_cache, Statistics& statistics)
        : context_(context), area_(area), read_cache_(read_cache), statistics_(statistics) {}

    // As Engine::attach, of a file with this identity. Blocks on the target, and while the file is being closed.
    Result<Attached> attach(OpenTarget target, const io::Identity& identity);
    // Attaches a file with `target.forwarded`. Fails if this process has the file open for writing.
    Result<std::shared_ptr<ForwardedWriting>> attach_forwarded(OpenTarget target, const io::Identity& identity);

    // A close: `begin_close` or `begin_shared_close`, then `end_handle`.

    enum class Handle : std::uint8_t { kOneOfSeveral, kLastWriter, kProcessEnds };
    // Ends a handle's writing. kLastWriter: the caller finishes the file. kProcessEnds: it calls `await_process_end`.
    [[nodiscard]] Handle begin_close(const StagedFile& file, bool writable) noexcept;
    void begin_shared_close(const StagedFile& file) noexcept;
    // The closing thread finishes the file from now on, not the thread that has begun the close.
    void hand_over(const StagedFile& file) noexcept;
    // The writing that `finish` ends. The last writer has begun its close.
    [[nodiscard]] std::shared_ptr<Writing> writing(const StagedFile& file) noexcept;
    // Forgets one handle. `last_writer`: the file is finished. Returns true if this process uses it no more.
    bool end_handle(const std::shared_ptr<StagedFile>& file, bool last_writer) noexcept;

    [[nodiscard]] std::shared_ptr<StagedFile> find(const io::Identity& identity);
    // The cached file through which the open file with this identity is read; null if it is not read so.
    [[nodiscard]] std::shared_ptr<cache::CachedFile> cached(const io::Identity& identity);
    // Before a read-only open: compares a file that is open already with its version in the cache (`revalidate`).
    void opened_again(const io::Identity& identity) noexcept;
    // HDF5 forgets an object, and reads it anew (H5Drefresh and its kin): compares every file that is read through the
    // cache with its version, whatever option `revalidate` says. Blocks on a look at each of them.
    void compare_cached() noexcept;
    // `file` is in the table, unstaged, and no handle of this process writes it: another engine may read it.
    [[nodiscard]] bool only_read(const StagedFile& file) noexcept;
    [[nodiscard]] std::vector<std::shared_ptr<StagedFile>> all();
    struct Written {
        std::shared_ptr<StagedFile> file;
        std::shared_ptr<Writing> writing;
    };
    [[nodiscard]] std::vector<Written> written();
    // Has the file step aside if this process writes it.
    Status step_aside(const io::Identity& identity, ledger::AsideReason reason);
    [[nodiscard]] std::vector<std::shared_ptr<cache::CachedFile>> read_through_cache();
    [[nodiscard]] std::uint64_t pending_bytes() noexcept;

    [[nodiscard]] GivenAddresses& given_addresses() noexcept { return given_addresses_; }

    // The process ends: waits for other threads' closes. A signal handler may have called exit in this thread's own.
    void await_threads_closing() noexcept;
    // For a close that comes while the process ends: the end finishes the file. Waits for it.
    [[nodiscard]] Status await_process_end(const StagedFile& file) noexcept;
    // A thread may write to any file as long as its call lasts: the ledger tells that bytes are left in the logs.
    void note_all_left() noexcept;
    void clear() noexcept;

    void lock_for_fork() NO_THREAD_SAFETY_ANALYSIS;
    void unlock_after_fork() NO_THREAD_SAFETY_ANALYSIS;

  private:
    struct Entry {
        std::shared_ptr<StagedFile> file;
        std::shared_ptr<cache::CachedFile> cached;   // the cached file that `file` reads, or null
        std::unique_ptr<io::Lock> being_written;     // tells readers of this node that they should store nothing
        std::shared_ptr<Writing> writing;            // null while no handle writes
        bool forwarded = false;                      // one handle alone writes, through a staging server
        std::uint64_t handles = 0, writers = 0;
        bool closing = false;          // the last writer is finishing
        std::thread::id closed_by{};   // in this thread's call; none: behind the program
        ledger::LedgerSlot* slot = nullptr;
        std::unique_ptr<ledger::LedgerSlot> own_slot;   // where the ledger has none left
    };
    struct Source {
        std::shared_ptr<io::File> file;
        std::shared_ptr<cache::CachedFile> cached;
    };
    struct NewHandle {
        Entry* entry;
        bool first, first_writer;
    };

    Source open_source(OpenTarget& target, const io::Identity& identity, std::string& warning);
    Result<NewHandle> add_handle(const OpenTarget& target, const io::Identity& identity, const std::string& path,
                                 Source source) REQUIRES(area_.opening());
    Status start_writing(Entry& entry, std::unique_ptr<io::File> target, std::optional<ledger::AsideReason> aside,
                         const std::function<Status()>& prepare);
    Result<std::shared_ptr<ForwardedWriting>> start_forwarding(Entry& entry, OpenTarget target);
    void prepare_writing(Entry& entry, io::File& target);
    void note_writing(Entry& entry, std::shared_ptr<Writing> writing, std::optional<ledger::AsideReason> aside);
    void drop_handle(Entry& entry, bool writable);
    void forget(std::map<io::Identity, Entry>::iterator found) REQUIRES(mutex_);

    FileContext& context_;
    ProcessArea& area_;
    cache::ReadCache& read_cache_;
    Statistics& statistics_;
    GivenAddresses given_addresses_;
    Mutex mutex_;
    Condition closed_;   // an entry's closing or closed_by, or ended_, has changed
    std::map<io::Identity, Entry> files_ GUARDED_BY(mutex_);
    bool ended_ GUARDED_BY(mutex_) = false;   // the process has finished its files
    std::uint64_t next_log_ GUARDED_BY(mutex_) = 1;
};

}   // namespace forebay::stage
