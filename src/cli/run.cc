// `forebay run`: one program with forebay switched on, and a summary at its end.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "area/run_record.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/program_witness.h"
#include "cli/run_summary.h"
#include "io/posix_file.h"

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;

struct Request {
    std::shared_ptr<std::vector<std::string>> settings = std::make_shared<std::vector<std::string>>();
    std::vector<std::string> program;
    bool quiet = false;
    std::string json_path;
};

void complain(std::string_view what) { fmt::print(stderr, "forebay run: {}\n", what); }

// What the program, and all that it starts, tells this process (area/run_record.h). It goes away with this object.
class RunFile {
  public:
    explicit RunFile(Variables& variables) {
        const char* folder = std::getenv("TMPDIR");
        // A colon separates the files of a run in a run.
        const bool usable = folder != nullptr && *folder == '/' &&
                            std::string_view(folder).find(':') == std::string_view::npos;
        std::string name = fmt::format("{}/forebay-run-XXXXXX", usable ? folder : "/tmp");
        const int descriptor = ::mkstemp(name.data());
        if (descriptor < 0) {
            why_not_ = Status::from_errno(errno, "create " + name);
            return;
        }
        ::close(descriptor);
        path_ = name;
        const char* outer = std::getenv(area::kRunVariable);
        variables[area::kRunVariable] = outer != nullptr && *outer != '\0' ? fmt::format("{}:{}", outer, path_) : path_;
        if (options_with(variables).options.stats.empty()) variables[option_variable("stats")] = path_;
    }
    ~RunFile() {
        if (!path_.empty()) ::unlink(path_.c_str());
    }
    RunFile(const RunFile&) = delete;
    RunFile& operator=(const RunFile&) = delete;

    // An error: it is not known what the program did.
    [[nodiscard]] Result<Statistics> read() const {
        if (path_.empty()) return why_not_;
        return read_statistics(path_, 0);
    }

  private:
    std::string path_;
    Status why_not_;
};

// Processes of the program that are gone, and had not closed all their files. What they counted is in their ledger
// only.
std::vector<ledger::ProcessView> left_behind(const Statistics& statistics) {
    std::vector<ledger::ProcessView> result;
    for (const std::string& path : statistics.directories) {
        const auto directory = io::open_posix_directory(path);
        if (!directory) continue;   // it has ended well
        auto view = ledger::read_ledger(*directory.value());
        if (view && !view.value().alive) result.push_back(std::move(view).value());
    }
    return result;
}

bool write_json(const std::string& path, const RunSummary& summary) {
    const std::string text = as_json(summary).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                             "\n";
    if (path == "-") return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (file) return true;
    complain(Status::from_errno(errno, "write " + path).message());
    return false;
}

int exit_status_of(const RunSummary& summary) {
    if (summary.end.signal != 0) return kExitSignal + summary.end.signal;
    if (summary.end.exit_status != 0) return summary.end.exit_status;
    return not_drained(summary).empty() ? kExitFine : kExitNotDrained;
}

int start_failure(const Status& failure) {
    complain(failure.message());
    if (failure.code() == Code::kNotFound) return kExitNotFound;
    return kExitNotExecutable;
}

int run(const Request& request) {
    const Result<std::string> folder = plugin_folder();
    if (!folder) {
        complain(folder.status().message());
        return kExitProblem;
    }
    Result<Variables> variables = launch_variables(*request.settings, folder.value());
    if (!variables) {
        complain(variables.status().message());
        return kExitUsage;
    }
    const RunFile run_file(variables.value());
    const LoadedOptions loaded = options_with(variables.value());
    for (const Status& problem : loaded.problems) complain(problem.message());
    if (!loaded.problems.empty()) return kExitUsage;

    ProgramWitness witness(folder.value());
    const auto begin = std::chrono::steady_clock::now();
    const Result<ChildEnd> end = run_child(request.program, environment_with(variables.value()),
                                           [&witness](pid_t child) { witness.look(child); });
    if (!end) return start_failure(end.status());

    RunSummary summary;
    summary.program = request.program;
    summary.end = end.value();
    summary.elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    Result<Statistics> statistics = run_file.read();
    if (statistics) {
        summary.statistics = std::move(statistics).value();
        summary.remarks = witness.remarks(request.program, summary.statistics.began);
    } else {
        summary.unknown = statistics.status().message();
    }
    summary.left_behind = left_behind(summary.statistics);
    summary.exit_status = exit_status_of(summary);
    if (!request.json_path.empty() && !write_json(request.json_path, summary) && summary.exit_status == kExitFine)
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
    command->add_option("PROGRAM", request->program, "The program and its arguments; -- may stand before it")
        ->required();
    command->callback([request, &exit_status] { exit_status = run(*request); });
}

}   // namespace forebay::cli
