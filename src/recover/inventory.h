// The contents of staging areas: process directories, their logs, and which logs belong together.
// It refuses an area, directory or file that is a symbolic link, belongs to another user or is writable by others. It
// scans the logs of dead processes, and reads the ledgers of living ones. Changes nothing. Blocks on reads. Ownership:
// the inventory owns all that it opened; sessions point into its directories.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "area/process.h"
#include "base/status.h"
#include "group/board_format.h"
#include "io/file.h"
#include "ledger/ledger.h"
#include "log/scan.h"
#include "undo/undo_format.h"

namespace forebay::recover {

struct FoundBoard {
    std::string name;
    std::uint64_t log = 0;   // of the drainer
    group::BoardView board;
};

// undo/undo_format.h.
struct FoundJournal {
    std::string name;
    std::uint64_t log = 0;   // number of the file's log in this directory
    std::unique_ptr<io::File> file;
    undo::UndoView view;
};

struct FoundDirectory {
    io::Directory* area = nullptr;
    std::string name;                           // in the area
    std::unique_ptr<io::Directory> directory;   // null if it was refused
    area::ProcessIdentity process;
    bool alive = false;                             // by its lock (area/process.h), also if it was refused
    Status refused;                                 // why it was not read
    std::vector<ledger::FileCounters> open_files;   // from the ledger, if readable
    bool has_ledger = false;                        // the ledger is readable
    std::uint64_t files_without_slot = 0, wrote_ns = 0;
    // For a dead process:
    std::unique_ptr<io::File> pool;      // null: there is no log
    std::uint64_t log_modified_ns = 0;   // mtime of the log; 0: unknown
    std::vector<log::ScannedLog> logs;
    std::vector<FoundBoard> boards;
    std::vector<FoundJournal> journals;
    std::vector<std::string> unfinished;   // boards whose maker died before a process used them: names only
    // The damage of a log with records whose file is unknown, because its open record is unreadable; ok: none. A
    // segment with an unreadable header may belong to such a log, so it counts too. INVARIANT: only `discard` removes
    // such a directory. Recovery never takes the other logs for a complete set.
    Status unnamed;

    // True if the directory has logs that could not be read.
    [[nodiscard]] bool hides_logs() const noexcept { return !refused || !unnamed; }
    // True if a dead process's directory has a log with a file's name, or an undo journal.
    [[nodiscard]] bool holds_logs() const noexcept {
        return !journals.empty() || std::any_of(logs.begin(), logs.end(), [](const log::ScannedLog& log) {
            return !log.segments.empty() && !log.target.path.empty();
        });
    }
    [[nodiscard]] std::string path() const { return area->name() + "/" + name; }
};

struct FoundLog {
    FoundDirectory* directory = nullptr;
    log::ScannedLog* log = nullptr;
};

// The logs of one open for writing: of one process, or of all processes of the node that wrote the file together.
struct Session {
    io::Identity identity;   // of the target
    io::Identity logged;     // as logged; differs after --accept-moved only
    std::string path;
    log::Sharing sharing;
    bool restarted = false;               // a log is of an earlier boot
    std::vector<FoundLog> logs;           // the committing process's log is first, if present
    FoundDirectory* board_at = nullptr;   // null: there is no board, or none needed
    FoundBoard* board = nullptr;
    // True for the session itself and, for a file of several nodes, for the sessions of one run.
    [[nodiscard]] bool same_run(const Session& other) const noexcept {
        return this == &other ||
               (sharing.kind == log::Sharing::Kind::kSeveralNodes && other.sharing.kind == sharing.kind &&
                identity == other.identity && board != nullptr && other.board != nullptr && board->board.team != 0 &&
                board->board.team == other.board->board.team);
    }
    [[nodiscard]] const log::Birth& born() const noexcept { return logs.front().log->target.born; }
    bool has_drainer = true;   // the committing process's log is present
    // For logs of several processes (stated.h):
    bool durable_group = false;
    bool unwritten = false;   // a durable group: no process had written yet
    Status missing, damage;   // of the logs that count; damage also of an unreadable log that may have the commits
};

// A file that several nodes wrote with nodes=consistent: its undo journals here, and the sessions of its logs.
struct TeamSession {
    std::uint64_t team = 0;
    io::Identity identity;
    std::string path;
    struct Member {
        FoundDirectory* directory = nullptr;
        std::string journal;   // its name in the directory
    };
    std::vector<Member> members;
    std::vector<const Session*> sessions;

    [[nodiscard]] static FoundJournal& journal_of(const Member& member);
};

// Tells whether a process runs, if its directory has no lock (area/process.h).
using IsAlive = area::IsSeenRunning;

struct Inventory {
    std::vector<std::unique_ptr<FoundDirectory>> directories;
    std::vector<Session> sessions;   // by file, in order of directories
    std::vector<TeamSession> teams;

    // The number of nodes that wrote the file together with this session and have left logs here.
    [[nodiscard]] std::size_t nodes_here(const Session& session) const;

    // Liveness by the lock in the process's directory or, if that is not here, by `is_seen`.
    [[nodiscard]] bool is_alive(const area::ProcessIdentity& process, const IsAlive& is_seen) const;

    // A living process that has the file open, or whose ledger does not have all files; null: none.
    [[nodiscard]] const FoundDirectory* living_user_of(const io::Identity& identity) const;
};

// A process that came to the areas, or opened the file, after an inventory was taken. Empty if ledgers show none.
// Error: an area or a directory is unreadable.
[[nodiscard]] Result<std::optional<area::ProcessIdentity>> user_now(std::span<io::Directory* const> areas,
                                                                    const io::Identity& identity,
                                                                    const IsAlive& is_alive);

// Lists `areas`, each an open `forebay-<uid>`. Error: an area is not trusted or not listable.
[[nodiscard]] Result<Inventory> take_inventory(std::span<io::Directory* const> areas, const IsAlive& is_alive,
                                               const area::BootId& boot_id);

}   // namespace forebay::recover
