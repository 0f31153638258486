#include "recover/recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "area/process.h"
#include "base/clock.h"
#include "io/path.h"
#include "recover/claim.h"
#include "recover/cleanup.h"
#include "recover/ending.h"
#include "recover/in_use.h"
#include "recover/replay.h"
#include "recover/rewrite.h"
#include "recover/session.h"
#include "recover/teams.h"
#include "recover/untouched.h"
#include "recover/witnessed_target.h"

namespace forebay::recover {

namespace {

Result<std::unique_ptr<io::Directory>> home_of(const std::string& path) {
    std::error_code error;
    const auto home = std::filesystem::canonical(std::filesystem::path(path).parent_path(), error);
    if (error) return Status::from_errno(error.value(), "find the directory of " + path);
    return io::open_posix_directory(home.string());
}

class Recovery {
  public:
    Recovery(std::span<io::Directory* const> areas, const Claim& claim, const Request& request, const Outside& outside)
        : areas_(areas), inventory_(claim.inventory), busy_(claim.busy), request_(request), outside_(outside) {}

    Report run() {
        std::vector<const Session*> todo;
        for (const Session& session : inventory_.sessions)
            if (wanted(session) && !of_team(session)) todo.push_back(&session);
        files_ = todo.size() + static_cast<std::size_t>(std::count_if(inventory_.teams.begin(), inventory_.teams.end(),
                                                                      [&](const TeamSession& team) {
                                                                          return !request_.only ||
                                                                                 named(team.identity) != nullptr;
                                                                      }));
        for (std::size_t i = 0; i < todo.size(); ++i) {
            file_ = i;
            const auto busy = busy_.find(todo[i]->identity);
            report_.files.push_back(busy == busy_.end() ? recover_file(*todo[i])
                                                        : refused(introduce(*todo[i]), Reason::kInUse, busy->second));
        }
        for (const TeamSession& team : inventory_.teams)
            if (const Wanted* const name = named(team.identity); !request_.only || name != nullptr) {
                const auto busy = busy_.find(team.identity);
                Request request = request_;
                if (request_.progress)
                    request.progress = [&](Progress progress) {
                        progress.file = report_.files.size();
                        progress.of_files = files_;
                        request_.progress(progress);
                    };
                report_.files.push_back(recover_team(inventory_, team, name != nullptr ? name->path : team.path,
                                                     request, outside_,
                                                     busy == busy_.end() ? Status::ok() : busy->second));
            }
        return std::move(report_);
    }

  private:
    const Wanted* named(const io::Identity& identity) const {
        if (!request_.only) return nullptr;
        const auto found = std::find_if(request_.only->begin(), request_.only->end(),
                                        [&](const Wanted& wanted) { return wanted.identity == identity; });
        return found == request_.only->end() ? nullptr : &*found;
    }
    const Wanted* named(const Session& session) const {
        const Wanted* const found = named(session.identity);
        // The log is of an earlier file with this inode number. An open of the present file has nothing to do with it.
        if (found != nullptr && request_.unasked && found->born.differs(session.born())) return nullptr;
        if (found != nullptr || !request_.only || request_.unasked) return found;
        // Another file has this path now. A command that names the path learns that.
        const auto same_name = std::find_if(request_.only->begin(), request_.only->end(), [&](const Wanted& wanted) {
            return io::same_place(wanted.path, session.path);
        });
        return same_name == request_.only->end() ? nullptr : &*same_name;
    }
    bool of_team(const Session& session) const {
        return std::any_of(inventory_.teams.begin(), inventory_.teams.end(), [&](const TeamSession& team) {
            return std::find(team.sessions.begin(), team.sessions.end(), &session) != team.sessions.end();
        });
    }
    bool wanted(const Session& session) const { return !request_.only || named(session) != nullptr; }

    std::optional<FileReport> refuse_by_logs(const Session& session, const FileReport& report) const {
        const FoundDirectory* user = inventory_.living_user_of(session.identity);
        if (user == nullptr) user = inventory_.living_user_of(session.logged);
        if (user != nullptr)
            return refused(report, Reason::kInUse,
                           {Code::kUnavailable,
                            fmt::format("still open in process {}; not touched", user->process.pid)});
        if (session.board != nullptr)
            for (const area::ProcessIdentity& process : session.board->board.participants)
                if (inventory_.is_alive(process, outside_.is_alive))
                    return refused(report, Reason::kInUse,
                                   {Code::kUnavailable,
                                    fmt::format("process {}, which also wrote the file, is still alive", process.pid)});
        if (lacks_proof(session))
            return refused(report, Reason::kRestarted,
                           {Code::kCorrupt,
                            "the machine was restarted since; by the board and undo journals the log is not needed, "
                            "but the restart may have lost their last changes"});
        if (session.sharing.kind != log::Sharing::Kind::kAlone && session.board == nullptr && !is_complete(session))
            return refused(report, Reason::kIncomplete,
                           {Code::kNotFound, "the board of the processes that wrote it together is not here"});
        return std::nullopt;
    }

    // Refuses a session with records to replay if other logs of the file contradict it.
    std::optional<FileReport> refuse_by_others(const Session& session, const FileReport& report) const {
        if (std::any_of(inventory_.teams.begin(), inventory_.teams.end(),
                        [&](const TeamSession& team) { return team.identity == session.identity && !is_closed(team); }))
            return refused(report, Reason::kSeveralRuns,
                           {Code::kUnsupported, "another program, of several nodes, has left undo journals of it"});
        const auto others = std::count_if(inventory_.sessions.begin(), inventory_.sessions.end(),
                                          [&](const Session& other) {
                                              return other.identity == session.identity &&
                                                     !other.born().differs(session.born()) && !is_complete(other) &&
                                                     !session.same_run(other);
                                          });
        if (others > 0)
            return refused(report, Reason::kSeveralRuns,
                           {Code::kUnsupported, "several programs have left logs of it, one after the other"});
        if (session.board == nullptr) return std::nullopt;
        for (const auto& directory : inventory_.directories)
            if (!directory->refused) return refused(report, Reason::kIncomplete, directory->refused);
        if (!session.missing) return refused(report, Reason::kIncomplete, session.missing);
        if (!session.damage) return refused(report, Reason::kDamaged, session.damage);
        if (session.durable_group) return std::nullopt;
        if (!session.has_drainer && session.sharing.kind != log::Sharing::Kind::kSeveralNodes)
            return refused(report, Reason::kIncomplete,
                           {Code::kNotFound, "the log with the commits of the processes that wrote it is not here"});
        return std::nullopt;
    }

    std::optional<FileReport> refuse_by_content(const Session& session, const Picture& picture,
                                                FileReport& report) const {
        bool durable = true;   // unreadable records were never promised
        for (const FoundLog& found : session.logs) {
            const log::ScannedLog& log = *found.log;
            report.unread_bytes += log.unread_bytes;
            durable = durable && log.durable;
            if (hides_a_commit(log, picture.commit_sequence))
                return refused(report, Reason::kDamaged, log.damage.front());
        }
        if (report.unread_bytes > 0 && request_.unasked && !durable)
            return refused(report, Reason::kNotAsked,
                           {Code::kCorrupt,
                            fmt::format("{} bytes at the end of its log cannot be read", report.unread_bytes)});
        if (report.restarted && picture.unchecked_bytes > 0)
            return refused(report, Reason::kRestarted,
                           {Code::kCorrupt,
                            fmt::format("the machine was restarted since, and {} bytes of the log have no checksum",
                                        picture.unchecked_bytes)});
        if (report.restarted && request_.unasked && !durable)
            return refused(report, Reason::kNotAsked,
                           {Code::kUnsupported,
                            "the machine was restarted since; what the log lost with that is not known"});
        return std::nullopt;
    }

    struct Subject {
        const Session& session;
        FileReport report;
        Picture picture{};
        std::vector<io::File*> pools{};   // that have the picture's bytes
        io::ExistingFile target{};
        std::optional<io::FileState> now{};   // of the target; none if its kind has none
    };

    FileReport recover_file(const Session& session) {
        Subject subject{session, introduce(session)};
        FileReport& report = subject.report;
        if (session.board != nullptr && session.sharing.kind == log::Sharing::Kind::kSeveralNodes) {
            report.nodes = session.board->board.nodes;
            report.nodes_here = inventory_.nodes_here(session);
        }
        if (auto no = refuse_by_logs(session, report)) return *no;
        if (request_.only && !named(session.identity) && named(session)->identity != io::Identity{})
            return refused(report, Reason::kReplaced, not_the_file(named(session)->path));
        if (is_complete(session)) {
            report.outcome = Outcome::kComplete;
            give_back(session, report);
            return report;
        }
        if (auto no = refuse_by_others(session, report)) return *no;
        replay_logs(subject);
        if (auto no = refuse_by_content(session, subject.picture, report)) return *no;
        if (auto no = refuse_by_user_now(session, report)) return *no;
        if (auto ended = find_target(subject)) return *ended;
        if (auto no = refuse_by_state(subject)) return *no;
        const bool without_commits = session.sharing.kind == log::Sharing::Kind::kSeveralNodes;
        report.outcome = subject.picture.commit_sequence > 0 || without_commits ? Outcome::kRecovered
                                                                                : Outcome::kRolledBack;
        if (!request_.dry_run) write_target(subject);
        return report;
    }

    static void replay_logs(Subject& subject) {
        const Session& session = subject.session;
        std::vector<const log::ScannedLog*> logs;
        for (const FoundLog& found : session.logs) {
            logs.push_back(found.log);
            subject.pools.push_back(found.directory->pool.get());
        }
        subject.picture = replay(logs, session.board != nullptr ? session.board->board.frontier : log::Frontier{0, 0});
        const Picture& picture = subject.picture;
        FileReport& report = subject.report;
        report.commit_sequence = picture.commit_sequence;
        report.commit_time_ns = picture.commit_time_ns;
        report.dropped_records = picture.dropped_records;
        report.dropped_bytes = picture.dropped_bytes;
        report.bytes = picture.bytes;
        report.unchecked_bytes = picture.unchecked_bytes;
        report.size = picture.size.value_or(0);
    }

    // Recovery of other files may have taken hours since the inventory.
    std::optional<FileReport> refuse_by_user_now(const Session& session, const FileReport& report) const {
        const auto user = user_now(areas_, session.identity, outside_.is_alive);
        if (!user) return refused(report, Reason::kSystem, user.status());
        if (!user.value()) return std::nullopt;
        return refused(report, Reason::kInUse,
                       {Code::kUnavailable, fmt::format("still open in process {}; not touched", user.value()->pid)});
    }

    // Returns a report if that is impossible.
    std::optional<FileReport> find_target(Subject& subject) const {
        const Session& session = subject.session;
        FileReport& report = subject.report;
        const Wanted* const name = named(session.identity);
        if (name != nullptr) report.path = name->path;
        auto target = outside_.open_target(report.path);
        const bool missing = target.status().code() == Code::kNotFound;
        if (name == nullptr && outside_.find_file &&
            (missing || (target && target.value().identity != session.identity))) {
            std::string found = outside_.find_file(report.path, session.identity);
            if (missing && is_gone(session, found)) return give_up(session, std::move(report));
            if (!found.empty()) {
                report.path = std::move(found);
                target = outside_.open_target(report.path);
            }
        }
        if (!target) return refused(report, reason_of(target.status()), target.status());
        if (target.value().identity != session.identity)
            return refused(report, Reason::kReplaced, not_the_file(report.path));
        subject.target = std::move(target).value();
        return std::nullopt;
    }

    std::optional<FileReport> refuse_by_state(Subject& subject) const {
        const Session& session = subject.session;
        const FileReport& report = subject.report;
        if (session.identity != session.logged && died_before_it_was_made(session, report.path))
            return refused(report, Reason::kReplaced,
                           {Code::kNotFound, fmt::format("{} was made after the process had died", report.path)});
        const auto now = state_of(*subject.target.file, session);
        if (!now) return refused(report, Reason::kSystem, now.status());
        subject.now = now.value();
        if (subject.now && session.born().differs({subject.now->born_ns, subject.now->generation}))
            return refused(report, Reason::kReplaced,
                           {Code::kNotFound,
                            fmt::format("{} is another file, made later, that was given the same inode number",
                                        report.path)});
        if (request_.although_changed) return std::nullopt;
        const Status untouched = untouched_since(session, subject.target, subject.now, report);
        if (untouched) return std::nullopt;
        return refused(report, untouched.code() == Code::kUnsupported ? Reason::kChanged : Reason::kSystem,
                       untouched.with_context(report.path));
    }

    void write_target(Subject& subject) const {
        const Session& session = subject.session;
        const Picture& picture = subject.picture;
        FileReport& report = subject.report;
        const auto fail = [&](Reason reason, const Status& status) {
            report.outcome = Outcome::kFailed;
            report.reason = reason;
            report.status = status;
        };
        if (const Status noted = note_life(*session.logs.front().directory, session.logs.front().log->durable); !noted)
            return fail(Reason::kSystem, noted);
        std::shared_ptr<io::File> file = std::move(subject.target.file);
        if (subject.now) file = witnessed(std::move(file), session, *subject.now, report, subject.target.set_modified);
        std::uint64_t done = 0;
        const auto rewritten = rewrite(
            picture, subject.pools, *file, picture.commit_sequence > 0,
            [&](std::uint64_t bytes) {
                done += bytes;
                (void)note_life(*session.logs.front().directory, false);
                if (request_.progress) request_.progress({report.path, done, picture.bytes, file_, files_});
            },
            outside_.start_thread);
        if (!rewritten) return fail(reason_of_failed_write(rewritten.status()), rewritten.status());
        report.size = rewritten.value().size;
        report.writes = rewritten.value().writes;
        report.mark = rewritten.value().mark;
        give_back(session, report);
    }

    // INVARIANT: the log is void only with a proof that no name can lead to the file again. It was unlinked at the
    // process's last look, on a local file system, or its number is reused. A search that did not find it is no proof
    // (io/path.h).
    bool is_gone(const Session& session, const std::string& found) const {
        const std::optional<log::TargetState>& known = session.logs.front().log->state;
        if (known && !known->busy && known->kind == io::TimesKind::kExact && known->rest.mode != 0 &&
            known->rest.links == 0)
            return true;
        return !found.empty() && outside_.born_ns && session.born().differs({outside_.born_ns(found), 0});
    }
    FileReport give_up(const Session& session, FileReport report) const {
        if (request_.unasked)
            return refused(std::move(report), Reason::kNotAsked,
                           {Code::kNotFound, report.path + " was deleted; `forebay recover` removes its log"});
        report.outcome = Outcome::kGone;
        report.dropped_records = report.dropped_bytes = 0;
        give_back(session, report);
        return report;
    }

    // Other nodes must not take these writes for another program's, even if this process is killed.
    std::shared_ptr<io::File> witnessed(std::shared_ptr<io::File> file, const Session& session,
                                        const io::FileState& now, const FileReport& report,
                                        std::function<Status(std::uint64_t)> set_modified) const {
        const FoundLog& first = session.logs.front();
        WitnessedTarget::Setup setup{now};
        setup.although_changed = request_.although_changed;
        if (report.nodes > 1) setup.set_modified = std::move(set_modified);
        if (first.log->state) {
            setup.known = *first.log->state;
            setup.store = [pool = first.directory->pool.get(), log = first.log](const log::TargetState& state) {
                return log::store_target_state(*pool, *log, state);
            };
        }
        return std::make_shared<WitnessedTarget>(std::move(file), std::move(setup));
    }

    // None: files of this kind have no state.
    static Result<std::optional<io::FileState>> state_of(io::File& target, const Session& session) {
        auto now = target.state(session.born().generation != 0 ? io::File::Ask::kWithGeneration
                                                               : io::File::Ask::kTimes);
        if (now) return std::optional(now.value());
        if (now.status().code() == Code::kUnsupported) return std::optional<io::FileState>();
        return now.status();
    }
    // kUnsupported: another program touched it.
    Status untouched_since(const Session& session, const io::ExistingFile& target,
                           const std::optional<io::FileState>& now, const FileReport& report) const {
        const std::uint64_t died_ns = last_sign_of_life(session, outside_.boot_id, outside_.booted_ns);
        const std::optional<log::TargetState>& known = session.logs.front().log->state;
        if (known && known->changed)
            return {Code::kUnsupported, "another program changed it while the process that died still drained it"};
        if (!known || known->kind == io::TimesKind::kUnknown || !now) {
            if (died_ns == 0 || target.modified_ns <= died_ns + kClocksApartNs) return Status::ok();
            return {Code::kUnsupported,
                    fmt::format("it was written to {} seconds after the last sign of the process that died",
                                (target.modified_ns - died_ns) / 1'000'000'000)};
        }
        // A durable log and its target may each have lost unsynced bytes. For other logs nothing was promised.
        const bool durable = session.logs.front().log->durable;
        const auto pool = durable ? session.logs.front().directory->pool->state()
                                  : Result<io::FileState>(io::FileState{});
        const bool stayed = !durable || (pool && known->mounts != 0 &&
                                         known->mounts == log::mounts_of(now->mount, pool.value().mount));
        Death death{died_ns, false, report.restarted || !stayed,
                    session.sharing.kind == log::Sharing::Kind::kSeveralNodes};
        if (outside_.identify) {
            const auto there = outside_.identify(session.path);
            death.renamed = !there || there.value() != session.identity;
        }
        return check_untouched(*known, *now, *target.file, death);
    }

    static Status not_the_file(const std::string& path) {
        return {
            Code::kNotFound,
            fmt::format("{} is not the file that the program wrote, or its file system was mounted again since", path)};
    }
    bool died_before_it_was_made(const Session& session, const std::string& path) const {
        const std::uint64_t died_ns = last_sign_of_life(session, outside_.boot_id, outside_.booted_ns),
                            born_ns = outside_.born_ns ? outside_.born_ns(path) : 0;
        return died_ns != 0 && born_ns > died_ns + kClocksApartNs;
    }

    void give_back(const Session& session, FileReport& report) const {
        if (request_.dry_run) return;
        report.status = give_back_logs(session);
        if (report.status) return;
        report.outcome = Outcome::kFailed;
        report.reason = Reason::kSystem;
    }

    const std::span<io::Directory* const> areas_;
    const Inventory& inventory_;
    const std::map<io::Identity, Status>& busy_;
    const Request& request_;
    const Outside& outside_;
    Report report_;
    std::size_t file_ = 0, files_ = 0;
};

// A requested file that may be the session's on a remounted file system: same inode and name, another device number,
// and the old file is not at its path.
const Wanted* moved(const Session& session, const Request& request, const Outside& outside) {
    const auto found = std::find_if(request.only->begin(), request.only->end(), [&](const Wanted& wanted) {
        return wanted.identity.inode == session.logged.inode && wanted.identity.device != session.logged.device &&
               std::filesystem::path(wanted.path).filename() == std::filesystem::path(session.path).filename();
    });
    if (found == request.only->end()) return nullptr;
    const auto there = outside.identify ? outside.identify(session.path)
                                        : Result<io::Identity>(Status(Code::kNotFound, session.path));
    if (there && there.value() == session.logged) return nullptr;
    return &*found;
}

}   // namespace

Result<Outside> Outside::real(io::Directory::Patience with_others) {
    const auto self = area::identify_this_process();
    if (!self) return self.status();
    return Outside{area::is_seen_running,
                   self.value().boot_id,
                   [with_others](const std::string& path) { return io::open_existing_file(path, with_others); },
                   realtime_ns() - std::min(realtime_ns(), boottime_ns()),
                   home_of,
                   [](const std::string& path) { return io::identify(path); },
                   [](const std::string& path, const io::Identity& identity) { return io::find_file(path, identity); },
                   io::born_ns};
}

Result<Report> recover(std::span<io::Directory* const> areas, const Request& request, const Outside& outside) {
    std::set<io::Identity> named;
    if (request.only)
        for (const Wanted& wanted : *request.only)
            if (wanted.identity != io::Identity{}) named.insert(wanted.identity);
    const auto others = [&](const Inventory& inventory) {
        std::set<io::Identity> all;
        if (request.only) {
            for (const Session& session : inventory.sessions)
                if ((request.accept_moved && moved(session, request, outside) != nullptr) ||
                    std::any_of(request.only->begin(), request.only->end(), [&](const Wanted& wanted) {
                        return wanted.identity == io::Identity{} && io::same_place(wanted.path, session.path);
                    }))
                    all.insert(session.identity);
            return all;
        }
        for (const Session& session : inventory.sessions) all.insert(session.identity);
        for (const TeamSession& team : inventory.teams) all.insert(team.identity);
        return all;
    };
    if (!request.dry_run && (!request.only || !named.empty()))
        await_ending(areas, named, request.ending, request.waiting);
    auto claimed = claim(areas, named, others, request.patience, request.dry_run, outside.is_alive, outside.boot_id);
    if (!claimed) return claimed.status();
    for (Session& session : claimed.value().inventory.sessions)
        if (const Wanted* const now = request.accept_moved ? moved(session, request, outside) : nullptr)
            session.identity = now->identity;
    Report report = Recovery(areas, claimed.value(), request, outside).run();
    // Reports a requested file that living processes use, even if no process died.
    Report users = report;
    if (request.only && !request.unasked) tell_of_users(claimed.value().inventory, *request.only, users);
    auto died = tidy_up(
        areas, claimed.value(), request.patience, request.dry_run, outside.is_alive, outside.boot_id,
        [&](const FoundDirectory& dead) { return !request.only || has_left(dead, *request.only); }, report);
    std::move(died.begin(), died.end(), std::back_inserter(report.refused));
    if (!request.only || request.unasked) return report;
    users.refused.insert(users.refused.end(), report.refused.begin(), report.refused.end());
    users.removed = std::move(report.removed);
    return users;
}

}   // namespace forebay::recover
