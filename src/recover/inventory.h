// What lies in staging areas: process directories, their logs, and which of those belong together.
//
// Only what is safe to look at is opened: an area, a directory or a file that is a symbolic link, belongs to somebody
// else or can be written by others is refused, with the reason. Logs are scanned of dead processes only; of living
// ones the ledger tells which files they have open. Nothing is changed.
// Blocks on reads. Ownership: the inventory owns what it has opened; sessions point into its directories.
#pragma once

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
    std::uint64_t log = 0;   // the drainer's
    group::BoardView board;
};

// The undo journal of a rank (undo/undo_format.h).
struct FoundJournal {
    std::string name;
    std::uint64_t log = 0;   // the number of the file's log in this directory
    std::unique_ptr<io::File> file;
    undo::UndoView view;
};

struct FoundDirectory {
    io::Directory* area = nullptr;
    std::string name;                           // in the area
    std::unique_ptr<io::Directory> directory;   // null if it was refused
    area::ProcessIdentity process;
    bool alive = false;                             // by the lock in it (area/process.h); also if it was refused
    Status refused;                                 // why it was not looked into
    std::vector<ledger::FileCounters> open_files;   // as the ledger has them, if it can be read
    bool has_ledger = false;                        // it can
    std::uint64_t files_without_slot = 0, wrote_ns = 0;
    // Of a dead process:
    std::unique_ptr<io::File> pool;   // null: there is no log
    std::vector<log::ScannedLog> logs;
    std::vector<FoundBoard> boards;
    std::vector<FoundJournal> journals;
    std::vector<std::string> unfinished;   // boards whose maker died before anybody had seen them: no more than names

    [[nodiscard]] std::string path() const { return area->name() + "/" + name; }
};

// One log, and the directory that it lies in.
struct FoundLog {
    FoundDirectory* directory = nullptr;
    log::ScannedLog* log = nullptr;
};

// What is left of the time in which one file was open for writing: one log, or those of all processes of the node that
// wrote it together.
struct Session {
    io::Identity identity;   // of the target
    io::Identity logged;     // the same, unless its file system was mounted again since and somebody vouches for it
    std::string path;
    log::Sharing sharing;
    std::vector<FoundLog> logs;           // that of the process that commits first, if it is there
    FoundDirectory* board_at = nullptr;   // null: no board, or none needed
    FoundBoard* board = nullptr;
    // Those that nobody else has to do with, or, of a file of several nodes, those of one run.
    [[nodiscard]] bool same_run(const Session& other) const noexcept {
        return this == &other ||
               (sharing.kind == log::Sharing::Kind::kSeveralNodes && other.sharing.kind == sharing.kind &&
                identity == other.identity && board != nullptr && other.board != nullptr && board->board.team != 0 &&
                board->board.team == other.board->board.team);
    }
    [[nodiscard]] const log::Birth& born() const noexcept { return logs.front().log->target.born; }
    bool has_drainer = true;   // the log of the process that commits is there
    // Of durable logs of several processes (stated.h):
    bool durable_group = false;
    bool unwritten = false;   // nobody had come to write anything
    Status missing, damage;   // of what is stated
};

// The same for a file that several nodes wrote with nodes=consistent: the undo journals that are here, and the sessions
// of its logs.
struct TeamSession {
    std::uint64_t team = 0;
    io::Identity identity;
    std::string path;
    struct Member {
        FoundDirectory* directory = nullptr;
        std::string journal;   // its name there
    };
    std::vector<Member> members;
    std::vector<const Session*> sessions;

    [[nodiscard]] static FoundJournal& journal_of(const Member& member);
};

// Whether a process is seen to run: of those whose directory has no lock that would tell (area/process.h).
using IsAlive = area::IsSeenRunning;

struct Inventory {
    std::vector<std::unique_ptr<FoundDirectory>> directories;
    std::vector<Session> sessions;   // by file, in order of directories
    std::vector<TeamSession> teams;

    // Of the nodes that wrote a file together with these logs, how many have left logs here.
    [[nodiscard]] std::size_t nodes_here(const Session& session) const;

    // One that took part in a file. By the lock in its directory; if that is not here, by whether it is seen to run.
    [[nodiscard]] bool is_alive(const area::ProcessIdentity& process, const IsAlive& is_seen) const;

    // A living process has the file open, as far as its ledger tells.
    [[nodiscard]] const FoundDirectory* living_user_of(const io::Identity& identity) const;
};

// A process that has come to the areas, or has opened the file, since an inventory was taken. Empty: none has, as far
// as ledgers tell. An error: an area or a directory cannot be looked into.
[[nodiscard]] Result<std::optional<area::ProcessIdentity>> user_now(std::span<io::Directory* const> areas,
                                                                    const io::Identity& identity,
                                                                    const IsAlive& is_alive);

// Of all process directories in `areas`, each of which is a `forebay-<uid>`, open. The error is that of an area that
// must not be trusted or cannot be listed.
[[nodiscard]] Result<Inventory> take_inventory(std::span<io::Directory* const> areas, const IsAlive& is_alive);

}   // namespace forebay::recover
