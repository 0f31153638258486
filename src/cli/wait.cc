// `forebay wait`: waits until files have all their staged bytes, and syncs them to their device.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "area/process.h"
#include "base/options.h"
#include "base/shell_word.h"
#include "cli/acting_as.h"
#include "cli/area_events.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/duration.h"
#include "cli/progress_bar.h"
#include "cli/shown.h"
#include "cli/staging_areas.h"
#include "group/board_format.h"
#include "io/open_existing.h"
#include "io/posix_file.h"
#include "ledger/drain_state.h"
#include "ledger/ledger.h"
#include "log/scan.h"
#include "undo/undo_format.h"

namespace forebay::cli {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The maximum interval between two looks. Most changes raise events: writes to the files, closes, and process
// directories that appear or vanish. Counters alone, and changes by another machine, raise none.
constexpr milliseconds kLookInterval{500};
// A starting process has a directory before it has a ledger.
constexpr milliseconds kUnclear{2000};

struct WaitRequest {
    std::vector<std::string> names;
    std::string nls;
    std::string timeout;
    std::optional<std::uint64_t> timeout_ns;
    bool no_sync = false, quiet = false;
};

int complain_of_wait(std::string_view what, int exit_status = kExitProblem) {
    fmt::print(stderr, "forebay wait: {}\n", what);
    return exit_status;
}

// A reason why a file may be incomplete. The kinds are ordered; the worst one comes first.
struct Pending {
    enum class Kind { kDead, kStuck, kAlive, kUnknown };
    Kind kind;
    std::string path;   // of the file, as in the command line; empty if it may be any file
    std::string text;
    std::uint64_t bytes = 0;   // known bytes that are not in the file yet
};

// Keeps the worst reason for each file.
class Look {
  public:
    // `failing` holds the drained bytes of failing files at the last look, by process directory and file.
    using Failing = std::map<std::pair<std::string, std::string>, std::uint64_t>;
    Look(const Survey& asked, std::set<std::string>& empty, const Failing& failing_before)
        : asked_(asked), empty_(empty), failing_before_(failing_before) {}

    [[nodiscard]] Status operator()() {
        for (const UserAreas& user : asked_.users) {
            const auto acting = ActingAs::user(user.user);
            if (!acting) return acting.status();
            for (const auto& area : user.areas) {
                const auto names = area->list();
                if (!names) {
                    note(Kind::kUnknown, "", names.status().message());
                    continue;
                }
                for (const std::string& name : names.value())
                    if (const auto owner = area::owner_of_directory(name)) look_into(*area, name, *owner);
            }
        }
        for (const std::string& unseen : asked_.unseen) note(Kind::kUnknown, "", unseen);
        return Status::ok();
    }
    [[nodiscard]] const std::vector<Pending>& pending() const { return pending_; }
    [[nodiscard]] Failing& failing() { return failing_; }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  private:
    using Kind = Pending::Kind;

    void note(Kind kind, const std::string& path, const std::string& text, std::uint64_t bytes = 0) {
        bytes_ += bytes;
        const auto known = std::find_if(pending_.begin(), pending_.end(),
                                        [&](const Pending& one) { return one.path == path && !path.empty(); });
        if (known == pending_.end()) pending_.push_back({kind, path, text, bytes});
        else if (kind < known->kind) *known = {kind, path, text, bytes};
    }

    void look_into(io::Directory& area, const std::string& name, const area::ProcessIdentity& owner) {
        const std::string path = fmt::format("{}/{}", area.name(), name);
        const auto unknown = [&](const Status& why) {
            if (why.code() == Code::kNotFound && area.facts(name).status().code() == Code::kNotFound)
                return;   // the process has ended
            note(Kind::kUnknown, "", fmt::format("{}: {}", path, why.message()));
        };
        const auto directory = area.open_directory(name);
        if (!directory) return unknown(directory.status());
        // Reads the boards before the ledger, so that bytes the drainer finds meanwhile are in the counters.
        const std::vector<Pending> unfollowed = look_at_boards(*directory.value());
        const auto view = ledger::read_ledger(*directory.value());
        if (view ? !view.value().alive : !area::owner_is_alive(owner, path))
            return look_into_dead(*directory.value(), path, owner, unknown);
        for (const Pending& one : unfollowed) note(one.kind, one.path, one.text);
        std::set<std::string> listed;
        if (view) {
            for (const ledger::FileCounters& file : view.value().files) {
                const recover::Wanted* const wanted = named({file.device, file.inode});
                if (wanted == nullptr) continue;
                listed.insert(wanted->path);
                if (ledger::is_outstanding(file)) look_at_pending(*wanted, file, path, owner);
            }
            if (view.value().files_without_slot == 0) return;
        }
        look_at_log(*directory.value(), owner, listed, view ? Status::ok() : view.status(), unknown);
    }

    // A failing write may never succeed. The command waits as long as the drained bytes grow.
    void look_at_pending(const recover::Wanted& wanted, const ledger::FileCounters& file, const std::string& path,
                         const area::ProcessIdentity& owner) {
        const std::string bytes = file.pending > 0 ? fmt::format("{}: {} are not in the file yet", wanted.path,
                                                                 format_size(file.pending))
                                                   : wanted.path + ": its size is not set yet";
        if (file.error == 0) return note(Kind::kAlive, wanted.path, bytes, file.pending);
        const std::pair key{path, wanted.path};
        failing_[key] = file.drained;
        const auto before = failing_before_.find(key);
        note(before != failing_before_.end() && before->second == file.drained ? Kind::kStuck : Kind::kAlive,
             wanted.path,
             fmt::format("{}, and process {} cannot write them: {}", bytes, owner.pid, ledger::error_text(file.error)));
    }

    // Bytes of shared files that the drainer has not found yet in the other participants' logs are in no counter.
    std::vector<Pending> look_at_boards(io::Directory& directory) {
        std::vector<Pending> pending;
        const auto names = directory.list();
        if (!names) return {{Kind::kUnknown, "", names.status().message()}};
        for (const std::string& name : names.value()) {
            if (!group::log_of_board(name)) continue;
            const auto file = directory.open_file(name, io::OpenMode::kRead);
            const auto board = file ? group::read_board(*file.value()) : Result<group::BoardView>(file.status());
            if (!board || board.value().unfollowed_bytes == 0) continue;   // no board yet, or not any more
            const auto log = directory.open_file("log", io::OpenMode::kRead);
            const auto targets = log ? log::scan_targets(*log.value())
                                     : Result<std::vector<log::OpenPayload>>(log.status());
            if (!targets) {
                pending.push_back({Kind::kUnknown, "", targets.status().message()});
                continue;
            }
            for (const log::OpenPayload& target : targets.value())
                if (const auto* const wanted = named({target.device, target.inode});
                    wanted != nullptr && target.sharing.group == board.value().group)
                    pending.push_back({Kind::kAlive, wanted->path,
                                       fmt::format("{}: {} are not in the file yet", wanted->path,
                                                   format_size(board.value().unfollowed_bytes))});
        }
        return pending;
    }

    // The counters do not cover all files, so the log must tell.
    template <class Unknown>
    void look_at_log(io::Directory& directory, const area::ProcessIdentity& owner, const std::set<std::string>& listed,
                     const Status& ledger, const Unknown& unknown) {
        const auto log = directory.open_file("log", io::OpenMode::kRead);
        if (!log) {
            if (log.status().code() != Code::kNotFound || !ledger) unknown(log.status());
            return;
        }
        const auto targets = log::scan_targets(*log.value());
        if (!targets) return unknown(targets.status());
        bool any = false;
        for (const log::OpenPayload& target : targets.value()) {
            const recover::Wanted* const wanted = named({target.device, target.inode});
            if (wanted == nullptr || listed.contains(wanted->path)) continue;
            any = true;
            note(Kind::kAlive, wanted->path,
                 fmt::format(
                     "{}: process {} has too many files open to show the progress of this one; wait for its close",
                     wanted->path, owner.pid));
        }
        if (!any && !ledger) unknown(ledger);
    }

    template <class Unknown>
    void look_into_dead(io::Directory& directory, const std::string& path, const area::ProcessIdentity& owner,
                        const Unknown& unknown) {
        if (empty_.contains(path)) return;
        const auto died = [&](const recover::Wanted& wanted) {
            note(Kind::kDead, wanted.path,
                 fmt::format("{}: process {} died and left a log of it in {}: run `forebay recover {}`", wanted.path,
                             owner.pid, path, shell_word(wanted.path)));
        };
        const std::size_t before = pending_.size();
        const auto names = directory.list();
        if (!names) return unknown(names.status());
        for (const std::string& name : names.value()) {
            if (!undo::log_of_undo(name)) continue;
            const auto journal = directory.open_file(name, io::OpenMode::kRead);
            if (!journal) return unknown(journal.status());
            const auto bytes = journal.value()->size();
            if (bytes && bytes.value() < undo::kUndoFrontBytes) continue;   // no journal yet
            const auto header = undo::read_undo_header(*journal.value());
            if (!header) return unknown(header.status());
            if (const auto* const wanted = named({header.value().device, header.value().inode})) died(*wanted);
        }
        if (const auto log = directory.open_file("log", io::OpenMode::kRead)) {
            const auto logs = log::scan(*log.value());
            if (!logs) return unknown(logs.status());
            for (const log::ScannedLog& each : logs.value()) {
                if (const auto* const wanted = named({each.target.device, each.target.inode})) died(*wanted);
                if (each.target.path.empty() && !each.damage.empty())
                    return unknown(each.damage.front());   // it may be of any file
            }
        } else if (log.status().code() != Code::kNotFound) {
            return unknown(log.status());
        }
        if (pending_.size() == before) empty_.insert(path);
    }

    [[nodiscard]] const recover::Wanted* named(const io::Identity& identity) const {
        const auto found = std::find_if(asked_.files.begin(), asked_.files.end(),
                                        [&](const recover::Wanted& wanted) { return wanted.identity == identity; });
        return found == asked_.files.end() ? nullptr : &*found;
    }

    const Survey& asked_;
    std::set<std::string>& empty_;   // dead processes without bytes of the files
    const Failing& failing_before_;
    Failing failing_;
    std::vector<Pending> pending_;
    std::uint64_t bytes_ = 0;
};

// Syncs the folder that has the file's name. Without the right to read it, syncs the whole file system instead.
Status sync_folder_of(const std::string& path, int file) {
    std::error_code error;
    const auto real = std::filesystem::canonical(path, error);   // the name may be a link in another folder
    if (error) return Status::from_errno(error.value(), "find the folder of " + path);
    const std::string folder = real.parent_path().string();
    const int descriptor = io::open_patiently(folder, O_RDONLY | O_DIRECTORY);
    if (descriptor < 0 && errno == EACCES)
        return ::syncfs(file) == 0 ? Status::ok() : Status::from_errno(errno, "sync the file system of " + path);
    if (descriptor < 0) return Status::from_errno(errno, "open " + folder);
    const bool synced = ::fsync(descriptor) == 0 || errno == EINVAL;
    const Status outcome = synced ? Status::ok() : Status::from_errno(errno, "sync " + folder);
    ::close(descriptor);
    return outcome;
}

Status make_durable(const recover::Wanted& file) {
    const int descriptor = io::open_patiently(file.path, O_RDONLY);
    if (descriptor < 0) return Status::from_errno(errno, "open " + file.path);
    Status outcome;
    const auto identity = io::identify(descriptor, file.path);
    if (!identity) outcome = identity.status();
    else if (identity.value() != file.identity)
        outcome = {Code::kNotFound, file.path + ": another file took its place during the wait"};
    else if (::fsync(descriptor) != 0) outcome = Status::from_errno(errno, "sync " + file.path);
    if (outcome) outcome = sync_folder_of(file.path, descriptor);
    ::close(descriptor);
    return outcome;
}

std::vector<Pending> of_kind(const std::vector<Pending>& pending, Pending::Kind kind) {
    std::vector<Pending> some;
    std::copy_if(pending.begin(), pending.end(), std::back_inserter(some),
                 [&](const Pending& one) { return one.kind == kind; });
    return some;
}

int complain_of_wait(const std::vector<Pending>& pending, int exit_status) {
    std::set<std::string> told;
    for (const Pending& one : pending)
        if (told.insert(one.text).second)
            complain_of_wait(one.kind == Pending::Kind::kUnknown ? "unknown whether bytes are staged: " + one.text
                                                                 : one.text);
    return exit_status;
}

// Returns 0, or the exit status of the failure.
class Waiting {
  public:
    Waiting(const WaitRequest& request, const Question& question, const Survey& asked)
        : request_(request),
          question_(question),
          files_(asked.files),
          events_(asked),
          deadline_(begin_ + std::chrono::nanoseconds(request.timeout_ns.value_or(0))) {}

    int operator()() {
        for (;;) {
            // New staging areas may exist.
            auto asked = survey(question_);
            if (!asked) return complain_of_wait(asked.status().message(), exit_status(asked.status()));
            asked.value().files = files_;   // not files that may have replaced them
            Look look(asked.value(), empty_, failing_);
            if (const Status looked = look(); !looked) return complain_of_wait(looked.message(), kExitUnknown);
            if (terminal_) draw(look);
            if (const auto end = judge(look)) return *end;
            auto at_most = kLookInterval;
            if (request_.timeout_ns)
                at_most = std::min(at_most, std::chrono::ceil<milliseconds>(deadline_ - Clock::now()));
            events_.wait(at_most);
        }
    }

    ~Waiting() {
        if (drawn_) erase_progress();
    }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

  private:
    using Kind = Pending::Kind;

    void draw(const Look& look) {
        if (look.pending().empty() && !drawn_) return;
        most_bytes_ = std::max(most_bytes_, look.bytes());
        draw_waiting(most_bytes_ - look.bytes(), most_bytes_, look.pending().size(), files_.size());
        drawn_ = true;
    }

    std::optional<int> judge(Look& look) {
        const std::vector<Pending>& pending = look.pending();
        if (pending.empty()) return kExitFine;
        const auto now = Clock::now();
        const auto dead = of_kind(pending, Kind::kDead), stuck = of_kind(pending, Kind::kStuck),
                   alive = of_kind(pending, Kind::kAlive), unknown = of_kind(pending, Kind::kUnknown);
        if (!dead.empty()) return complain_of_wait(pending, kExitProblem);
        if (!alive.empty()) clear_ = now;
        const bool over = request_.timeout_ns && now >= deadline_;
        if (over) return complain_of_wait(pending, alive.empty() && stuck.empty() ? kExitUnknown : kExitProblem);
        if (!alive.empty() || (stuck.empty() && now - clear_ < kUnclear)) {
            if (now - failing_since_ >= kUnclear) {
                failing_ = std::move(look.failing());
                failing_since_ = now;
            }
            return std::nullopt;
        }
        return complain_of_wait(pending, stuck.empty() ? kExitUnknown : kExitProblem);
    }

    const WaitRequest& request_;
    const Question& question_;
    const std::vector<recover::Wanted> files_;
    const AreaEvents events_;
    const Clock::time_point begin_ = Clock::now(), deadline_;
    Clock::time_point clear_ = begin_, failing_since_ = begin_;   // last time that a living process had bytes pending
    std::set<std::string> empty_;
    Look::Failing failing_;
    const bool terminal_ = !request_.quiet && progress_is_shown();
    bool drawn_ = false;
    std::uint64_t most_bytes_ = 0;
};

int wait(const WaitRequest& request) {
    const Question question{request.names, request.nls, false, true};
    const auto asked = survey(question);
    if (!asked) return complain_of_wait(asked.status().message(), exit_status(asked.status()));
    if (!asked.value().missing.empty())
        return complain_of_wait(no_such_file(asked.value().missing.front()).message(), kExitUsage);
    if (const int given_up = Waiting(request, question, asked.value())(); given_up != kExitFine) return given_up;
    if (!request.no_sync)
        for (const recover::Wanted& file : asked.value().files)
            if (const Status durable = make_durable(file); !durable) return complain_of_wait(durable.message());
    if (!request.quiet) {
        const std::size_t count = asked.value().files.size();
        fmt::print("{} {} everything that was staged{}.\n",
                   count == 1 ? printable(asked.value().files.front().path) : fmt::format("{} files", count),
                   count == 1 ? "holds" : "hold", request.no_sync ? "" : ", on the device");
    }
    return kExitFine;
}

}   // namespace

void add_wait(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("wait",
                                           "Wait until files have all their staged bytes, and are on their device");
    auto request = std::make_shared<WaitRequest>();
    command->add_option("FILE", request->names, "The files")->required();
    command->add_option("--nls", request->nls, "Also search this staging area")->type_name("DIR");
    command->add_option("--timeout", request->timeout, "Give up after this time: 30s, 5m, 2h; a number means seconds")
        ->type_name("TIME")
        ->check(why_no_duration);
    command->add_flag("-q,--quiet", request->quiet, "Print only problems, and no progress");
    command->add_flag("--no-sync", request->no_sync,
                      "Do not sync the files at the end: a loss of power may take their last bytes");
    command->footer(
        "The command sees the logs of this node only. It does not wait for bytes that are written after it found "
        "a file complete.\n\n" +
        exit_statuses(
            {{"0", "the files have all staged bytes, and are synced"},
             {"1", "a process died and left staged bytes, a process cannot write, the time is over, or a sync failed"},
             {"2", "the command line or an option is wrong, or a file or staging area does not exist"},
             {"3", "unknown, for the reason given"}}));
    command->callback([request, &exit_status] {
        request->timeout_ns = parse_duration(request->timeout);
        exit_status = wait(*request);
    });
}

}   // namespace forebay::cli
