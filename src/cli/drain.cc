// `forebay drain` empties the node's staging areas at a job's end. Living processes drain; it recovers dead ones' logs.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "area/process.h"
#include "area/staging_area.h"
#include "base/options.h"
#include "cli/acting_as.h"
#include "cli/area_events.h"
#include "cli/batch_job.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/duration.h"
#include "cli/file_view.h"
#include "cli/recover_view.h"
#include "cli/staging_areas.h"
#include "io/claim.h"
#include "io/detached_process.h"
#include "io/posix_file.h"
#include "io/process_lock.h"
#include "ledger/drain_state.h"
#include "ledger/ledger.h"

namespace forebay::cli {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The interval at which the command reads counters of other processes, which change without an event.
constexpr milliseconds kDrainLookInterval{250};

struct DrainRequest {
    std::vector<std::string> names;
    std::string nls;
    std::string timeout;
    std::optional<std::uint64_t> timeout_ns;
    bool all = false, all_users = false, json = false;
    std::string finish;   // directory of a process that is about to end
};

const std::string kDrainFooter =
    "Run it on each node at the end of a job. It waits for processes that still drain. Then it brings the files "
    "of dead processes to their last flush or close. In a job of Slurm, or its epilog, it waits for the processes "
    "of that job (SLURM_JOB_ID), and lists those of other jobs on the node.\n\n";

int complain_of_drain(std::string_view what, int exit_status) {
    fmt::print(stderr, "forebay drain: {}\n", what);
    return exit_status;
}

int exit_status_of_look(const Status& failure) {
    return failure.code() == Code::kInvalidArgument ? kExitUsage : kExitUnknown;
}

class Draining {
  public:
    Draining(const DrainRequest& request, const Survey& where)
        : request_(request),
          where_(where),
          deadline_(Clock::now() + std::chrono::nanoseconds(request.timeout_ns.value_or(0))) {}

    int operator()() {
        recover::Report report;
        Result<std::vector<std::string>> left = std::vector<std::string>();
        for (;;) {
            if (const Status waited = await_living(); !waited) return complain_of_drain(waited.message(), kExitUnknown);
            const std::set<std::string> dead_before = dead_;
            auto more = bring_home();
            if (!more) return complain_of_drain(more.status().message(), exit_status_of_look(more.status()));
            keep_settled(report);
            append(report, std::move(more).value());
            left = pending();
            if (!left) return complain_of_drain(left.status().message(), kExitUnknown);
            // The recovery looked at the logs before these processes died. Each round needs another death.
            std::vector<std::string> died;
            std::set_difference(dead_.begin(), dead_.end(), dead_before.begin(), dead_before.end(),
                                std::back_inserter(died));
            if (died.empty()) break;
            if (endless() || Clock::now() < deadline_) continue;
            for (const std::string& directory : died)
                left.value().push_back(directory + ": its process died and left staged bytes: run `forebay recover`");
            break;
        }
        for (const std::string& line : left.value()) complain_of_drain(line, kExitProblem);
        for (const std::string& line : of_other_jobs_) complain_of_drain("of another job: " + line, kExitFine);
        print_report(where_, report, false, request_.json);
        for (const std::string& line : skipped_) complain_of_drain("not read: " + line, kExitUnknown);
        const int found = exit_status(left.value().empty() && report.all_well(), where_.unseen);
        return found == kExitFine && !skipped_.empty() ? kExitUnknown : found;
    }

  private:
    [[nodiscard]] bool endless() const noexcept { return !request_.timeout_ns; }

    // The next round of recovery reports all other things anew.
    static void keep_settled(recover::Report& report) {
        using recover::Outcome;
        std::erase_if(report.files, [](const recover::FileReport& file) {
            return file.outcome == Outcome::kRefused || file.outcome == Outcome::kWaiting ||
                   file.outcome == Outcome::kFailed;
        });
        report.refused.clear();
        report.living.clear();
        report.owners = 0;
    }

    // One line for each file with outstanding bytes of living processes of this job. Also notes the dead ones with
    // logs.
    [[nodiscard]] Result<std::vector<std::string>> pending() {
        std::vector<std::string> lines;
        skipped_.clear();
        of_other_jobs_.clear();
        dead_.clear();
        for (const UserAreas& user : where_.users) {
            const auto acting = ActingAs::user(user.user);
            if (!acting) return acting.status();
            for (const auto& area : user.areas) {
                const ledger::LedgerScan scan = ledger::scan_ledgers(*area);
                for (const ledger::ProcessView& process : scan.processes)
                    if (process.alive) note(process, is_ours(process) ? lines : of_other_jobs_);
                    else if (!is_empty(process)) dead_.insert(process.directory);
                skipped_.insert(skipped_.end(), scan.skipped.begin(), scan.skipped.end());
            }
        }
        return lines;
    }

    [[nodiscard]] bool is_ours(const ledger::ProcessView& process) const {
        if (job_.empty()) return true;
        const auto owner = area::owner_of_directory(std::filesystem::path(process.directory).filename().string());
        return !owner || belongs_to_job(*owner, job_);
    }

    static void note(const ledger::ProcessView& process, std::vector<std::string>& lines) {
        for (const ledger::FileCounters& file : process.files)
            if (ledger::is_outstanding(file))
                lines.push_back(fmt::format("{}: process {} has not drained {}{}", file.path, process.pid,
                                            file.pending > 0 ? format_size(file.pending) : "its size",
                                            file.error != 0 ? ", and cannot write it: " + ledger::error_text(file.error)
                                                            : ""));
        for (const ledger::SharedFile& shared : process.shared)
            if (shared.unfollowed_bytes > 0)
                lines.push_back(
                    fmt::format("a file that process {} drains for other processes: {} are still in their logs",
                                process.pid, format_size(shared.unfollowed_bytes)));
        if (process.files_without_slot > 0 && !process.logged.empty())
            lines.push_back(fmt::format(
                "{}: process {} has too many files open to show the progress of this one; wait for its close",
                process.logged.front().path, process.pid));
    }

    Status await_living() {
        const AreaEvents events(where_);
        for (;;) {
            const auto lines = pending();
            if (!lines || lines.value().empty() || (!endless() && Clock::now() >= deadline_)) return lines.status();
            auto at_most = kDrainLookInterval;
            if (!endless()) at_most = std::min(at_most, std::chrono::ceil<milliseconds>(deadline_ - Clock::now()));
            events.wait(std::max(at_most, milliseconds(1)));
        }
    }

    // Recovers each user's files with that user's rights.
    Result<recover::Report> bring_home() const {
        recover::Report all;
        for (const UserAreas& user : where_.users) {
            const auto acting = ActingAs::user(user.user);
            if (!acting) return acting.status();
            const auto areas = user.open_areas();
            if (areas.empty()) continue;
            recover::Request what;
            what.ending = what.patience = io::Directory::Patience::kWait;
            io::Directory::Patience with_others = recover::kOthersLook;
            if (!endless()) {
                const auto left = std::chrono::ceil<milliseconds>(deadline_ - Clock::now());
                what.ending.at_most = what.patience.at_most = std::max(milliseconds(0), left);
                with_others.at_most = std::min(with_others.at_most, what.patience.at_most);
            }
            const auto outside = recover::Outside::real(with_others);
            if (!outside) return outside.status();
            auto report = recover::recover(areas, what, outside.value());
            if (!report) return report.status();
            append(all, std::move(report).value());
        }
        return all;
    }

    const DrainRequest& request_;
    const Survey& where_;
    const Clock::time_point deadline_;
    const std::string job_ = own_job();
    // From the last call of `pending`: unreadable ledgers, and outstanding files of other jobs.
    std::vector<std::string> skipped_, of_other_jobs_;
    std::set<std::string> dead_;   // directories of dead processes with logs
};

// Recovers the files of one area. `with_others` is the patience with processes that lock a file. Bytes that are not
// recovered stay in the log of a dead process, where `status`, `wait` and `recover` find them.
Result<recover::Report> bring_home_from(io::Directory& area, io::Directory::Patience with_others) {
    const auto outside = recover::Outside::real(with_others);
    if (!outside) return outside.status();
    recover::Request what;
    what.unasked = true;
    what.patience = io::Directory::Patience::kWait;
    std::array<io::Directory*, 1> areas{&area};
    return recover::recover(areas, what, outside.value());
}

bool any_in_use(const recover::Report& report) {
    return std::any_of(report.files.begin(), report.files.end(), [](const recover::FileReport& file) {
        return file.outcome == recover::Outcome::kRefused && file.reason == recover::Reason::kInUse;
    });
}

// Takes over the drains of an ending process (close=linger), which waits for the confirmation and ignores the output.
int finish(const std::string& path) {
    if (const Status settled = io::settle_detached(); !settled)
        return complain_of_drain(settled.message(), kExitProblem);
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos || slash == 0) return kExitUsage;
    const std::string area = path.substr(0, slash), name = path.substr(slash + 1);
    const auto claim = io::Claim::make(fmt::format("{}/{}", area, area::kClosingFolder), name);
    if (!claim) return complain_of_drain(claim.status().message(), kExitProblem);
    const char ready = 1;
    if (::write(io::kReadyDescriptor, &ready, 1) != 1) return kExitProblem;   // the process drains itself
    ::close(io::kReadyDescriptor);
    constexpr std::chrono::hours kTurn{1};
    while (!io::ProcessLock::await_end(path, std::string(area::kAliveFile), kTurn)) {
    }
    const auto directory = io::open_posix_directory(area);
    if (!directory) return complain_of_drain(directory.status().message(), kExitProblem);
    // A program locks each file that it has open, even for reading. The other files do not wait for that lock.
    auto report = bring_home_from(*directory.value(), io::Directory::Patience::kTry);
    if (report && any_in_use(report.value()))
        report = bring_home_from(*directory.value(), io::Directory::Patience::kWait);
    return report && report.value().all_well() ? kExitFine : kExitProblem;
}

int drain(const DrainRequest& request) {
    if (!request.finish.empty()) return finish(request.finish);
    if (request.all == !request.names.empty())
        return complain_of_drain("name staging areas, or give --all for all areas on this node", kExitUsage);
    const auto where = survey({request.names, request.nls, request.all_users});
    if (!where) return complain_of_drain(where.status().message(), exit_status_of_look(where.status()));
    if (where.value().names_files())
        return complain_of_drain("forebay drain takes whole staging areas; for files, use `forebay wait`", kExitUsage);
    return Draining(request, where.value())();
}

}   // namespace

void add_drain(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand(
        "drain", "Wait until nothing is staged on this node, and recover the files of dead processes");
    auto request = std::make_shared<DrainRequest>();
    command->add_option("AREA", request->names, "Staging areas");
    command->add_flag("--all", request->all, "All staging areas of this user on this node");
    command->add_flag("--all-users", request->all_users, "The staging areas of all users (root only)");
    command->add_option("--nls", request->nls, "Also search this staging area")->type_name("DIR");
    command->add_option("--timeout", request->timeout, "Wait at most this time: 30s, 5m, 2h; default: no limit")
        ->type_name("TIME")
        ->check(why_no_duration);
    command->add_option("--finish", request->finish)->group("");   // hidden: a process starts it at its end
    command->add_flag("--json", request->json, "Print the report of the recovery as JSON");
    command->footer(kDrainFooter +
                    exit_statuses({{"0", "nothing is staged any more, except by other Slurm jobs"},
                                   {"1", "some bytes are; the report names each file and the reason"},
                                   {"2", "the command line or an option is wrong, or a staging area does not exist"},
                                   {"3", "a directory could not be read, so logs may be left"}}));
    command->callback([request, &exit_status] {
        request->timeout_ns = parse_duration(request->timeout);
        exit_status = drain(*request);
    });
}

}   // namespace forebay::cli
