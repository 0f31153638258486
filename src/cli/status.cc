// `forebay status`: what is staged, what has reached the files, and what was left behind.
#include <fmt/format.h>
#include <langinfo.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/status_view.h"

namespace forebay::cli {

namespace {

struct Request {
    bool watch = false;
    bool json = false;
    std::string nls;
};

Screen screen_of_stdout() {
    Screen screen;
    if (::isatty(STDOUT_FILENO) == 0) return screen;
    winsize size{};
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) screen.columns = size.ws_col;
    std::setlocale(LC_CTYPE, "");
    screen.utf8 = std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0;
    return screen;
}

// Drawn over the frame before: from the top, each line erased behind its end, and what is below. No flicker.
std::string frame_of(const std::string& text) {
    std::string frame = "\033[H";
    for (const char c : text) {
        if (c == '\n') frame += "\033[K";
        frame += c;
    }
    return frame + "\033[J";
}

// One look at the ledgers, shown. The sample is what the next one is compared with.
std::optional<Sample> show(const Request& request, const Sample* before, bool redraw) {
    auto scan = log::scan_ledgers(request.nls);
    if (!scan) {
        fmt::print(stderr, "forebay status: {}\n", scan.status().message());
        return std::nullopt;
    }
    Sample now{std::move(scan).value(), realtime_ns()};
    if (request.json)
        fmt::print("{}\n",
                   status_as_json(request.nls, now, before)
                       .dump(request.watch ? -1 : 2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    else {
        const std::string text = status_as_text(request.nls, now, before, screen_of_stdout());
        fmt::print("{}", redraw ? frame_of(text) : text);
    }
    if (std::fflush(stdout) != 0) return std::nullopt;
    return now;
}

// A timer that ticks every second, and the signals that end the watch, as descriptors to wait on.
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

    // True at the next tick, false when a signal asks to end.
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

int watch(const Request& request) {
    const Ticks ticks;
    if (!ticks.usable()) {
        fmt::print(stderr, "forebay status: {}\n", Status::from_errno(errno, "create a timer").message());
        return kExitProblem;
    }
    const bool redraw = !request.json && ::isatty(STDOUT_FILENO) != 0;
    if (redraw) fmt::print("\033[2J");
    std::optional<Sample> before = show(request, nullptr, redraw);
    while (before && ticks.next()) {
        if (!redraw && !request.json) fmt::print("\n");
        before = show(request, &*before, redraw);
    }
    return before ? kExitFine : kExitProblem;
}

}   // namespace

void add_status(CLI::App& app, int& exit_status) {
    CLI::App* command =
        app.add_subcommand("status", "What is staged, what is drained, and what died processes left behind");
    auto request = std::make_shared<Request>();
    command->add_flag("-w,--watch", request->watch, "Show it again every second, until interrupted");
    command->add_flag("--json", request->json, "As JSON; with --watch one object per line");
    command->add_option("nls,--nls", request->nls, "The staging area; default: the one in effect here");
    command->callback([request, &exit_status] {
        if (request->nls.empty()) request->nls = options_with({}).options.nls;
        if (request->watch)
            exit_status = watch(*request);
        else
            exit_status = show(*request, nullptr, false) ? kExitFine : kExitProblem;
    });
}

}   // namespace forebay::cli
