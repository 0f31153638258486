// `forebay discard`: deletes staged bytes that only the logs of dead processes hold.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>

#include "cli/acting_as.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/recover_view.h"
#include "cli/staging_areas.h"

namespace forebay::cli {

namespace {

struct DiscardRequest {
    std::vector<std::string> names;
    std::string nls;
    bool yes = false, json = false;
};

int complain_of_discard(const Status& status) {
    fmt::print(stderr, "forebay discard: {}\n", status.message());
    return exit_status(status);
}

bool confirmed() {
    fmt::print("Discard? Bytes that only the log holds are lost for good. [y/N]  ");
    (void)std::fflush(stdout);
    std::string answer;
    std::getline(std::cin, answer);
    return answer == "y" || answer == "Y" || answer == "yes";
}

Result<recover::Report> discard_all(const Survey& asked, const recover::Discarded& what,
                                    const recover::Outside& outside) {
    recover::Report all;
    for (const UserAreas& user : asked.users) {
        const auto acting = ActingAs::user(user.user);
        if (!acting) return acting.status();
        const auto areas = user.open_areas();
        if (areas.empty()) continue;
        auto report = recover::discard(areas, what, outside);
        if (!report) return report.status();
        append(all, std::move(report).value());
    }
    return all;
}

int discard(const DiscardRequest& request) {
    const auto asked = survey({request.names, request.nls});
    if (!asked) return complain_of_discard(asked.status());
    const Survey& where = asked.value();
    const auto outside = recover::Outside::real();
    if (!outside) return complain_of_discard(outside.status());
    recover::Discarded what{where.files, where.directories, where.missing, !request.yes};
    what.patience = kPatience;
    if (what.files.empty() && what.directories.empty() && what.paths.empty() && where.unseen.empty()) {
        fmt::print(stderr, "forebay discard: name files or process directories, not a whole staging area\n");
        return kExitUsage;
    }
    auto report = discard_all(where, what, outside.value());
    if (!report) return complain_of_discard(report.status());
    if (const std::string missing = unknown_file(where, report.value()); !missing.empty())
        return complain_of_discard(no_such_file(missing));
    const bool any = std::any_of(report.value().files.begin(), report.value().files.end(),
                                 [](const recover::FileReport& file) {
                                     return file.outcome == recover::Outcome::kDiscarded;
                                 });
    if (what.dry_run && (any || !report.value().removed.empty())) {
        if (request.json || ::isatty(STDIN_FILENO) == 0) {
            fmt::print(stderr,
                       "forebay discard: give --yes: without a terminal, or with --json, the command cannot ask\n");
            return kExitUsage;
        }
        print_report(where, report.value(), true, false);
        if (!confirmed()) return kExitProblem;
        what.dry_run = false;
        report = discard_all(where, what, outside.value());
        if (!report) return complain_of_discard(report.status());
    }
    print_report(where, report.value(), false, request.json);
    return exit_status(report.value().all_well(), where.unseen);
}

}   // namespace

void add_discard(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("discard", "Discard the bytes that only the logs of dead processes hold");
    auto request = std::make_shared<DiscardRequest>();
    command->add_option("WHAT", request->names, "Files, or process directories in a staging area")->required();
    command->add_option("--nls", request->nls, "Also search this staging area")->type_name("DIR");
    command->add_flag("-y,--yes", request->yes, "Do not ask");
    command->add_flag("--json", request->json, "Print the report as JSON");
    command->footer(
        exit_statuses({{"0", "done, or there was nothing to do"},
                       {"1", "a file was left alone; the report says why"},
                       {"2", "the command line or an option is wrong, or a file or staging area does not exist"},
                       {"3", "a directory could not be read, so logs may be left"}}));
    command->callback([request, &exit_status] { exit_status = discard(*request); });
}

}   // namespace forebay::cli
