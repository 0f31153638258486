#include "recover/inventory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "area/process.h"
#include "recover/ending.h"
#include "recover/process_directory.h"
#include "recover/stated.h"
#include "recover/trust.h"

namespace forebay::recover {

namespace {

Status look_for_journals(FoundDirectory& found) {
    const auto names = found.directory->list();
    if (!names) return names.status();
    for (const std::string& name : names.value()) {
        const auto log = undo::log_of_undo(name);
        if (!log) continue;
        FoundJournal journal;
        journal.name = name;
        journal.log = *log;
        auto file = open_trusted(*found.directory, name, io::OpenMode::kReadWrite);
        if (file.status().code() == Code::kNotFound) continue;   // another recovery has just removed it
        if (!file) return file.status();
        // The process died while it created the journal, before it wrote to the target.
        const auto bytes = file.value()->size();
        if (!bytes) return bytes.status();
        if (bytes.value() < undo::kUndoFrontBytes) continue;
        auto view = undo::read_undo(*file.value());
        if (!view) return view.status();
        journal.file = std::move(file).value();
        journal.view = std::move(view).value();
        found.journals.push_back(std::move(journal));
    }
    return Status::ok();
}

Status look_for_boards(FoundDirectory& found) {
    const auto names = found.directory->list();
    if (!names) return names.status();
    for (const std::string& name : names.value()) {
        const auto log = group::log_of_board(name);
        if (!log) continue;
        FoundBoard board;
        board.name = name;
        board.log = *log;
        auto file = open_trusted(*found.directory, name, io::OpenMode::kReadWrite);
        if (file.status().code() == Code::kNotFound) continue;   // another recovery has just removed it
        if (!file) return file.status();
        auto read = group::read_board(*file.value());
        // The process died while it created the board: no process used it, and nothing was staged.
        if (read.status().code() == Code::kNotFound) {
            found.unfinished.push_back(name);
            continue;
        }
        if (!read) return read.status();
        board.board = std::move(read).value();
        found.boards.push_back(std::move(board));
    }
    return Status::ok();
}

// Returns true if records of a log without a readable open record may belong to a commit that has returned. Within one
// boot only damage can tear a record that another one follows. A loss of power may tear any record since the last sync;
// but a durable log has synced its open record before its first commit.
bool may_be_promised(const log::ScannedLog& log, const area::BootId& boot_id) {
    if (log.damage.empty()) return false;
    return log.process.boot_id == boot_id ? log.hides_record : log.hides_commit;
}

Status look_into_dead(FoundDirectory& found, const area::BootId& boot_id) {
    FOREBAY_TRY(look_for_journals(found));
    FOREBAY_TRY(look_for_boards(
        found));   // a board tells of the logs of others, also where this process has given its own back
    auto pool = open_trusted(*found.directory, "log", io::OpenMode::kReadWrite);
    if (!pool) return pool.status().code() == Code::kNotFound ? Status::ok() : pool.status();
    found.pool = std::move(pool).value();
    if (const auto facts = found.directory->facts("log")) found.log_modified_ns = facts.value().modified_ns;
    auto logs = log::scan(*found.pool);
    if (!logs) return logs.status();
    found.logs = std::move(logs).value();
    for (const log::ScannedLog& log : found.logs)
        if (log.target.path.empty() && may_be_promised(log, boot_id) && found.unnamed.is_ok())
            found.unnamed = log.damage.front().with_context(found.path() +
                                                            "/log: the record that names the file is unreadable");
    return Status::ok();
}

void look_into(FoundDirectory& found, const IsAlive& is_alive, const area::BootId& boot_id) {
    found.refused = check_trusted(*found.area, found.name, io::Facts::Kind::kDirectory);
    auto directory = found.area->open_directory(found.name);
    found.alive = directory ? area::owner_is_alive(found.process, *directory.value(), is_alive)
                            : is_alive(found.process);
    if (!found.refused) return;
    found.refused = directory.status();
    if (!directory) return;
    found.directory = std::move(directory).value();
    if (auto view = ledger::read_ledger(*found.directory)) {
        found.has_ledger = true;
        found.open_files = std::move(view.value().files);
        found.wrote_ns = view.value().wrote_ns;
        found.files_without_slot = view.value().files_without_slot;
    }
    if (!found.alive) found.refused = look_into_dead(found, boot_id);
}

// A log without a group is a session of its own.
void make_sessions(Inventory& inventory) {
    std::map<std::tuple<io::Identity, std::uint64_t>, std::size_t> groups;
    for (const auto& directory : inventory.directories) {
        for (log::ScannedLog& log : directory->logs) {
            if (log.target.path.empty()) continue;   // a taken segment without an open record
            const io::Identity identity{log.target.device, log.target.inode};
            const bool alone = log.target.sharing.kind == log::Sharing::Kind::kAlone;
            const auto known = alone ? groups.end() : groups.find({identity, log.target.sharing.group});
            if (known != groups.end()) {
                inventory.sessions[known->second].logs.push_back({directory.get(), &log});
                continue;
            }
            if (!alone) groups[{identity, log.target.sharing.group}] = inventory.sessions.size();
            Session session;
            session.identity = session.logged = identity;
            session.path = log.target.path;
            session.sharing = log.target.sharing;
            session.logs.push_back({directory.get(), &log});
            inventory.sessions.push_back(std::move(session));
        }
    }
    for (Session& session : inventory.sessions) {
        if (session.sharing.kind == log::Sharing::Kind::kAlone) continue;
        for (const auto& directory : inventory.directories)
            for (FoundBoard& board : directory->boards)
                if (board.board.group == session.sharing.group) {
                    session.board_at = directory.get();
                    session.board = &board;
                }
        const auto drainers = std::find_if(session.logs.begin(), session.logs.end(), [&](const FoundLog& found) {
            return found.directory == session.board_at && found.log->log == session.board->log;
        });
        session.has_drainer = drainers != session.logs.end();
        if (session.has_drainer) std::iter_swap(session.logs.begin(), drainers);
        else if (session.board_at != nullptr && session.board_at->hides_logs() &&
                 std::none_of(session.logs.begin(), session.logs.end(),
                              [](const FoundLog& found) { return found.log->durable; })) {
            session.has_drainer = true;   // unread
            session.damage = {Code::kCorrupt, fmt::format("{} is damaged, and may have the log with the commits",
                                                          session.board_at->path())};
        }
    }
}

void make_teams(Inventory& inventory) {
    for (const auto& directory : inventory.directories) {
        for (const FoundJournal& journal : directory->journals) {
            const undo::UndoHeader& header = journal.view.header;
            const io::Identity identity{header.device, header.inode};
            auto team = std::find_if(inventory.teams.begin(), inventory.teams.end(), [&](const TeamSession& other) {
                return other.team == header.team && other.identity == identity;
            });
            if (team == inventory.teams.end())
                team = inventory.teams.insert(team, {header.team, identity, header.path, {}, {}});
            team->members.push_back({directory.get(), journal.name});
        }
    }
    // From here on no session moves.
    for (TeamSession& team : inventory.teams)
        for (const Session& session : inventory.sessions)
            if (session.sharing.kind == log::Sharing::Kind::kConsistentNodes && session.identity == team.identity &&
                std::any_of(session.logs.begin(), session.logs.end(), [&](const FoundLog& found) {
                    return std::any_of(team.members.begin(), team.members.end(),
                                       [&](const TeamSession::Member& member) {
                                           return member.directory == found.directory &&
                                                  TeamSession::journal_of(member).log == found.log->log;
                                       });
                }))
                team.sessions.push_back(&session);
}

}   // namespace

FoundJournal& TeamSession::journal_of(const Member& member) {
    return *std::find_if(member.directory->journals.begin(), member.directory->journals.end(),
                         [&](const FoundJournal& journal) { return journal.name == member.journal; });
}

const FoundDirectory* Inventory::living_user_of(const io::Identity& identity) const {
    for (const auto& directory : directories) {
        if (!directory->alive) continue;
        if (directory->files_without_slot > 0) return directory.get();   // it may be among them
        for (const ledger::FileCounters& file : directory->open_files)
            if (file.device == identity.device && file.inode == identity.inode) return directory.get();
    }
    return nullptr;
}

bool Inventory::is_alive(const area::ProcessIdentity& process, const IsAlive& is_seen) const {
    bool here = false, lives = false;
    for (const auto& directory : directories) {
        if (directory->process != process) continue;
        here = true;
        lives = lives || directory->alive;
    }
    return here ? lives : is_seen(process);
}

std::size_t Inventory::nodes_here(const Session& session) const {
    return static_cast<std::size_t>(std::count_if(sessions.begin(), sessions.end(),
                                                  [&](const Session& other) { return session.same_run(other); }));
}

Result<std::optional<area::ProcessIdentity>> user_now(std::span<io::Directory* const> areas,
                                                      const io::Identity& identity, const IsAlive& is_alive) {
    for (io::Directory* const area : areas) {
        const auto names = area->list();
        if (!names) return names.status();
        for (const std::string& name : names.value()) {
            const auto owner = area::owner_of_directory(name);
            if (!owner) continue;
            const auto directory = area->open_directory(name);
            if (!directory && lacks_resources(directory.status())) return directory.status();
            if (!directory || !area::owner_is_alive(*owner, *directory.value(), is_alive)) continue;
            const auto use = use_of(*directory.value(), identity);
            if (use ? use.value() != ledger::FileUse::kNone : lacks_resources(use.status()))
                return std::optional(*owner);
        }
    }
    return std::optional<area::ProcessIdentity>();
}

Result<Inventory> take_inventory(std::span<io::Directory* const> areas, const IsAlive& is_alive,
                                 const area::BootId& boot_id) {
    Inventory inventory;
    for (io::Directory* const area : areas) {
        FOREBAY_TRY(check_trusted(*area, ".", io::Facts::Kind::kDirectory));
        const auto names = area->list();
        if (!names) return names.status();
        for (const std::string& name : names.value()) {
            const auto owner = area::owner_of_directory(name);
            if (!owner) continue;
            auto found = std::make_unique<FoundDirectory>();
            found->area = area;
            found->name = name;
            found->process = *owner;
            look_into(*found, is_alive, boot_id);
            if (found->refused.code() == Code::kNotFound && area->facts(name).status().code() == Code::kNotFound)
                continue;
            inventory.directories.push_back(std::move(found));
        }
    }
    make_sessions(inventory);
    for (Session& session : inventory.sessions) {
        session.restarted = std::any_of(session.logs.begin(), session.logs.end(),
                                        [&](const FoundLog& found) { return found.log->process.boot_id != boot_id; });
        keep_what_is_stated(session);
    }
    make_teams(inventory);
    return inventory;
}

}   // namespace forebay::recover
