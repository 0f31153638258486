// `forebay run`: one program with forebay switched on, and a summary at its end.
#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <optional>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/compare.h"
#include "cli/program_run.h"

namespace forebay::cli {

namespace {

struct Request {
    std::shared_ptr<std::vector<std::string>> settings = std::make_shared<std::vector<std::string>>();
    std::vector<std::string> program;
    bool quiet = false;
    std::string json_path;
    bool compares = false;
    CompareRequest comparison;
};

int run(const Request& request) {
    int exit_status = kExitFine;
    const std::optional<PreparedRun> prepared = prepare_run(*request.settings, exit_status);
    if (!prepared) return exit_status;
    if (request.compares) {
        CompareRequest comparison = request.comparison;
        comparison.json_path = request.json_path;
        return run_compared(*prepared, request.program, comparison);
    }
    Result<RunSummary> done = run_staged(*prepared, request.program);
    if (!done) return start_failure(done.status());
    RunSummary& summary = done.value();
    if (!request.json_path.empty() && !write_json(request.json_path, as_json(summary)) &&
        summary.exit_status == kExitFine)
        summary.exit_status = kExitProblem;
    // What was lost is told even to those who asked for quiet.
    if (!request.quiet || !not_drained(summary).empty()) fmt::print(stderr, "{}", as_text(summary));
    return summary.exit_status;
}

}   // namespace

void add_run(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("run",
                                           "Run a program with forebay switched on: forebay run -- PROGRAM ARGUMENTS");
    command->footer(exit_statuses({{"0", "the program returned 0, and all that was staged is in the files"},
                                   {"N", "the program's own exit status"},
                                   {"128+N", "signal N ended the program"},
                                   {"74", "the program returned 0, but staged bytes did not reach their file"},
                                   {"1", "--compare: results differ, or the program wrote elsewhere"},
                                   {"2", "the command line or an option is wrong"},
                                   {"126", "the program cannot be executed"},
                                   {"127", "there is no such program"}}));
    command->positionals_at_end();   // from the program's name on, every argument is the program's
    auto request = std::make_shared<Request>();
    command
        ->add_option("-o,--option", *request->settings, "Set an option; may be repeated (forebay options lists them)")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    add_nls_option(*command, request->settings);
    command->add_flag("-q,--quiet", request->quiet, "No summary, unless bytes were not drained");
    command->add_option("--json", request->json_path, "Write the summary to this file as JSON; - is standard output")
        ->type_name("FILE");
    CLI::Option* compares = command->add_flag(
        "--compare", request->compares,
        "Run the program natively, too, each time in a fresh copy of its folder, and compare times and results");
    command
        ->add_option("--folder", request->comparison.folder,
                     "The folder that the program works in and writes to; default: the working directory")
        ->type_name("DIR")
        ->needs(compares);
    command->add_option("--copies", request->comparison.copies, "Where the copies are made; default: beside the folder")
        ->type_name("DIR")
        ->needs(compares);
    command->add_option("--runs", request->comparison.runs, "Runs of each kind, by turns; default: 1")
        ->type_name("N")
        ->check(CLI::Range(1U, 1000U))
        ->needs(compares);
    command->add_flag("--keep", request->comparison.keep, "The copies stay")->needs(compares);
    command->add_option("PROGRAM", request->program, "The program and its arguments; -- may stand before it")
        ->required();
    command->callback([request, &exit_status] { exit_status = run(*request); });
}

}   // namespace forebay::cli
