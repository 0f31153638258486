// `forebay run`: runs one program with forebay switched on, and prints a summary at its end.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>

#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/compare.h"
#include "cli/program_run.h"
#include "cli/report.h"

namespace forebay::cli {

namespace {

struct RunRequest {
    std::shared_ptr<std::vector<std::string>> settings = std::make_shared<std::vector<std::string>>();
    std::vector<std::string> program;
    bool quiet = false;
    std::string json_path;
    std::string report;   // folder
    bool compares = false;
    CompareRequest comparison;
};

bool tell_report(const std::string& folder, const PreparedRun& prepared, const RunSummary& summary) {
    const LoadedOptions loaded = options_with(prepared.variables);
    const auto events = read_trace(loaded.options.trace, summary.begin_ns);
    const Status written = events ? write_report(folder, report_of(summary, events.value(), loaded.options))
                                  : events.status();
    if (!written) complain_of_run(written.message());
    return static_cast<bool>(written);
}

std::optional<PreparedRun> prepare_request(const RunRequest& request, int& exit_status) {
    std::optional<PreparedRun> prepared = prepare_run(*request.settings, exit_status);
    if (!prepared || !request.compares || !options_with(prepared->variables).options.lingers()) return prepared;
    // The files are compared when the program has ended, and another process would still drain.
    std::vector<std::string> settings = *request.settings;
    std::erase_if(settings, [](const std::string& setting) { return setting.starts_with("close="); });
    settings.emplace_back("close=deferred");
    complain_of_run("--compare: close=deferred, in the place of linger, so that the files are complete");
    return prepare_run(settings, exit_status);
}

int run_program(const RunRequest& request) {
    int exit_status = kExitFine;
    std::optional<PreparedRun> prepared = prepare_request(request, exit_status);
    if (!prepared) return exit_status;
    bool made = false;
    if (!request.json_path.empty()) {
        const Result<bool> writable = check_writable(request.json_path);
        if (!writable) {
            complain_of_run(fmt::format("--json: {}", writable.status().message()));
            return kExitUsage;
        }
        made = writable.value();
    }
    // A refused run leaves no empty file.
    const auto remove_unused = [&] {
        std::error_code error;
        if (made && std::filesystem::file_size(request.json_path, error) == 0 && !error)
            ::unlink(request.json_path.c_str());
    };
    if (!request.report.empty()) {
        const Result<std::string> trace = prepare_report(request.report);
        if (!trace) {
            complain_of_run(fmt::format("--report: {}", trace.status().message()));
            remove_unused();
            return kExitUsage;
        }
        prepared->variables[option_variable("trace")] = trace.value();
    }
    if (request.compares) {
        CompareRequest comparison = request.comparison;
        comparison.json_path = request.json_path;
        const int status = run_compared(*prepared, request.program, comparison);
        remove_unused();
        return status;
    }
    Result<RunSummary> done = run_staged(*prepared, request.program);
    if (!done) {
        remove_unused();
        return start_failure(done.status());
    }
    RunSummary& summary = done.value();
    const bool reported = !request.report.empty() && tell_report(request.report, *prepared, summary);
    if (!request.report.empty() && !reported && summary.exit_status == kExitFine) summary.exit_status = kExitProblem;
    if (!request.json_path.empty() && !write_json(request.json_path, as_json(summary)) &&
        summary.exit_status == kExitFine)
        summary.exit_status = kExitProblem;
    // Lost bytes, and unknown ones, are reported even with --quiet.
    std::string text;
    if (!request.quiet || !not_drained(summary).empty() || !knows_all_logs(summary)) text = as_text(summary);
    if (!request.quiet && reported) text += fmt::format("forebay: report: {}\n", page_of_report(request.report));
    (void)std::fputs(text.c_str(), stderr);   // the exit status stays the program's, even if this fails
    return summary.exit_status;
}

}   // namespace

void add_run(CLI::App& app, int& exit_status) {
    CLI::App* command = app.add_subcommand("run", "Run a program with forebay: forebay run -- PROGRAM ARGUMENTS");
    command->footer(exit_statuses({{"0",
                                    "the program returned 0, and all staged bytes are in the files; with close=linger "
                                    "another process may still drain them"},
                                   {"N", "the program's own exit status"},
                                   {"128+N", "signal N ended the program"},
                                   {"74", "the program returned 0, but some staged bytes are not in their file"},
                                   {"3", "the program returned 0, but some logs are unknown, for the reason given"},
                                   {"1", "report or JSON not written, or --compare failed or found a difference"},
                                   {"2", "the command line or an option is wrong"},
                                   {"126", "the program cannot be executed"},
                                   {"127", "the program does not exist"}}));
    command->positionals_at_end();   // from the program's name on, every argument is the program's
    auto request = std::make_shared<RunRequest>();
    command
        ->add_option("-o,--option", *request->settings, "Set an option; may be repeated (forebay options lists them)")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    add_nls_option(*command, request->settings);
    command->get_option("--nls")->check(
        [](const std::string& folder) { return check_named_area({"nls=" + folder}).message(); }, "");
    command->add_flag("-q,--quiet", request->quiet,
                      "No summary, unless staged bytes are not, or may not be, in their file");
    command->add_option("--json", request->json_path, "Write the summary to this file as JSON; - is standard output")
        ->type_name("FILE");
    CLI::Option* report = command->add_option(
        "--report", request->report, "Write a page about the run (report.html) and its figures to this folder");
    report->type_name("DIR");
    CLI::Option* compares = command->add_flag(
        "--compare", request->compares,
        "Also run the program natively, each time in a fresh copy of its folder, and compare times and results");
    report->excludes(compares);
    command
        ->add_option("--folder", request->comparison.folder,
                     "The folder that the program works in and writes to; default: the working directory")
        ->type_name("DIR")
        ->needs(compares);
    command->add_option("--copies", request->comparison.copies, "Folder for the copies; default: beside the original")
        ->type_name("DIR")
        ->needs(compares);
    command->add_option("--runs", request->comparison.runs, "Number of runs of each kind, 1 to 1000; default: 1")
        ->type_name("N")
        ->check(CLI::Range(1U, 1000U).description(""))
        ->needs(compares);
    command->add_flag("--keep", request->comparison.keep, "Keep the copies")->needs(compares);
    command->add_option("PROGRAM", request->program, "The program and its arguments; -- may stand before it")
        ->required();
    command->callback([request, &exit_status] { exit_status = run_program(*request); });
}

}   // namespace forebay::cli
