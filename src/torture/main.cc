// The program behind `forebay torture`: kills programs, makes their calls fail, and checks their files.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <exception>
#include <map>
#include <utility>

#include "base/clock.h"
#include "base/options.h"
#include "cli/build_facts.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"
#include "cli/launch.h"
#include "torture/campaign.h"
#include "torture/cutting_proxy.h"
#include "torture/server_client.h"
#include "torture/victim.h"
#include "torture/view.h"

namespace forebay::torture {

namespace {

struct Request {
    double minutes = 1;
    std::string nls, target = ".", log;
    std::uint64_t seed = 0;
    bool json = false;
    std::vector<std::string> settings;
    std::string spoil = "nothing", only;
    bool server = false;
    double patience_s = static_cast<double>(kHangNs) / 1e9;
};

// Not for people: they show that torture notices.
const std::map<std::string, Spoil> kSpoils{{"nothing", Spoil::kNothing},
                                           {"byte", Spoil::kByte},
                                           {"loss", Spoil::kLoss},
                                           {"silence", Spoil::kSilence},
                                           {"hang", Spoil::kHang}};

constexpr const char* kFooter =
    "A process of forebay writes to a file in a new folder of --target, with a staging area in a new folder of "
    "--nls, and "
    "is killed. Then the file must be at the last commit that the process reported, or at one that was under way. In "
    "other campaigns, calls on the file or on the staging area fail (EIO, ENOSPC, EDQUOT, ESTALE, short writes). The "
    "process must report these failures, and every byte must be in the file, or be recovered from the log.\n"
    "With --server, a staging server and its clients take the place of that process. Connections are reset; both "
    "sides are killed, started again and stopped for a while. The next client must find the complete last flush, and "
    "so must a reader beside it.\n"
    "The folders are removed, unless a fault was found. docs/recovery.md says what a run shows, and what not.\n\n";

int complain(const Status& status, int exit_status) {
    fmt::print(stderr, "forebay torture: {}\n", status.message());
    return exit_status;
}

// Checks what the command line parser does not. Sets the bytes that --log names; 0: none.
Status check(const Request& request, std::uint64_t& log_bytes) {
    if (!request.log.empty()) {
        const auto parsed = parse_size(request.log);
        if (!parsed || parsed.value() == 0)
            return {Code::kInvalidArgument, fmt::format("--log {}: not a size such as 1GiB", request.log)};
        log_bytes = parsed.value();
    }
    if (!(request.minutes > 0) || request.minutes > 1e5) return {Code::kInvalidArgument, "--minutes: a number above 0"};
    for (const std::string& setting : request.settings) FOREBAY_TRY(check_setting(setting));
    return Status::ok();
}

// At most ten times a second, on a terminal.
class ProgressLine {
  public:
    explicit ProgressLine(std::uint64_t duration_ns) : duration_ns_(duration_ns) {}
    void draw(std::span<const Campaign> campaigns, std::size_t at) {
        const std::uint64_t now = monotonic_ns();
        if (!terminal_ || now - drawn_ns_ < 100'000'000) return;
        drawn_ns_ = now;
        draw_progress(campaigns, at, static_cast<double>(now - begin_ns_) / static_cast<double>(duration_ns_));
    }
    void wipe() const {
        if (terminal_) fmt::print(stderr, "\r\033[K");
    }
    [[nodiscard]] double seconds() const { return static_cast<double>(monotonic_ns() - begin_ns_) / 1e9; }

  private:
    const std::uint64_t duration_ns_, begin_ns_ = monotonic_ns();
    const bool terminal_ = ::isatty(STDERR_FILENO) != 0;
    std::uint64_t drawn_ns_ = 0;
};

int run(Request request) {
    std::string nls_origin = "--nls";
    if (request.nls.empty()) {
        const LoadedOptions loaded = cli::options_with({});
        request.nls = loaded.options.nls;
        nls_origin = fmt::format("option nls ({})", loaded.origin_of("nls"));
    }
    std::uint64_t log_bytes = 0;
    if (const Status checked = check(request, log_bytes); !checked) return complain(checked, cli::kExitUsage);
    if (request.seed == 0) request.seed = realtime_ns();
    Ground ground;
    if (const Status opened = ground.open(request.nls, nls_origin, request.target); !opened)
        return complain(opened, cli::kExitUsage);

    const TortureOrder order{.seed = request.seed,
                             .duration_ns = static_cast<std::uint64_t>(request.minutes * 60e9),
                             .settings = request.settings,
                             .hang_ns = static_cast<std::uint64_t>(request.patience_s * 1e9),
                             .spoil = kSpoils.at(request.spoil),
                             .server = request.server,
                             .only = request.only};
    ProgressLine line(order.duration_ns);
    Torture torture(ground, order,
                    [&](std::span<const Campaign> campaigns, std::size_t at) { line.draw(campaigns, at); });
    auto campaigns = torture.run();
    line.wipe();
    if (!campaigns) return complain(campaigns.status(), cli::kExitProblem);
    Torment torment{.nls = request.nls,
                    .target = request.target,
                    .seed = request.seed,
                    .settings = request.settings,
                    .campaigns = std::move(campaigns).value()};
    for (const Campaign& campaign : torment.campaigns)
        if (campaign.bad() > 0) torment.kept = ground.nls() + " and " + ground.folder();
    Status unmeasured;
    if (log_bytes > 0 && torment.kept.empty() && !torture.interrupted()) {
        const auto speed = measure_recovery(ground, log_bytes, request.settings);
        if (speed) torment.speed = speed.value();
        else if (!torture.interrupted()) unmeasured = speed.status();
    }
    torment.seconds = line.seconds();
    torment.interrupted = torture.interrupted();
    if (request.json)
        fmt::print("{}\n", as_json(torment).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    else fmt::print("{}", as_text(torment));
    if (torment.interrupted) return cli::kExitSignal + ground.signals.asked();
    if (!unmeasured) return complain(unmeasured, cli::kExitProblem);
    return torment.well() ? cli::kExitFine : cli::kExitProblem;
}

int run_command_line(int argc, char** argv) {
    CLI::App app{"Kill programs on this storage, make their calls fail, and check their files after each recovery",
                 "forebay torture"};
    cli::set_up_help(app);
    int exit_status = cli::kExitFine;
    Request request;
    app.add_option("--minutes", request.minutes, "Approximate duration")->type_name("N")->capture_default_str();
    app.add_option("--nls", request.nls, "The staging directory; default: that of option nls")->type_name("DIR");
    app.add_option("--target", request.target, "A directory for the files, on the file system that programs write to")
        ->type_name("DIR")
        ->capture_default_str();
    app.add_option("--log", request.log, "Also measure the recovery of a log of this size, such as 1GiB")
        ->type_name("SIZE");
    app.add_option("--seed", request.seed, "Repeat the operations of the run with this seed, at other times")
        ->type_name("N");
    app.add_option("-o,--option", request.settings,
                   "Set an option of the writing process, such as durability=node; may be repeated")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    app.add_flag("--server", request.server,
                 "Test clients that write through a staging server: cut connections, kill and stop both sides");
    app.add_option("--only", request.only)->group("");
    app.add_option("--spoil", request.spoil)->check(CLI::IsMember(kSpoils))->group("");
    app.add_option("--patience", request.patience_s)->check(CLI::Range(0.1, 3600.0))->group("");
    app.add_flag("--json", request.json, "Print the table as JSON");
    app.footer(kFooter +
               cli::exit_statuses({{"0", "no byte was lost or wrong, no process hung, and each failure was reported"},
                                   {"1", "a fault was found, or the test could not run"},
                                   {"2", "the command line or a directory is wrong"},
                                   {"128+N", "signal N ended it"}}));
    app.set_version_flag("-V,--version", std::string(cli::kVersion));
    add_victim(app, exit_status);
    add_server_clients(app, exit_status);
    add_cutting_proxy(app, exit_status);
    if (const int parsed = cli::parse_command_line(app, argc, argv); parsed != cli::kExitFine) return parsed;
    // Help or the version was all that was asked for.
    if (app.get_help_ptr()->count() + app.get_version_ptr()->count() > 0) return cli::kExitFine;
    return app.get_subcommands().empty() ? run(std::move(request)) : exit_status;
}

}   // namespace

}   // namespace forebay::torture

int main(int argc, char** argv) {
    try {
        return forebay::torture::run_command_line(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "forebay torture: internal error: %s\n", error.what());
        return forebay::cli::kExitInternal;
    }
}
