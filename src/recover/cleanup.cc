#include "recover/cleanup.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "area/process.h"

namespace forebay::recover {

namespace {

Status free_log(const FoundLog& found) {
    const bool alone = found.log->target.sharing.kind == log::Sharing::Kind::kAlone;
    FOREBAY_TRY(log::free_segments(*found.directory->pool, found.log->segments, found.log->durable && alone));
    // The board declared the group's logs dead. They must be gone durably before the board goes.
    if (found.log->durable && !alone) FOREBAY_TRY(found.directory->pool->sync());
    found.log->segments.clear();
    return Status::ok();
}

Status remove_if_there(io::Directory& directory, const std::string& name) {
    const Status removed = directory.remove_file(name);
    return removed.code() == Code::kNotFound ? Status::ok() : removed;
}

// Fails if the directory has a file that forebay did not write. Such a file stays, and so does the directory.
Status no_strangers(FoundDirectory& found) {
    const auto names = found.directory->list();
    if (!names) return names.status();
    for (const std::string& name : names.value())
        if (name != "log" && name != "ledger" && name != area::kAliveFile && !undo::log_of_undo(name) &&
            !group::log_of_board(name))
            return {Code::kUnsupported,
                    fmt::format("remove {}: forebay did not write {} in it. Move that file, and run the command again",
                                found.path(), name),
                    ENOTEMPTY};
    return Status::ok();
}

// The log goes before the ledger: a directory without log holds nothing.
Status remove_directory(FoundDirectory& found) {
    found.pool.reset();
    // A process may have claimed the directory since it was read.
    const auto ended = found.directory->keep_free(std::string(area::kAliveFile));
    if (!ended) return ended.status().with_context("remove " + found.path());
    for (const FoundBoard& board : found.boards) FOREBAY_TRY(remove_if_there(*found.directory, board.name));
    for (const std::string& board : found.unfinished) FOREBAY_TRY(remove_if_there(*found.directory, board));
    const auto names = found.directory->list();
    if (!names) return names.status();
    for (const std::string& name : names.value())
        if (undo::log_of_undo(name)) FOREBAY_TRY(remove_if_there(*found.directory, name));
    FOREBAY_TRY(remove_if_there(*found.directory, "log"));
    FOREBAY_TRY(remove_if_there(*found.directory, "ledger"));
    FOREBAY_TRY(remove_if_there(*found.directory, std::string(area::kAliveFile)));
    FOREBAY_TRY(no_strangers(found));
    found.directory.reset();
    return found.area->remove_directory(found.name);
}

}   // namespace

Status remove_unread(FoundDirectory& found) {
    if (found.directory == nullptr) {
        auto directory = found.area->open_directory(found.name);
        if (!directory) return directory.status();
        found.directory = std::move(directory).value();
    }
    // The facts come from the open directory, so that no other can take its place.
    const auto facts = found.directory->facts(".");
    if (!facts) return facts.status();
    if (facts.value().owner != ::geteuid()) return found.refused;
    FOREBAY_TRY(no_strangers(found));
    const auto names = found.directory->list();
    if (!names) return names.status();
    found.boards.clear();
    for (const std::string& name : names.value())
        if (group::log_of_board(name)) FOREBAY_TRY(remove_if_there(*found.directory, name));
    return remove_directory(found);
}

Status give_back_logs(const Session& session) {
    if (session.board != nullptr) {
        auto file = session.board_at->directory->open_file(session.board->name, io::OpenMode::kReadWrite);
        if (!file) return file.status();
        FOREBAY_TRY(group::retire_board(*file.value()));
        if (session.durable_group) FOREBAY_TRY(file.value()->sync());
    }
    for (auto found = session.logs.rbegin(); found != session.logs.rend(); ++found) FOREBAY_TRY(free_log(*found));
    return session.board != nullptr ? remove_if_there(*session.board_at->directory, session.board->name) : Status::ok();
}

Status give_back_team(const TeamSession& team) {
    for (const Session* const session : team.sessions) FOREBAY_TRY(give_back_logs(*session));
    for (const TeamSession::Member& member : team.members) {
        FOREBAY_TRY(remove_if_there(*member.directory->directory, member.journal));
        std::erase_if(member.directory->journals,
                      [&](const FoundJournal& journal) { return journal.name == member.journal; });
    }
    return Status::ok();
}

void tell_of_directories(const Inventory& inventory, Report& report) {
    for (const auto& directory : inventory.directories) {
        if (!directory->refused) report.refused.push_back({directory->path(), directory->refused});
        else if (!directory->unnamed) report.refused.push_back({directory->path(), directory->unnamed});
        else if (directory->alive) {
            report.living.push_back(directory->path());
            if (!directory->has_ledger || !directory->open_files.empty() || directory->files_without_slot > 0)
                ++report.owners;
        }
    }
}

void remove_directories(Inventory& inventory, bool dry_run, Report& report) {
    for (const auto& directory : inventory.directories) {
        if (!directory->refused || !directory->unnamed || directory->alive) continue;
        if (directory->holds_logs()) continue;
        // The board gives meaning to logs in other directories while they exist.
        const bool wanted = std::any_of(
            inventory.sessions.begin(), inventory.sessions.end(), [&](const Session& session) {
                return session.board_at == directory.get() &&
                       std::any_of(session.logs.begin(), session.logs.end(),
                                   [](const FoundLog& found) { return !found.log->segments.empty(); });
            });
        if (wanted) continue;
        const std::string path = directory->path();
        if (const Status removed = dry_run ? no_strangers(*directory) : remove_directory(*directory); removed)
            report.removed.push_back(path);
        else if (removed.sys_errno() == EBUSY) report.living.push_back(path);
        else report.refused.push_back({path, removed});
    }
}

}   // namespace forebay::recover
