#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "io/path.h"
#include "recover/claim.h"
#include "recover/cleanup.h"
#include "recover/in_use.h"
#include "recover/process_directory.h"
#include "recover/recovery.h"
#include "recover/session.h"
#include "recover/teams.h"

namespace forebay::recover {

namespace {

template <class Range, class Value>
bool contains(const Range& range, const Value& value) {
    return std::find(range.begin(), range.end(), value) != range.end();
}

bool of_team(const Inventory& inventory, const Session& session) {
    return std::any_of(inventory.teams.begin(), inventory.teams.end(),
                       [&](const TeamSession& team) { return contains(team.sessions, &session); });
}

class Discarding {
  public:
    Discarding(std::span<io::Directory* const> areas, const Discarded& request, const Outside& outside)
        : areas_(areas), request_(request), outside_(outside) {}

    Result<Report> run() {
        std::set<io::Identity> identities;
        for (const Wanted& wanted : request_.files) identities.insert(wanted.identity);
        const auto others = [&](const Inventory& inventory) { return named_in(inventory); };
        auto claimed = claim(areas_, identities, others, request_.patience, request_.dry_run, outside_.is_alive,
                             outside_.boot_id);
        if (!claimed) return claimed.status();
        const auto& busy = claimed.value().busy;
        Inventory& inventory = claimed.value().inventory;
        for (const TeamSession& team : inventory.teams)
            if (is_named(team))
                report_.files.push_back(discard_team(inventory, team, request_, outside_,
                                                     busy.contains(team.identity) ? busy.at(team.identity)
                                                                                  : Status::ok()));
            else if (names_place(team.path)) report_.files.push_back(replaced(introduce(team)));
        for (const Session& session : inventory.sessions) {
            if (of_team(inventory, session)) continue;
            if (is_named(session)) report_.files.push_back(discard_session(claimed.value(), session));
            else if (names_place(session.path)) report_.files.push_back(replaced(recover::introduce(session)));
        }
        remove_unreadable(inventory);
        Report users = report_;
        tell_of_living(inventory, users);
        (void)tidy_up(
            areas_, claimed.value(), request_.patience, request_.dry_run, outside_.is_alive, outside_.boot_id,
            [](const FoundDirectory&) { return false; }, report_);
        users.refused.insert(users.refused.end(), report_.refused.begin(), report_.refused.end());
        users.removed = std::move(report_.removed);
        return users;
    }

  private:
    bool names_file(const io::Identity& identity, const std::string& path) const {
        return std::any_of(request_.files.begin(), request_.files.end(),
                           [&](const Wanted& wanted) { return wanted.identity == identity; }) ||
               std::any_of(request_.paths.begin(), request_.paths.end(),
                           [&](const std::string& named) { return io::same_place(named, path); });
    }
    // A named path leads to another file now. A command that names the path learns that.
    bool names_place(const std::string& path) const {
        return !request_.unasked &&
               std::any_of(request_.files.begin(), request_.files.end(),
                           [&](const Wanted& wanted) { return io::same_place(wanted.path, path); });
    }
    static FileReport introduce(const TeamSession& team) {
        FileReport file;
        file.path = file.logged_path = team.path;
        file.identity = team.identity;
        for (const TeamSession::Member& member : team.members) {
            file.directories.push_back(member.directory->path());
            file.processes.push_back(member.directory->process.pid);
        }
        return file;
    }
    static FileReport replaced(FileReport file) {
        return refused(std::move(file), Reason::kReplaced,
                       {Code::kNotFound, file.path + " is another file now than the program wrote"});
    }
    bool names_directory(const FoundDirectory& directory) const {
        return contains(request_.directories, directory.path());
    }
    bool is_named(const Session& session) const {
        return names_file(session.identity, session.path) ||
               std::any_of(session.logs.begin(), session.logs.end(),
                           [&](const FoundLog& found) { return names_directory(*found.directory); });
    }
    bool is_named(const TeamSession& team) const {
        return names_file(team.identity, team.path) ||
               std::any_of(team.members.begin(), team.members.end(),
                           [&](const TeamSession::Member& member) { return names_directory(*member.directory); });
    }
    std::set<io::Identity> named_in(const Inventory& inventory) const {
        std::set<io::Identity> all;
        for (const Session& session : inventory.sessions)
            if (is_named(session)) all.insert(session.identity);
        for (const TeamSession& team : inventory.teams)
            if (is_named(team)) all.insert(team.identity);
        return all;
    }

    FileReport discard_session(const Claim& claimed, const Session& session) const {
        FileReport file = recover::introduce(session);
        for (const FoundLog& found : session.logs)
            for (const log::ScannedRecord& record : found.log->records)
                file.dropped_bytes += record.header.payload_bytes;
        file.outcome = Outcome::kDiscarded;
        if (const auto other = claimed.busy.find(session.identity); other != claimed.busy.end())
            return refused(std::move(file), Reason::kInUse, other->second);
        if (session.board != nullptr)
            for (const area::ProcessIdentity& process : session.board->board.participants)
                if (claimed.inventory.is_alive(process, outside_.is_alive))
                    return refused(std::move(file), Reason::kInUse,
                                   {Code::kUnavailable, "a process that also wrote the file is still alive"});
        if (!request_.dry_run && !(file.status = give_back_logs(session))) file.outcome = Outcome::kFailed;
        return file;
    }

    bool has_left_logs(const std::string& directory) const {
        return std::any_of(report_.files.begin(), report_.files.end(), [&](const FileReport& file) {
            return file.outcome != Outcome::kDiscarded && contains(file.directories, directory);
        });
    }
    // An unreadable log has no session. Its directory's name stands for all of it, whatever the reason. Want of
    // descriptors or memory is none: the next call may read it.
    void remove_unreadable(Inventory& inventory) {
        std::vector<std::unique_ptr<FoundDirectory>> kept;
        for (std::unique_ptr<FoundDirectory>& directory : inventory.directories) {
            const std::string path = directory->path();
            if (!is_given_up_unread(*directory)) kept.push_back(std::move(directory));
            else if (const Status removed = request_.dry_run ? Status::ok() : remove_unread(*directory); !removed) {
                failed_.push_back({path, removed});
                kept.push_back(std::move(directory));
            } else {
                report_.removed.push_back(path);
                removed_.push_back(std::move(directory));
            }
        }
        inventory.directories = std::move(kept);
    }
    bool is_given_up_unread(const FoundDirectory& directory) const {
        const Status& why = directory.refused ? directory.unnamed : directory.refused;
        if (why || directory.alive || lacks_resources(why) || !names_directory(directory) ||
            has_left_logs(directory.path()))
            return false;
        const auto facts = directory.area->facts(directory.name);
        return facts && facts.value().kind == io::Facts::Kind::kDirectory && facts.value().owner == ::geteuid();
    }

    void tell_of_living(const Inventory& inventory, Report& users) const {
        std::vector<Wanted> asked = request_.files;
        for (const std::string& path : request_.paths) asked.push_back({{}, path});
        if (!request_.unasked) tell_of_users(inventory, asked, users);
        users.refused.insert(users.refused.end(), failed_.begin(), failed_.end());
        for (const auto& directory : inventory.directories)
            if (directory->alive && names_directory(*directory))
                users.refused.push_back({directory->path(),
                                         {Code::kUnavailable,
                                          fmt::format("process {} is at work", directory->process.pid)}});
    }

    const std::span<io::Directory* const> areas_;
    const Discarded& request_;
    const Outside& outside_;
    Report report_;
    std::vector<DirectoryReport> failed_;                    // to remove
    std::vector<std::unique_ptr<FoundDirectory>> removed_;   // sessions point to them
};

}   // namespace

Result<Report> discard(std::span<io::Directory* const> areas, const Discarded& request, const Outside& outside) {
    return Discarding(areas, request, outside).run();
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
    const auto inventory = take_inventory(areas, outside.is_alive, outside.boot_id);
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
