#include "recover/teams.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "recover/cleanup.h"
#include "recover/gathering.h"
#include "recover/rewrite.h"
#include "recover/session.h"
#include "recover/undo.h"
#include "recover/untouched.h"
#include "recover/witnessed_target.h"

namespace forebay::recover {

namespace {

std::string ranks(const std::vector<std::uint64_t>& numbers) {
    std::string text;
    for (std::size_t i = 0; i < numbers.size();) {
        std::size_t last = i;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
        if (!text.empty()) text += ", ";
        text += last > i ? fmt::format("{} to {}", numbers[i], numbers[last]) : fmt::format("{}", numbers[i]);
        i = last + 1;
    }
    return text;
}

// Sets a flag in the journal's state.
Status note(FoundJournal& journal, bool undo::UndoState::* flag) {
    undo::UndoState& state = journal.view.state;
    if (state.*flag) return Status::ok();
    undo::UndoState next = state;
    next.*flag = true;
    FOREBAY_TRY(undo::write_undo_state(*journal.file, state.serial, next));
    ++next.serial;
    state = next;
    return Status::ok();
}

// No rank needs the copies any more, and this node's ranks need not learn of it.
Status leave(Gathering& gathering, const TeamSession& team) {
    FOREBAY_TRY(gathering.set_done());
    std::vector<std::uint64_t> left;
    std::uint64_t members = 0;
    for (const TeamSession::Member& member : team.members) {
        FoundJournal& journal = TeamSession::journal_of(member);
        FOREBAY_TRY(note(journal, &undo::UndoState::finished));
        left.push_back(journal.view.header.member);
        members = journal.view.header.members;
    }
    return gathering.leave(left, members);
}

class TeamRecovery {
  public:
    TeamRecovery(const Inventory& inventory, const TeamSession& team, const std::string& path, const Request& request,
                 const Outside& outside)
        : inventory_(inventory), team_(team), request_(request), outside_(outside) {
        report_.path = path;
        report_.identity = team.identity;
        for (const TeamSession::Member& member : team.members) {
            report_.directories.push_back(member.directory->path());
            report_.processes.push_back(member.directory->process.pid);
            const undo::UndoState& state = TeamSession::journal_of(member).view.state;
            told_ = told_ && state.told;
            finished_ = finished_ || state.finished;
        }
        closed_ = is_closed(team);
        members_ = TeamSession::journal_of(team.members.front()).view.header.members;
    }

    // The target is opened for writing, and so locked, only under the gathering's lock, where nodes wait in turn.
    FileReport run(const Status& busy) {
        if (!busy) return refused(report_, Reason::kInUse, busy);
        if (auto no = refuse_by_journals()) return *no;
        if (!told_ && !finished_)   // make no copies for a missing file
            if (auto no = refuse_by_name()) return *no;
        // The journals name the gathering's directory, even if the file was renamed.
        auto home = outside_.open_home ? outside_.open_home(team_.path)
                                       : Status(Code::kUnsupported, "no directory to gather in");
        if (!home && home.status().code() == Code::kNotFound) return not_found(home.status());
        if (!home) return refused(report_, reason_of(home.status()), home.status());
        const std::string file = std::filesystem::path(team_.path).filename().string();
        auto gathering = Gathering::open(std::move(home).value(), file, team_.team,
                                         !request_.dry_run && !told_ && !finished_, request_.beside);
        if (gathering.status().code() == Code::kNotFound) {
            if (finished_ || told_ || closed_) return not_found(gathering.status());
            return wait_for({});   // a dry run: no copies yet
        }
        if (!gathering) return refused(report_, reason_of(gathering.status()), gathering.status());
        const Status outcome = gather(*gathering.value());
        if (!outcome) return fail(outcome);
        return report_;
    }

  private:
    std::optional<FileReport> refuse_by_journals() {
        if (const FoundDirectory* const user = inventory_.living_user_of(team_.identity))
            return refused(report_, Reason::kInUse,
                           {Code::kUnavailable,
                            fmt::format("still open in process {}; not touched", user->process.pid)});
        for (const Session* const session : team_.sessions)
            if (session->board != nullptr)
                for (const area::ProcessIdentity& process : session->board->board.participants)
                    if (inventory_.is_alive(process, outside_.is_alive))
                        return refused(report_, Reason::kInUse,
                                       {Code::kUnavailable,
                                        fmt::format("process {}, which also wrote the file, is still alive",
                                                    process.pid)});
        if (!closed_ && !finished_)
            if (auto no = refuse_by_others()) return no;
        for (const TeamSession::Member& member : team_.members) {
            const FoundJournal& journal = TeamSession::journal_of(member);
            report_.restarted = report_.restarted || journal.view.header.process.boot_id != outside_.boot_id;
        }
        if (report_.restarted && !told_ && !closed_ && !finished_) {
            refuse_restarted();
            return report_;
        }
        return std::nullopt;
    }

    // Undoing must not destroy another program's writes.
    std::optional<FileReport> refuse_by_others() const {
        if (std::any_of(inventory_.teams.begin(), inventory_.teams.end(), [&](const TeamSession& other) {
                return &other != &team_ && other.identity == team_.identity && !is_closed(other);
            }))
            return refused(report_, Reason::kSeveralRuns,
                           {Code::kUnsupported, "several programs have left undo journals of it, one after the other"});
        if (std::any_of(inventory_.sessions.begin(), inventory_.sessions.end(), [&](const Session& other) {
                return other.identity == team_.identity &&
                       std::find(team_.sessions.begin(), team_.sessions.end(), &other) == team_.sessions.end() &&
                       !is_complete(other);
            }))
            return refused(report_, Reason::kSeveralRuns,
                           {Code::kUnsupported, "another program, before or after it, has left logs of it"});
        return std::nullopt;
    }
    FileReport replaced() const {
        return refused(report_, Reason::kReplaced,
                       {Code::kNotFound, fmt::format("{} is not the file that the program wrote", report_.path)});
    }
    std::optional<FileReport> refuse_by_name() {
        if (!outside_.identify) return std::nullopt;
        const auto identity = outside_.identify(report_.path);
        if (identity.status().code() == Code::kNotFound) return not_found(identity.status());
        if (!identity) return refused(report_, reason_of(identity.status()), identity.status());
        if (identity.value() != team_.identity) return replaced();
        return std::nullopt;
    }
    // The file, or the directory of the copies, was not found. A server that is partly down can hide both, and the
    // latter tells whether the file was recovered. So the journals go only with a proof: their own flags.
    FileReport not_found(const Status& status) {
        if (finished_ || closed_) return complete();
        return refused(report_, Reason::kMissing, status);
    }

    Status gather(Gathering& gathering) {
        auto told = gathering.members();
        if (!told) return told.status();
        const auto done = gathering.done();
        if (!done) return done.status();
        if (done.value() || closed_) return over(gathering, Outcome::kComplete);
        if (finished_) {   // killed while it left a directory that no other node needs
            complete();
            if (!request_.dry_run) FOREBAY_TRY(gathering.remove_empty());
            return report_.status;
        }
        if (told_)
            if (auto no = refuse_by_name()) {
                report_ = std::move(*no);
                return Status::ok();
            }
        const bool counts = std::all_of(
            team_.members.begin(), team_.members.end(), [&](const TeamSession::Member& member) {
                return told.value().contains(TeamSession::journal_of(member).view.header.member);
            });
        if (report_.restarted && !counts) {
            refuse_restarted();
            return Status::ok();
        }
        if (!request_.dry_run) {
            FOREBAY_TRY(tell(gathering));
            told = gathering.members();
            if (!told) return told.status();
        }
        std::vector<std::uint64_t> missing;
        for (std::uint64_t member = 0; member < members_; ++member)
            if (!told.value().contains(member)) missing.push_back(member);
        if (!missing.empty()) {
            wait_for(missing);
            return Status::ok();
        }
        return recover_file(gathering, told.value());
    }

    // Otherwise another node could recover the file in between, and this node would wait for copies that are gone.
    Status tell(Gathering& gathering) {
        for (const TeamSession::Member& member : team_.members) {
            FoundJournal& journal = TeamSession::journal_of(member);
            std::uint64_t wrote_ns = member.directory->wrote_ns;
            for (const undo::UndoView::Record& record : journal.view.records)
                wrote_ns = std::max(wrote_ns, record.record.time_ns);
            for (const Session* const session : team_.sessions)
                for (const FoundLog& found : session->logs)
                    for (const log::ScannedRecord& record : found.log->records)
                        wrote_ns = std::max(wrote_ns, record.header.time_ns);
            FOREBAY_TRY(gathering.tell(*journal.file, journal.view.header.member, wrote_ns,
                                       [&] { return note(journal, &undo::UndoState::told); }));
        }
        return Status::ok();
    }

    // The joined journals of all ranks, read through `files`.
    struct Undone {
        Undoing undoing;
        std::vector<io::File*> files;   // of the gathering
        std::uint64_t died_ns = 0;      // the last sign of life of any rank
    };

    Status recover_file(Gathering& gathering, std::map<std::uint64_t, Gathering::Told>& told) {
        const auto undone = undo_all(told);
        if (!undone) return undone.status();
        if (!undone.value()) return Status::ok();
        const Undoing& undoing = undone.value()->undoing;
        if (undoing.nothing) return over(gathering, Outcome::kComplete);
        auto target = find_target(gathering, undone.value()->died_ns);
        if (!target) return target.status();
        if (!target.value()) return Status::ok();
        report_.outcome = undoing.commit > 0 ? Outcome::kRecovered : Outcome::kRolledBack;
        if (request_.dry_run) return Status::ok();
        return write_target(gathering, *undone.value(), std::move(*target.value()));
    }

    // None: the report has the reason.
    Result<std::optional<Undone>> undo_all(std::map<std::uint64_t, Gathering::Told>& told) {
        Undone undone;
        std::vector<undo::UndoView> views;
        for (auto& [member, each] : told) {
            auto view = undo::read_undo(*each.file);
            if (!view) return view.status();
            views.push_back(std::move(view).value());
            undone.files.push_back(each.file.get());
            undone.died_ns = std::max(undone.died_ns, each.wrote_ns);
        }
        for (const TeamSession::Member& member : team_.members)
            undone.died_ns = std::max(undone.died_ns, member.directory->wrote_ns);
        auto undoing = undo(views, undone.files);
        if (!undoing) {
            refuse(Reason::kDamaged, undoing.status());
            return std::optional<Undone>();
        }
        undone.undoing = std::move(undoing).value();
        const Picture& picture = undone.undoing.picture;
        report_.commit_sequence = undone.undoing.commit;
        report_.commit_time_ns = picture.commit_time_ns;
        report_.uncommitted_bytes = undone.undoing.given_up;
        report_.bytes = picture.bytes;
        report_.size = picture.size.value_or(0);
        return std::optional(std::move(undone));
    }

    struct Target {
        std::shared_ptr<io::File> file;
        std::optional<io::FileState> now;        // none if files of this kind have none
        std::optional<log::TargetState> begun;   // noted by a recovery that began; none: none did
    };

    // Opens the target if it is the program's file and unchanged. None: the report has the reason.
    Result<std::optional<Target>> find_target(Gathering& gathering, std::uint64_t died_ns) {
        const std::optional<Target> none;
        std::set<io::Directory*> areas;   // recovery of other files may have taken hours
        for (const auto& directory : inventory_.directories) areas.insert(directory->area);
        const auto user = user_now(std::vector<io::Directory*>(areas.begin(), areas.end()), team_.identity,
                                   outside_.is_alive);
        if (!user) return user.status();
        if (user.value()) {
            refuse(Reason::kInUse,
                   {Code::kUnavailable, fmt::format("still open in process {}; not touched", user.value()->pid)});
            return none;
        }
        auto opened = outside_.open_target(report_.path);
        if (!opened) {
            refuse(reason_of(opened.status()), opened.status());
            return none;
        }
        io::ExistingFile& existing = opened.value();
        if (existing.identity != team_.identity) {
            report_ = replaced();
            return none;
        }
        const auto begun = gathering.begun();
        if (!begun) return begun.status();
        std::optional<io::FileState> now;
        if (const auto state = existing.file->state()) now = state.value();
        else if (state.status().code() != Code::kUnsupported) return state.status();
        if (const Status untouched = untouched_since(begun.value(), existing, now, died_ns); !untouched) {
            if (untouched.code() != Code::kUnsupported) return untouched;
            refuse(Reason::kChanged, untouched.with_context(report_.path));
            return none;
        }
        return std::optional(Target{std::move(existing.file), now, begun.value()});
    }

    // If this process is killed, the next node must tell its writes from those of other programs.
    Result<std::shared_ptr<io::File>> witnessed(Gathering& gathering, Target target) const {
        if (!target.now) {   // without times, only the begin can be noted
            log::TargetState unknown;
            unknown.serial = 1;
            FOREBAY_TRY(gathering.note_begun(unknown));
            return std::move(target.file);
        }
        WitnessedTarget::Setup setup{*target.now};
        if (target.begun) setup.known = *target.begun;
        setup.although_changed = request_.although_changed;
        setup.store = [&gathering](const log::TargetState& state) { return gathering.note_begun(state); };
        return std::shared_ptr<io::File>(std::make_shared<WitnessedTarget>(std::move(target.file), std::move(setup)));
    }

    Status write_target(Gathering& gathering, const Undone& undone, Target target) {
        const auto file = witnessed(gathering, std::move(target));
        if (!file) return file.status();
        const Picture& picture = undone.undoing.picture;
        std::uint64_t done = 0;
        const auto rewritten = rewrite(
            picture, undone.files, *file.value(), undone.undoing.commit > 0,
            [&](std::uint64_t bytes) {
                done += bytes;
                if (request_.progress) request_.progress({report_.path, done, picture.bytes, 0, 1});
            },
            outside_.start_thread);
        if (!rewritten && reason_of_failed_write(rewritten.status()) == Reason::kChanged) {
            refuse(Reason::kChanged, rewritten.status());
            return Status::ok();
        }
        if (!rewritten) return rewritten.status();
        report_.size = rewritten.value().size;
        report_.writes = rewritten.value().writes;
        report_.mark = rewritten.value().mark;
        return over(gathering, report_.outcome);
    }

    // Compares with the note of a begun recovery, or the last change. kUnsupported: another program changed it.
    Status untouched_since(const std::optional<log::TargetState>& begun, const io::ExistingFile& target,
                           const std::optional<io::FileState>& now, std::uint64_t died_ns) const {
        if (request_.although_changed) return Status::ok();
        if (begun && (!now || begun->kind == io::TimesKind::kUnknown)) return Status::ok();
        if (begun) {
            Death death{begun->begun_ns, false, report_.restarted, false};
            if (outside_.identify) {
                const auto there = outside_.identify(team_.path);
                death.renamed = !there || there.value() != team_.identity;
            }
            return check_untouched(*begun, *now, *target.file, death);
        }
        if (died_ns == 0 || target.modified_ns <= died_ns + kClocksApartNs) return Status::ok();
        return {Code::kUnsupported,
                fmt::format("it was written to {} seconds after the last sign of the processes that died",
                            (target.modified_ns - died_ns) / 1'000'000'000)};
    }

    // The file needs no undo. The flags are set first, so that a killed recovery needs no directory any more.
    Status over(Gathering& gathering, Outcome outcome) {
        report_.outcome = outcome;
        if (request_.dry_run) return Status::ok();
        FOREBAY_TRY(leave(gathering, team_));
        return give_back_team(team_);
    }

    FileReport complete() {
        report_.outcome = Outcome::kComplete;
        if (!request_.dry_run) report_.status = give_back_team(team_);
        return report_.status ? report_ : fail(report_.status);
    }

    FileReport wait_for(const std::vector<std::uint64_t>& missing) {
        report_.outcome = Outcome::kWaiting;
        report_.reason = Reason::kNodesMissing;
        report_.status = {Code::kUnavailable,
                          missing.empty()
                              ? "nothing lies beside the file yet"
                              : fmt::format("of {} ranks that wrote it together, {} have not been recovered yet",
                                            members_, ranks(missing))};
        return report_;
    }
    void refuse_restarted() {
        refuse(Reason::kRestarted,
               {Code::kCorrupt, "the machine was restarted since; what its undo journals lost with that is not known"});
    }
    void refuse(Reason reason, Status status) { report_ = refused(std::move(report_), reason, std::move(status)); }
    FileReport fail(const Status& status) {
        report_.outcome = Outcome::kFailed;
        report_.reason = reason_of(status);
        if (report_.reason == Reason::kMissing || report_.reason == Reason::kInUse) report_.reason = Reason::kSystem;
        report_.status = status;
        return report_;
    }

    const Inventory& inventory_;
    const TeamSession& team_;
    const Request& request_;
    const Outside& outside_;
    FileReport report_;
    bool told_ = true;        // all this node's journals are promised as copies beside the target
    bool finished_ = false;   // the file needs no journal any more
    bool closed_ = false;
    std::uint64_t members_ = 0;
};

}   // namespace

FileReport recover_team(const Inventory& inventory, const TeamSession& team, const std::string& path,
                        const Request& request, const Outside& outside, const Status& busy) {
    return TeamRecovery(inventory, team, path, request, outside).run(busy);
}

FileReport discard_team(const Inventory& inventory, const TeamSession& team, const Discarded& request,
                        const Outside& outside, const Status& busy) {
    FileReport report;
    report.path = team.path;
    report.identity = team.identity;
    report.outcome = Outcome::kDiscarded;
    for (const TeamSession::Member& member : team.members) {
        report.directories.push_back(member.directory->path());
        report.processes.push_back(member.directory->process.pid);
        for (const undo::UndoView::Record& record : TeamSession::journal_of(member).view.records)
            report.dropped_bytes += record.record.range.size();
    }
    if (!busy) return refused(std::move(report), Reason::kInUse, busy);
    for (const Session* const session : team.sessions)
        if (session->board != nullptr &&
            std::any_of(session->board->board.participants.begin(), session->board->board.participants.end(),
                        [&](const auto& process) { return inventory.is_alive(process, outside.is_alive); }))
            return refused(std::move(report), Reason::kInUse,
                           {Code::kUnavailable, "a process that also wrote the file is still alive"});
    if (request.dry_run) return report;
    // Otherwise the other nodes' copies would later overwrite new content.
    if (outside.open_home)
        if (auto home = outside.open_home(team.path)) {
            auto gathering = Gathering::open(std::move(home).value(),
                                             std::filesystem::path(team.path).filename().string(), team.team, false,
                                             request.beside);
            if (gathering) report.status = leave(*gathering.value(), team);
            else if (gathering.status().code() != Code::kNotFound) report.status = gathering.status();
        }
    if (report.status) report.status = give_back_team(team);
    if (!report.status) {
        report.outcome = Outcome::kFailed;
        report.reason = Reason::kSystem;
    }
    return report;
}

}   // namespace forebay::recover
