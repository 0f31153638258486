#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "recover/claim.h"
#include "recover/cleanup.h"
#include "recover/in_use.h"
#include "recover/recovery.h"
#include "recover/session.h"
#include "recover/teams.h"

namespace forebay::recover {

Result<Report> discard(std::span<io::Directory* const> areas, const Discarded& request, const Outside& outside) {
    const auto is_named = [&](const Session& session) {
        return std::any_of(request.files.begin(), request.files.end(),
                           [&](const Wanted& wanted) { return wanted.identity == session.identity; }) ||
               std::find(request.paths.begin(), request.paths.end(), session.path) != request.paths.end() ||
               std::any_of(session.logs.begin(), session.logs.end(), [&](const FoundLog& found) {
                   return std::find(request.directories.begin(), request.directories.end(), found.directory->path()) !=
                          request.directories.end();
               });
    };
    const auto is_named_team = [&](const TeamSession& team) {
        return std::any_of(request.files.begin(), request.files.end(),
                           [&](const Wanted& wanted) { return wanted.identity == team.identity; }) ||
               std::find(request.paths.begin(), request.paths.end(), team.path) != request.paths.end() ||
               std::any_of(team.members.begin(), team.members.end(), [&](const TeamSession::Member& member) {
                   return std::find(request.directories.begin(), request.directories.end(), member.directory->path()) !=
                          request.directories.end();
               });
    };
    std::vector<Wanted> asked = request.files;
    for (const std::string& path : request.paths) asked.push_back({{}, path});
    std::set<io::Identity> named;
    for (const Wanted& wanted : request.files) named.insert(wanted.identity);
    const auto others = [&](const Inventory& inventory) {
        std::set<io::Identity> all;
        for (const Session& session : inventory.sessions)
            if (is_named(session)) all.insert(session.identity);
        for (const TeamSession& team : inventory.teams)
            if (is_named_team(team)) all.insert(team.identity);
        return all;
    };
    auto claimed = claim(areas, named, others, request.patience, request.dry_run, outside.is_alive);
    if (!claimed) return claimed.status();
    const auto& busy = claimed.value().busy;
    Inventory& inventory = claimed.value().inventory;
    Report report;
    for (const TeamSession& team : inventory.teams)
        if (is_named_team(team))
            report.files.push_back(discard_team(inventory, team, request, outside,
                                                busy.contains(team.identity) ? busy.at(team.identity) : Status::ok()));
    for (const Session& session : inventory.sessions) {
        const bool of_team = std::any_of(inventory.teams.begin(), inventory.teams.end(), [&](const TeamSession& team) {
            return std::find(team.sessions.begin(), team.sessions.end(), &session) != team.sessions.end();
        });
        if (of_team || !is_named(session)) continue;
        FileReport file = introduce(session);
        for (const FoundLog& found : session.logs)
            for (const log::ScannedRecord& record : found.log->records)
                file.dropped_bytes += record.header.payload_bytes;
        file.outcome = Outcome::kDiscarded;
        const auto participants = session.board == nullptr ? std::vector<area::ProcessIdentity>{}
                                                           : session.board->board.participants;
        if (const auto other = busy.find(session.identity); other != busy.end())
            file = refused(std::move(file), Reason::kInUse, other->second);
        else if (std::any_of(participants.begin(), participants.end(),
                             [&](const auto& process) { return inventory.is_alive(process, outside.is_alive); }))
            file = refused(std::move(file), Reason::kInUse,
                           {Code::kUnavailable, "a process that wrote it too is still there"});
        else if (!request.dry_run && !(file.status = give_back_logs(session))) file.outcome = Outcome::kFailed;
        report.files.push_back(std::move(file));
    }
    // A log that cannot be read has no sessions; whoever names its directory means all of it.
    std::erase_if(inventory.directories, [&](const std::unique_ptr<FoundDirectory>& directory) {
        const Code code = directory->refused.code();
        const std::string path = directory->path();
        if (directory->alive || (code != Code::kCorrupt && code != Code::kUnsupported)) return false;
        if (std::find(request.directories.begin(), request.directories.end(), path) == request.directories.end())
            return false;
        if (!request.dry_run) directory->refused = remove_unread(*directory);
        if (!request.dry_run && !directory->refused) return false;
        report.removed.push_back(path);
        return true;
    });
    Report users = report;
    if (!request.unasked) tell_of_users(inventory, asked, users);
    for (const auto& directory : inventory.directories)
        if (directory->alive && std::find(request.directories.begin(), request.directories.end(), directory->path()) !=
                                    request.directories.end())
            users.refused.push_back({directory->path(),
                                     {Code::kUnavailable,
                                      fmt::format("process {} is at work", directory->process.pid)}});
    tidy_up(areas, inventory, request.patience, request.dry_run, outside.is_alive, report);
    users.refused.insert(users.refused.end(), report.refused.begin(), report.refused.end());
    users.removed = std::move(report.removed);
    return users;
}

namespace {

VerifiedLog verified(const log::ScannedLog& log) {
    VerifiedLog verified;
    verified.path = log.target.path;
    verified.identity = {log.target.device, log.target.inode};
    verified.log = log.log;
    verified.segments = log.segments.size();
    verified.records = log.records.size();
    for (const log::ScannedRecord& record : log.records) {
        verified.bytes += record.header.payload_bytes;
        if (!record.header.payload_checked) verified.unchecked_bytes += record.header.payload_bytes;
    }
    verified.commit_sequence = log.commit_sequence;
    verified.unread_bytes = log.unread_bytes;
    for (const Status& damage : log.damage) verified.damage.push_back(damage.message());
    verified.damaged_before_commit = hides_a_commit(log, log.commit_sequence);
    return verified;
}

VerifiedJournal verified(const undo::UndoView& view) {
    VerifiedJournal verified{view.header.path,    {view.header.device, view.header.inode},
                             view.header.member,  view.header.members,
                             view.records.size(), 0,
                             view.state.decided,  view.state.closed};
    for (const undo::UndoView::Record& one : view.records) verified.bytes += one.record.range.size();
    return verified;
}

}   // namespace

Result<std::vector<VerifiedDirectory>> verify(std::span<io::Directory* const> areas, const Outside& outside) {
    const auto inventory = take_inventory(areas, outside.is_alive);
    if (!inventory) return inventory.status();
    std::vector<VerifiedDirectory> directories;
    for (const auto& found : inventory.value().directories) {
        VerifiedDirectory directory{found->path(),    found->process.pid, found->alive, found->refused, {}, {},
                                    found->open_files};
        for (const log::ScannedLog& log : found->logs) directory.logs.push_back(verified(log));
        for (const FoundJournal& journal : found->journals) directory.journals.push_back(verified(journal.view));
        directories.push_back(std::move(directory));
    }
    return directories;
}

}   // namespace forebay::recover
