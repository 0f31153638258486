// `forebay status`: shows staged bytes, drained bytes, and the logs of dead processes.
#include <fmt/format.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>

#include "base/clock.h"
#include "cli/acting_as.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/exit_status.h"
#include "cli/launch.h"
#include "cli/read_caches.h"
#include "cli/staging_areas.h"
#include "cli/status_metrics.h"
#include "cli/status_view.h"
#include "io/path.h"

namespace forebay::cli {

namespace {

struct StatusRequest {
    bool watch = false, json = false, prometheus = false, check = false, all_users = false;
    std::vector<std::string> names;
    std::string nls;
};

// With `redraw` the frame replaces the one before, and must not scroll.
Screen screen_of_stdout(bool redraw) {
    Screen screen;
    if (::isatty(STDOUT_FILENO) == 0) return screen;
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
        if (size.ws_col > 20) screen.columns = size.ws_col;
        // The line break after the last line needs a row.
        if (redraw && size.ws_row > 4) screen.rows = size.ws_row - 1U;
    }
    screen.wraps = true;
    std::setlocale(LC_CTYPE, "");
    screen.utf8 = std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0;
    return screen;
}

// Draws over the previous frame without flicker: from the top, erasing the rest of each line and the rows below.
std::string frame_of(const std::string& text) {
    std::string frame = "\033[H";
    for (const char c : text) {
        if (c == '\n') frame += "\033[K";
        frame += c;
    }
    return frame + "\033[J";
}

void keep_asked(const Survey& asked, ledger::LedgerScan& scan) {
    if (!asked.names_files()) return;
    const auto is_asked = [&](std::uint64_t device, std::uint64_t inode, const std::string& path) {
        return std::any_of(asked.files.begin(), asked.files.end(),
                           [&](const recover::Wanted& file) { return file.identity == io::Identity{device, inode}; }) ||
               std::any_of(asked.missing.begin(), asked.missing.end(),
                           [&](const std::string& missing) { return io::same_place(missing, path); });
    };
    for (ledger::ProcessView& process : scan.processes) {
        std::erase_if(process.files,
                      [&](const ledger::FileCounters& file) { return !is_asked(file.device, file.inode, file.path); });
        std::erase_if(process.logged,
                      [&](const ledger::LoggedFile& file) { return !is_asked(file.device, file.inode, file.path); });
    }
    std::erase_if(scan.processes,
                  [](const ledger::ProcessView& process) { return process.files.empty() && process.logged.empty(); });
}

// A log may know a file that does not exist.
bool is_known(const ledger::LedgerScan& scan, const std::string& path) {
    const auto names = [&](const auto& file) { return io::same_place(file.path, path); };
    return std::any_of(scan.processes.begin(), scan.processes.end(), [&](const ledger::ProcessView& process) {
        return std::any_of(process.files.begin(), process.files.end(), names) ||
               std::any_of(process.logged.begin(), process.logged.end(), names);
    });
}

Result<Sample> take_sample(const StatusRequest& request, bool first) {
    const auto asked = survey(
        {.names = request.names, .nls = request.nls, .all_users = request.all_users, .tells = first});
    if (!asked) return asked.status();
    const Survey& where = asked.value();
    Sample sample{{}, realtime_ns(), where.nls(), where.unseen, where.others, {}};
    for (const UserAreas& user : where.users) {
        const auto acting = ActingAs::user(user.user);
        if (!acting) return acting.status();
        for (const auto& area : user.areas) {
            ledger::LedgerScan scan = ledger::scan_ledgers(*area);
            std::move(scan.processes.begin(), scan.processes.end(), std::back_inserter(sample.scan.processes));
            std::move(scan.skipped.begin(), scan.skipped.end(), std::back_inserter(sample.scan.skipped));
        }
    }
    keep_asked(where, sample.scan);
    for (const std::string& path : where.missing)
        if (!is_known(sample.scan, path)) return no_such_file(path);
    if (where.names_files()) return sample;
    const Status looked = for_each_cache(where, sample.unseen, [&](FoundCache found) {
        sample.caches.push_back(view_of(*found.folder));
        return Status::ok();
    });
    if (!looked) return looked;
    return sample;
}

Result<Sample> show(const StatusRequest& request, const Sample* before, bool redraw) {
    auto now = take_sample(request, before == nullptr);
    if (!now) {
        fmt::print(stderr, "forebay status: {}\n", now.status().message());
        return now;
    }
    if (request.prometheus) {
        fmt::print("{}", status_as_metrics(now.value()));
    } else if (request.json) {
        const std::string nls = !request.nls.empty() ? request.nls : options_with({}).options.nls;
        fmt::print("{}\n",
                   status_as_json(nls, now.value(), before)
                       .dump(request.watch ? -1 : 2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    } else {
        const std::string text = status_as_text(now.value(), before, screen_of_stdout(redraw));
        fmt::print("{}", redraw ? frame_of(text) : text);
    }
    if (std::fflush(stdout) != 0) return Status::from_errno(errno, "write to standard output");
    return now;
}

// A timer that ticks every second, and the signals that end the watch, as descriptors.
class Ticks {
  public:
    Ticks() : timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)) {
        const itimerspec every_second{{1, 0}, {1, 0}};
        if (timer_ >= 0) ::timerfd_settime(timer_, 0, &every_second, nullptr);
        sigset_t signals;
        ::sigemptyset(&signals);
        for (const int number : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals, number);
        ::sigprocmask(SIG_BLOCK, &signals, nullptr);
        signals_ = ::signalfd(-1, &signals, SFD_CLOEXEC);
    }
    ~Ticks() {
        if (timer_ >= 0) ::close(timer_);
        if (signals_ >= 0) ::close(signals_);
    }
    Ticks(const Ticks&) = delete;
    Ticks& operator=(const Ticks&) = delete;
    [[nodiscard]] bool usable() const { return timer_ >= 0 && signals_ >= 0; }

    // False at a signal.
    [[nodiscard]] bool next() const {
        for (;;) {
            pollfd waiting[] = {{timer_, POLLIN, 0}, {signals_, POLLIN, 0}};
            if (::poll(waiting, 2, -1) < 0) {
                if (errno == EINTR) continue;
                return false;
            }
            if (waiting[1].revents != 0) return false;
            std::uint64_t expirations = 0;
            if (::read(timer_, &expirations, sizeof expirations) == static_cast<ssize_t>(sizeof expirations))
                return true;
        }
    }

  private:
    int timer_ = -1;
    int signals_ = -1;
};

int watch(const StatusRequest& request) {
    const Ticks ticks;
    if (!ticks.usable()) {
        fmt::print(stderr, "forebay status: {}\n", Status::from_errno(errno, "create a timer").message());
        return kExitProblem;
    }
    const char* const terminal = std::getenv("TERM");
    const bool dumb = terminal != nullptr && std::string_view(terminal) == "dumb";
    const bool redraw = !request.json && !dumb && ::isatty(STDOUT_FILENO) != 0;
    if (redraw) fmt::print("\033[2J");
    Result<Sample> before = show(request, nullptr, redraw);
    while (before && ticks.next()) {
        if (!redraw && !request.json) fmt::print("\n");
        before = show(request, &before.value(), redraw);
    }
    return before ? kExitFine : exit_status(before.status());
}

}   // namespace

void add_status(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("status", "Show staged and drained bytes, and the logs of dead processes");
    auto request = std::make_shared<StatusRequest>();
    command->add_flag(
        "-w,--watch", request->watch,
        "Update it every second, until interrupted; with TERM=dumb, or no terminal, print each report below the last");
    command->add_flag("--json", request->json, "Print JSON; with --watch one object per line");
    command->add_flag("--prometheus", request->prometheus, "Print metrics in the text format of Prometheus")
        ->excludes("--json")
        ->excludes("--watch");
    command->add_flag("--check", request->check, "Set the exit status (see below)")->excludes("--watch");
    command->add_flag("--all-users", request->all_users, "The processes of all users (root only)");
    command->add_option("WHAT", request->names,
                        "Files, or staging areas; default: all areas of this user on this node");
    command->add_option("--nls", request->nls, "Also search this staging area")->type_name("DIR");
    command->footer(
        exit_statuses({{"0", "shown"},
                       {"2", "the command line or an option is wrong, or a file or staging area does not exist"},
                       {"3", "a directory could not be read"}}) +
        "\nWith --check:\n" +
        "    0  the files have all staged bytes\n"
        "    1  a dead process left staged bytes, or a living one cannot write them\n"
        "    3  a directory could not be read, so staged bytes may be left\n"
        "    4  living processes still drain staged bytes\n");
    command->callback([request, &exit_status] {
        if (request->watch) {
            exit_status = watch(*request);
            return;
        }
        const auto shown = show(*request, nullptr, false);
        exit_status = !shown                    ? cli::exit_status(shown.status())
                      : request->check          ? check(shown.value())
                      : has_gaps(shown.value()) ? kExitUnknown
                                                : kExitFine;
    });
}

}   // namespace forebay::cli
