// The staging engine of a process: options, staging area, drain threads, and open files. One engine per host library
// (the plugin owns it). Creating one touches nothing on disk. The first file that is opened for writing opens the
// staging area, and nothing is allocated there before something is staged. The destructor ends the threads and removes
// the logs; a log with undrained bytes stays, for recovery. A drain thread may be in a call that does not return
// (option patience). Then the destructor leaves that thread, and all memory that it may touch, to the end of the
// process, and the logs pass for those of a living process. A process that goes on after its engine calls `await_rest`
// before. The engine has itself the calls that concern several of its parts:
//
//   files()           FileTable        the files that are open
//   area()            ProcessArea      the part of the staging area that is this process's
//   leftovers()       Leftovers        what other processes have left of a file
//   closes()          DeferredCloses   closes that the program does not wait for
//   async_requests()  AsyncRequests    reads that the program does not wait for
//   read_cache()      cache::ReadCache
//
// Lock order: ProcessArea::opening(), a file's writer_, the mutexes of DeferredCloses, FileTable and the file, the
// pool's. Those of Leftovers, Statistics and AsyncRequests are innermost.
// Thread-safety: every call may come from any thread. Fork: a child that inherits the engine can read its files, gets a
// clear error from writes, and neither drains nor removes anything.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/options.h"
#include "base/status.h"
#include "stage/deferred_closes.h"
#include "stage/file_table.h"
#include "stage/leftovers.h"
#include "stage/process_area.h"

namespace forebay::stage {

class Engine {
  public:
    // The usual engine: its staging area is where the options say.
    [[nodiscard]] static std::unique_ptr<Engine> create(
        LoadedOptions options, std::shared_ptr<WaitClock> clock = std::make_shared<WaitClock>());
    // For tests: `open_area` returns the parent of the engine's directory; `clock` measures pauses and option patience.
    using OpenArea = ProcessArea::OpenArea;
    [[nodiscard]] static std::unique_ptr<Engine> create(
        LoadedOptions options, OpenArea open_area, std::shared_ptr<WaitClock> clock = std::make_shared<WaitClock>());
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    [[nodiscard]] const LoadedOptions& options() const noexcept;
    // This process is a forked child, and the engine is its parent's.
    [[nodiscard]] bool inherited() const noexcept;
    // As Statistics::warn_by: the job ends before everything has drained, for one.
    void warn_by(Statistics::Warn warn);

    [[nodiscard]] FileTable& files() noexcept;
    [[nodiscard]] ProcessArea& area() noexcept;
    [[nodiscard]] Leftovers& leftovers() noexcept;
    [[nodiscard]] DeferredCloses& closes() noexcept;
    [[nodiscard]] AsyncRequests& async_requests() noexcept;
    [[nodiscard]] cache::ReadCache& read_cache() noexcept;

    // Call it before the existing file at `path` is opened. If a process of this node has died and left a log of it,
    // brings the file to its last commit. Blocks until that is done, also by another process, and until a deferred
    // close has ended. Returns a text for the user, or an empty one. Fails if the log cannot be used and the file is to
    // be written: its bytes would mix with the log's later. Retryable: another process uses the file. The text reports
    // a log of another file of this name (remounted, or replaced). That is counted; an error with option strict.
    [[nodiscard]] Result<std::string> recover_before_open(const std::string& path, bool writable);
    // Returns the state of the file behind `target.file`, existing or new. A read-only handle reads straight through,
    // and sees staged bytes once a writer attaches. If staging is impossible (an option, an unusable area), attaches in
    // state bypass, counts the reason and, once per engine, gives it in `warning`. With option strict it is the error.
    Result<Attached> attach(OpenTarget target);
    // Attaches a file with `target.forwarded`, which a staging server stages for this process. Errors as `attach`.
    Result<std::shared_ptr<ForwardedWriting>> attach_forwarded(OpenTarget target);
    // Returns a file that a read-only open of this name need neither open nor ask. Its version is known (option
    // `revalidate`), all bytes are on the node, and none of its processes stages it. Null: open it. Blocks on the area.
    [[nodiscard]] std::shared_ptr<cache::LeasedFile> leased(const std::string& name) noexcept;
    void removes(const std::string& name) noexcept;

    // The end of one handle. The last writable one commits, and waits until everything is in the target. Its Status is
    // that of the data: on failure the staged bytes are kept and the message says so. The file stays valid for other
    // handles. If a deferred close has failed before, the first close after that reports it.
    Status detach(const std::shared_ptr<StagedFile>& file, bool writable) noexcept;
    struct Detached {
        Status outcome;
        bool deferred = false;   // `afterwards` is called later, else not at all
    };
    // Follows option close: the last writable handle may return after the commit. `closes().await` waits for the rest.
    Detached detach(const std::shared_ptr<StagedFile>& file, bool writable, AfterClose afterwards) noexcept;

    // A file that stepped aside before it reached the engine (other driver, SWMR, ...).
    void count_aside(ledger::AsideReason reason);
    // A file that was attached to be staged is not, before anything was: others who share it cannot.
    void count_never_staged(ledger::AsideReason reason);
    [[nodiscard]] std::string statistics();

    // The process ends, and some files may never be closed (HDF5 keeps one open whose objects it cannot close). Commits
    // and drains them as a close does, within the option patience. Then tells the statistics, removes the log, and
    // stages nothing more. Returns a text for each file with bytes left in the log. Blocks as closing does; does
    // nothing in a forked child. `leave_to` (close=linger): as DeferredCloses::leave; else waits for the closes.
    using LeaveTo = DeferredCloses::LeaveTo;
    [[nodiscard]] std::vector<std::string> end_of_process(const LeaveTo& leave_to = {});
    // Waits, however long, until no thread of the engine is in a call of a target or begins one. All files are
    // detached. The destructor then leaves only logs of a process that has ended. Does nothing in a forked child.
    void await_rest() noexcept;

  private:
    [[nodiscard]] Result<io::Identity> admit(io::File& file, const OpenTarget& target);
    struct State;
    explicit Engine(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}   // namespace forebay::stage
