// Crash recovery: bringing files to their last commit from the logs of dead processes. docs/recovery.md tells why each
// step is where it is.
//
// For each file: look, refuse what is not safe, replay in memory, write, sync, say so in the log, give the log back. A
// process directory without logs is removed. Killed at any instant, the next run finishes what was begun.
// One recovery at a time works on a file; it holds a lock that names it (file_lock.h), and the staging area's lock only
// while it looks and while it removes directories, never while it touches a target. An open of a file comes here
// through hdf5/driver/open_recovery.h, stage/leftovers.h and recover/leftovers.h; a command, through cli/recover.cc.
// Processes at work are never disturbed. Blocks on reads and writes. Nothing is printed. Thread-safety: calls may come
// from several threads.
#pragma once

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

// A file that is asked for, by what it is now: it may have another name than when it was written.
struct Wanted {
    io::Identity identity;   // all zero: there is no file of this name now
    std::string path;
    log::Birth born{};   // as far as it is known
};

// The world around, which tests replace.
struct Outside {
    IsAlive is_alive;   // for processes whose directory has no lock that tells
    area::BootId boot_id{};
    std::function<Result<io::ExistingFile>(const std::string& path)> open_target;
    std::uint64_t booted_ns = 0;   // CLOCK_REALTIME when this boot began; 0: unknown
    // The directory of a target, by its path; symbolic links are followed.
    std::function<Result<std::unique_ptr<io::Directory>>(const std::string& path)> open_home{};
    // What a path is now; symbolic links are followed, and nothing is opened or locked. None: only opening tells.
    std::function<Result<io::Identity>(const std::string& path)> identify{};
    // Where a file is now, by what it is (io/path.h): programs write a file under one name and then give it, or a
    // folder that it is in, another. None: not looked for.
    std::function<io::Search(const std::string& path, const io::Identity& identity)> find_file{};
    // CLOCK_REALTIME when a file was made; 0: its file system does not tell.
    std::function<std::uint64_t(const std::string& path)> born_ns{};
    task::StartThread start_thread{};   // as in task::Limits

    [[nodiscard]] static Result<Outside> real();
};

struct Request {
    std::optional<std::vector<Wanted>> only;   // none: all files
    bool dry_run = false;                      // change nothing, tell what would be done
    bool although_changed = false;             // recover files that seem to have been written since, too
    // Of `only`: also logs whose target had the same inode on a device of another number, and is not to be found there
    // any more: its file system has been mounted again. Whether it is the same file only the user knows.
    bool accept_moved = false;
    bool unasked = false;   // nobody reads the report: leave alone what needs a decision
    // With processes that are ending, and have the files open (ending.h); each is told of.
    io::Directory::Patience ending = io::Directory::Patience::kTry;
    std::function<void(const area::ProcessIdentity& process)> waiting;
    io::Directory::Patience patience =
        io::Directory::Patience::kTry;   // when another recovery is at work on the same file
    io::Directory::Patience beside = io::Directory::Patience::kWait;   // the same, of another node (nodes=consistent)
    // By one thread at a time, the caller's or one that copies beside it.
    std::function<void(const Progress&)> progress;
};

// `areas` are folders `forebay-<uid>`, open. kUnavailable: another recovery is looking round or tidying up there, and
// `patience` is over; one that works on a file is told in the file's report (kInUse). Errors are those of the areas;
// what concerns a file or a process directory is in the report.
[[nodiscard]] Result<Report> recover(std::span<io::Directory* const> areas, const Request& request,
                                     const Outside& outside);

// Gives up what only the logs hold: those of the files that are asked for, or of whole process directories, by their
// paths. Files are not touched.
struct Discarded {
    std::vector<Wanted> files;
    std::vector<std::string> directories;
    std::vector<std::string> paths;   // as the logs have them: for files that are gone
    bool dry_run = false;
    bool unasked = false;   // nobody reads the report: processes at work are not told of
    io::Directory::Patience patience = io::Directory::Patience::kTry, beside = io::Directory::Patience::kWait;
};
[[nodiscard]] Result<Report> discard(std::span<io::Directory* const> areas, const Discarded& request,
                                     const Outside& outside);

// What can be read of the logs, and what cannot.
struct VerifiedLog {
    std::string path;   // of the target
    io::Identity identity;
    std::uint64_t log = 0, segments = 0, records = 0, bytes = 0;
    std::uint64_t unchecked_bytes = 0;   // payloads without a checksum
    std::uint64_t commit_sequence = 0, unread_bytes = 0;
    std::vector<std::string> damage;
    bool damaged_before_commit = false;   // recovery would refuse it
};
// The same of an undo journal. One that is damaged is the reason why its directory is refused.
struct VerifiedJournal {
    std::string path;   // of the target
    io::Identity identity;
    std::uint64_t member = 0, members = 0;   // whose it is, of so many ranks
    std::uint64_t records = 0, bytes = 0;    // of what was there before it was overwritten
    std::uint64_t commit = 0;                // the last one that this rank knows of; 0: the file as it was opened
    bool closed = false;                     // there is nothing to take back
};
struct VerifiedDirectory {
    std::string path;
    std::uint64_t pid = 0;
    bool alive = false;   // not looked into: its log changes
    Status refused;       // why it was not looked into
    std::vector<VerifiedLog> logs;
    std::vector<VerifiedJournal> journals;
    std::vector<ledger::FileCounters> open_files;   // as its ledger has them, if it can be read
};
// Reads all of it: headers, tables, checksums. Changes nothing.
[[nodiscard]] Result<std::vector<VerifiedDirectory>> verify(std::span<io::Directory* const> areas,
                                                            const Outside& outside);

// The folder `forebay-<uid>` in the directory `nls`; null: nothing was ever staged there.
[[nodiscard]] Result<std::unique_ptr<io::Directory>> find_area(const std::string& nls);
// Those of other users in the same directory, as far as they can be listed.
[[nodiscard]] std::vector<std::unique_ptr<io::Directory>> find_areas_of_others(const std::string& nls);

}   // namespace forebay::recover
