// Crash recovery: brings files to their last commit from the logs of dead processes (order: docs/recovery.md). It also
// removes process directories without logs. After a crash at any instant the next run completes the work. One recovery
// at a time works on a file (claim.h). It holds the staging area's lock only while it lists or removes directories,
// never while it touches a target, except on a full staging device. Opens call it through hdf5/driver/open_recovery.h
// and recover/leftovers.h, commands through cli/recover.cc. It disturbs no living process, and prints nothing. Blocks
// on I/O. Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "io/path.h"
#include "io/posix_file.h"
#include "recover/inventory.h"
#include "recover/report.h"
#include "task/engine.h"

namespace forebay::recover {

struct Progress {
    std::string_view path;
    std::uint64_t bytes = 0, of_bytes = 0;   // of this file
    std::size_t file = 0, of_files = 0;
};

// A requested file, by its present identity: it may have been renamed since the program wrote it.
struct Wanted {
    io::Identity identity;   // all zero: no file has this name now
    std::string path;
    log::Birth born{};   // as far as known
};

// Other processes lock a file for a moment to look at it. A network file system may keep a dead process's lock a little
// longer: FUSE tells the server of its end in the background.
inline constexpr io::Directory::Patience kOthersLook{std::chrono::seconds(1)};

// The calls of the system that recovery makes; tests replace them.
struct Outside {
    IsAlive is_alive;   // for processes whose directory has no lock
    area::BootId boot_id{};
    std::function<Result<io::ExistingFile>(const std::string& path)> open_target;
    std::uint64_t booted_ns = 0;   // CLOCK_REALTIME at the start of this boot; 0: unknown
    // Opens the directory of a target; follows symbolic links.
    std::function<Result<std::unique_ptr<io::Directory>>(const std::string& path)> open_home{};
    // The identity of a path, without opening or locking it; follows symbolic links. Null: only an open tells it.
    std::function<Result<io::Identity>(const std::string& path)> identify{};
    // Finds a file by its identity (io/path.h), after it or a folder above was renamed, and returns its path or empty
    // text. Null: it is not searched for.
    std::function<std::string(const std::string& path, const io::Identity& identity)> find_file{};
    // CLOCK_REALTIME of a file's birth; 0: its file system does not tell.
    std::function<std::uint64_t(const std::string& path)> born_ns{};
    task::StartThread start_thread{};   // as in task::Limits

    // `with_others`: the patience with processes that have a target locked (io::open_existing_file).
    [[nodiscard]] static Result<Outside> real(io::Directory::Patience with_others = io::Directory::Patience::kTry);
};

struct Request {
    std::optional<std::vector<Wanted>> only;   // none: all files
    bool dry_run = false;                      // change nothing; report the planned work
    bool although_changed = false;             // also recover files that seem to have been written since
    // In `only`, also accept a log whose target had the same inode number on a device that is gone. Only the user knows
    // that a file system mounted again has the same file.
    bool accept_moved = false;
    bool unasked = false;   // an open, a start of a server or a background drain: refuse what needs a decision
    // Patience with ending processes that have the files open (ending.h), and the call before each wait.
    io::Directory::Patience ending = io::Directory::Patience::kTry;
    std::function<void(const area::ProcessIdentity& process)> waiting;
    io::Directory::Patience patience = io::Directory::Patience::kTry;   // with another recovery of the same file
    io::Directory::Patience beside = io::Directory::Patience::kWait;    // with one on another node (nodes=consistent)
    // Called by one thread at a time: the caller's or one that copies.
    std::function<void(const Progress&)> progress;
};

// `areas` are open folders `forebay-<uid>`. Fails with the errors of the areas, and with kUnavailable if another
// recovery lists or removes directories there for longer than `patience`. The report has the errors of single files
// (kInUse: being recovered) and directories.
[[nodiscard]] Result<Report> recover(std::span<io::Directory* const> areas, const Request& request,
                                     const Outside& outside);

// Removes logs of the given files, or of whole process directories by path. Does not touch files.
struct Discarded {
    std::vector<Wanted> files;
    std::vector<std::string> directories;
    std::vector<std::string> paths;   // as logged, for files that are gone
    bool dry_run = false;
    bool unasked = false;   // an open, not a command: do not report living processes
    io::Directory::Patience patience = io::Directory::Patience::kTry, beside = io::Directory::Patience::kWait;
};
[[nodiscard]] Result<Report> discard(std::span<io::Directory* const> areas, const Discarded& request,
                                     const Outside& outside);

struct VerifiedLog {
    std::string path;   // of the target
    io::Identity identity;
    std::uint64_t log = 0, segments = 0, records = 0, bytes = 0;
    std::uint64_t unchecked_bytes = 0;   // payloads without a checksum
    std::uint64_t commit_sequence = 0, unread_bytes = 0;
    std::vector<std::string> damage;
    bool damaged_before_commit = false;   // recovery would refuse it
};
// An undo journal. If it is damaged, its directory is refused.
struct VerifiedJournal {
    std::string path;   // of the target
    io::Identity identity;
    std::uint64_t member = 0, members = 0;   // the rank, and the number of ranks
    std::uint64_t records = 0, bytes = 0;    // copies of overwritten bytes
    std::uint64_t commit = 0;                // last commit that this rank knows; 0: none since the open
    bool closed = false;                     // nothing to undo
};
struct VerifiedDirectory {
    std::string path;
    std::uint64_t pid = 0;
    bool alive = false;   // its log changes, so it was not read
    Status refused;       // why it was not read
    std::vector<VerifiedLog> logs;
    std::vector<VerifiedJournal> journals;
    std::vector<ledger::FileCounters> open_files;   // from its ledger, if readable
};
// Reads all headers, tables and checksums. Changes nothing.
[[nodiscard]] Result<std::vector<VerifiedDirectory>> verify(std::span<io::Directory* const> areas,
                                                            const Outside& outside);

// The folder `forebay-<uid>` in directory `nls`; null if there is none.
[[nodiscard]] Result<std::unique_ptr<io::Directory>> find_area(const std::string& nls);
// Those of other users in the same directory, if listable.
[[nodiscard]] std::vector<std::unique_ptr<io::Directory>> find_areas_of_others(const std::string& nls);

}   // namespace forebay::recover
