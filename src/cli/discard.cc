// `forebay discard`: giving up what only the logs of dead processes hold.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/recover_view.h"
#include "cli/staging_areas.h"

namespace forebay::cli {

namespace {

struct Request {
    std::vector<std::string> names;
    std::string nls;
    bool yes = false, json = false;
};

int complain(const Status& status) {
    fmt::print(stderr, "forebay discard: {}\n", status.message());
    return kExitProblem;
}

bool confirmed() {
    fmt::print("Discard? What only the log holds is lost for good. [y/N] ");
    (void)std::fflush(stdout);
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "Y" || answer == "yes";
}

int run(const Request& request) {
    const auto selected = select(request.names, request.nls);
    if (!selected) return complain(selected.status());
    const Selection& selection = selected.value();
    const auto outside = recover::Outside::real();
    if (!outside) return complain(outside.status());
    recover::Discarded what{selection.files, selection.directories, selection.missing, !request.yes};
    what.patience = kPatience;
    if (what.files.empty() && what.directories.empty() && what.paths.empty()) {
        fmt::print(stderr, "forebay discard: name files or process directories, not a whole staging area\n");
        return kExitUsage;
    }
    const auto areas = selection.open_areas();
    auto report = recover::discard(areas, what, outside.value());
    if (!report) return complain(report.status());
    if (what.dry_run && (!report.value().files.empty() || !report.value().removed.empty())) {
        if (request.json || ::isatty(STDIN_FILENO) == 0) {
            fmt::print(stderr, "forebay discard: nobody to ask; with --yes it is done without asking\n");
            return kExitUsage;
        }
        fmt::print("{}", report_as_text(selection.nls, report.value(), true));
        if (!confirmed()) return kExitProblem;
        what.dry_run = false;
        report = recover::discard(areas, what, outside.value());
        if (!report) return complain(report.status());
    }
    if (request.json)
        fmt::print("{}\n", report_as_json(selection.nls, report.value(), false).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    else
        fmt::print("{}", report_as_text(selection.nls, report.value(), false));
    return report.value().all_well() ? kExitFine : kExitProblem;
}

}   // namespace

void add_discard(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("discard", "Give up what only the logs of dead processes hold");
    auto request = std::make_shared<Request>();
    command->add_option("what", request->names, "Files, or process directories in a staging area")->required();
    command->add_option("--nls", request->nls, "The staging area to look in for files");
    command->add_flag("-y,--yes", request->yes, "Do not ask");
    command->add_flag("--json", request->json, "The report as JSON");
    command->footer("\nExit status: 0 done, or nothing there; 1 something was left alone; 2 the command line is wrong.\n");
    command->callback([request, &exit_status] { exit_status = run(*request); });
}

}   // namespace forebay::cli
