// The staging engine of a process: options, staging area, drain threads, and the files that are open.
//
// One engine per host library (the plugin owns it). Creating one touches nothing on disk; the staging
// area is opened with the first file that is opened for writing, and nothing is allocated there before
// something is staged. The engine ends its threads and removes its logs when destroyed; a log that still
// holds undrained bytes stays, for recovery. If a drain thread is in a call that does not return (option patience), the
// destructor leaves everything that the thread may touch in memory, and the thread itself, to the end of the process:
// the engine's logs then pass for those of a living process. A process that goes on after its engine calls `await_rest`
// before, so that an engine is never both given up and alive.
// Thread-safety: every call may come from any thread. Fork: a child that inherits the engine can read its
// files, gets a clear error from writes, and neither drains nor removes anything.
#pragma once

#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "cache/cached_file.h"
#include "io/claim.h"
#include "io/descriptor.h"
#include "io/file.h"
#include "ledger/ledger.h"
#include "stage/staged_file.h"

namespace forebay::cache {
struct LeasedFile;   // cache/small_copy.h
}

namespace forebay::stage {

struct OpenTarget {
    std::unique_ptr<io::File> file;   // open on the target; its name is the complete path, for messages and the log
    bool writable = false;
    bool with_peers = false;   // other nodes open it, too: `prefetch_opened` comes once they have joined
    std::optional<ledger::AsideReason> aside = std::nullopt;   // not to be staged, and why: no regular file, for one
    std::function<Status()> prepare =
        {};   // called once nothing refuses it any more, before its size is looked at: empties it
    std::shared_ptr<cache::LeasedFile> leased = {};        // as Engine::leased has returned it for `file`
    std::optional<io::Identity> known_as = std::nullopt;   // replaces the identity of `file`
};

class AsyncRequests;

class Engine {
  public:
    // The usual engine: its staging area is where the options say.
    [[nodiscard]] static std::unique_ptr<Engine> create(
        LoadedOptions options, std::shared_ptr<WaitClock> clock = std::make_shared<WaitClock>());
    // For tests: `open_area` returns the directory in which the engine makes its own. `clock` measures the pauses
    // between attempts, and the waits that option patience ends.
    using OpenArea = std::function<Result<std::unique_ptr<io::Directory>>()>;
    [[nodiscard]] static std::unique_ptr<Engine> create(
        LoadedOptions options, OpenArea open_area, std::shared_ptr<WaitClock> clock = std::make_shared<WaitClock>());
    // How often it has looked what others have left on the staging area.
    [[nodiscard]] std::uint64_t listings() const;
    // The process ends, and some files may never be closed (HDF5 keeps one open whose objects it cannot close): commits
    // and drains them, as a close does, within the option patience, tells the statistics and removes the log. Returns a
    // text for each file of which something stays in the log. From then on nothing is staged. Blocks as closing does.
    // In a forked child it does nothing. `leave_to` (close=linger) gets the name of this process's directory, and lets
    // another process take over the drains of deferred closes. If it fails, this process waits for them.
    using LeaveTo = std::function<Status(const std::string& directory)>;
    [[nodiscard]] std::vector<std::string> end_of_process(const LeaveTo& leave_to = {});
    // Returns once no thread of the engine is in a call of a target, or begins one, however long that takes: nothing of
    // the engine reaches a target any more, and its destructor leaves nothing behind but logs of a process that has
    // ended. All files are detached. In a forked child it does nothing.
    void await_rest() noexcept;
    // In a forked child: it is the parent's.
    [[nodiscard]] bool inherited() const noexcept;
    // Who tells the user what no call has to do with: that the job ends before everything has drained. Called from any
    // thread, once. Before the first file is attached.
    using Warn = std::function<void(const std::string& message)>;
    void warn_by(Warn warn);
    // Where the read cache finds peers of a file. Before the first file is attached.
    void find_peers_by(cache::FindPeers find);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    // With option strict: why files cannot be staged, asked before a file is created or truncated.
    // Without it always ok: `attach` then decides, warns and counts.
    [[nodiscard]] Status admit();

    // Before the existing file at `path` is opened: if a process of this node has died and left a log of it, the file
    // is brought to its last commit. Blocks until that is done, also by another process. The text
    // tells the user what happened; empty: nothing. It is an error if the log cannot be used and the file is to be
    // written: its bytes would be mixed with those of the log later. It may be tried again if somebody else uses the
    // file. A log of another file of this name (its file system was mounted again, or it was replaced) is told of, and
    // counted; with option strict that is an error.
    [[nodiscard]] Result<std::string> recover_before_open(const std::string& path, bool writable);
    // The same for a file that is open already, before anything is read of it, and once it is locked if it is to be:
    // whoever wrote it may have died since another look, and while somebody waited for its lock. Retryable, also for
    // reading: somebody else has the file in use.
    struct OpenedFile {
        io::Identity identity;
        std::string path;
        bool writable = false;
        bool locked = false;   // as HDF5 does, for reading or writing
        std::shared_ptr<io::Descriptor>
            descriptor{};                   // locked for writing, so that the file is brought home through it
        std::function<void()> give_way{};   // else called before it is: a lock for reading is in the way
    };
    [[nodiscard]] Result<std::string> recover_opened(const OpenedFile& file);
    // The errno of a failure of the calls below and above: a process that is not known to be dead, this one included,
    // may still write to the file, and did not come to its end within the option patience. It is named. No program may
    // open the file, for reading neither.
    static constexpr int kUnsettled = EBUSY;
    // Before the file at `path` is emptied: what dead processes have left of it can be given up.
    [[nodiscard]] Status admit_emptying(const std::string& path);
    // Before a file that is open now is emptied, or was made: whether what dead processes have left of it, or of one
    // that had its number, can be given up; and whether this process may write it, as it may not what it could not
    // close. The same error.
    [[nodiscard]] Status may_forget(const io::Identity& identity, const std::string& path);
    // After a file was made or emptied: what dead processes have left of it, or of one that had its number, is void.
    // The same error. `open_here`: also if this process has attached it since.
    [[nodiscard]] Status forget_before(const io::Identity& identity, const std::string& path, bool open_here = false);

    // Why a file that is opened for writing now would not be staged; finds it out if need be. Nothing: it would. The
    // text of the status is what `attach` would warn of, or with option strict fail with.
    struct Obstacle {
        ledger::AsideReason reason;
        Status status;
    };
    [[nodiscard]] std::optional<Obstacle> obstacle();

    // What the processes that share memory with this one have in common: option node, or the machine's boot.
    [[nodiscard]] std::string node_name() const;

    struct Attached {
        std::shared_ptr<StagedFile> file;
        std::string warning;                         // to be shown once to the user; empty: none
        std::shared_ptr<cache::CachedFile> cached;   // what it is read through, if that is the read cache
    };
    // The state of the file behind `target.file`: the one that exists already in this process, or a
    // new one. A read-only handle gets one too: it reads straight through, and sees staged bytes as soon
    // as a writer attaches. When staging is impossible (an option or the staging area is unusable) and
    // option strict is off, the file is attached in write-through mode with the reason counted, and
    // `warning`, given once per engine, says why; with strict on, that is the error.
    Result<Attached> attach(OpenTarget target);
    // A file that is opened read-only by this name, and that needs neither be opened nor asked for anything: its
    // version is known (option `revalidate`), all of its bytes are on the node, and no process of the node stages it.
    // Null: open it. Blocks on the staging area only.
    [[nodiscard]] std::shared_ptr<cache::LeasedFile> leased(const std::string& name) noexcept;
    // The program removes the file of this name.
    void removes(const std::string& name) noexcept;
    // What `attach` left to do of option prefetch. Blocks as CachedFile::prefetch.
    void prefetch_opened(cache::CachedFile& file) noexcept;

    // The end of one handle. The last writable one commits, and waits until everything is in the target.
    // Its Status is that of the data: on failure the staged bytes are kept and the message says so. The
    // file stays valid for other handles. A close that was deferred may have failed since: the first one after that
    // reports it.
    Status detach(const std::shared_ptr<StagedFile>& file, bool writable) noexcept;

    // What is done, by whatever thread, when nothing more comes to the target of a close that was deferred: unlocks and
    // closes its descriptor. `left`: bytes of it are in the log only. `gone`: nothing of this process uses it any more.
    struct Ended {
        bool left = false, gone = false;
    };
    using AfterClose = std::function<Status(Ended)>;
    struct Detached {
        Status outcome;
        bool deferred = false;   // `afterwards` is called later, else not at all
    };
    // The same with option close: the last writable handle may return once everything is committed. The rest is done
    // behind the program, and `await_closed` waits for it.
    Detached detach(const std::shared_ptr<StagedFile>& file, bool writable, AfterClose afterwards) noexcept;

    // Before a file is used that this process, or another one of the node, may have closed without waiting: until that
    // close has ended. kDrop: it is about to be emptied, so what this process has not begun to drain need not be. An
    // error: it cannot be known. Blocks as long as whoever has closed it waits for its target.
    enum class Before : std::uint8_t { kUse, kDrop };
    [[nodiscard]] Status await_closed(const io::Identity& identity, Before before = Before::kUse);
    // Until all such closes of this process have ended. The first failure that nobody was told of. Blocks likewise.
    [[nodiscard]] Status await_all_closed() noexcept;

    // A file that several processes write together is closed in steps (file/shared_file.h). First each of them asks
    // why its close has to wait; with close=wait that is kShared. Nothing: as far as it is concerned it need not.
    [[nodiscard]] std::optional<WaitedClose> why_close_waits(const StagedFile& file);
    void count_waited_close(WaitedClose why) noexcept;
    // Instead of `detach`, once all have agreed: `finish` does what is left to do of the file, and calls nobody but
    // this process. It is done behind the program, or here, if no thread is to be had. `claims`: this is the process
    // that tells others of the node.
    struct SharedClose {
        std::function<Status()> finish;
        AfterClose afterwards;
        bool claims = false;
    };
    void finish_later(const std::shared_ptr<StagedFile>& file, SharedClose close) noexcept;
    // Of a close that has returned, and failed since: what nobody was told of. It is told now.
    [[nodiscard]] Status take_deferred_failure() noexcept;
    // What was asked for asynchronously, of all files. `detach` waits for what it has of its file.
    [[nodiscard]] AsyncRequests& async_requests() noexcept;

    // The state of the open file with this identity, or null.
    [[nodiscard]] std::shared_ptr<StagedFile> find(std::uint64_t device, std::uint64_t inode);

    // What reads the open file with this identity through the read cache; null: nothing does.
    [[nodiscard]] std::shared_ptr<cache::CachedFile> cached(const io::Identity& identity);
    // The file is opened for reading, and may be open already: what is read through the cache is compared with it
    // (option `revalidate`). `attach` does this, too.
    void opened_again(const io::Identity& identity) noexcept;
    // HDF5 forgets an object, and reads it anew (H5Drefresh and its kin): compares every file that is read through the
    // cache with its version, whatever option `revalidate` says. Blocks on a look at each of them.
    void compare_cached() noexcept;
    // Nothing of `file`, which is attached to this engine, is staged, and no handle of this process writes it: whoever
    // reads it may do so through another engine.
    [[nodiscard]] bool only_read(const StagedFile& file) const noexcept;
    // The line of statistics of the process as it would be now.
    [[nodiscard]] std::string statistics();

    // Processes that open a file together stage it for themselves: of two such groups neither would see what the other
    // one stages, and the last drain would win. So the one of them that drains for a node claims the file there, before
    // it is written or emptied. kUnavailable with EBUSY: a process of this node has it claimed, which is named. Other
    // errors: it cannot be known. Null: nothing is staged here.
    [[nodiscard]] Result<std::unique_ptr<io::Claim>> claim(const io::Identity& identity);

    // Of a file that this process has closed, and may still write to: the claim ends with this engine.
    void keep_claim(std::shared_ptr<io::Claim> claim) noexcept;

    // The directory of this process on the staging area, once a file is staged; else null.
    [[nodiscard]] io::Directory* directory() noexcept;

    // `processes` processes of this node, this one included, stage together. Bounds the reserve of each, so that all
    // together take no more of the machine's memory than one would. To be called once the staging area is in use.
    void share_reserve(std::uint64_t processes) noexcept;

    // A file that stepped aside before it reached the engine (other driver, SWMR, ...): counted.
    void count_aside(ledger::AsideReason reason, const std::string& path);
    // A file that was attached to be staged is not, before anything was: others who share it cannot.
    void count_never_staged(ledger::AsideReason reason);

    [[nodiscard]] const LoadedOptions& options() const noexcept;

  private:
    class State;
    explicit Engine(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}   // namespace forebay::stage
