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
#include <set>

#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/run_summary.h"

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kFooter =
    "\nExit status: the program's own; 128 plus the signal's number if a signal ended it;\n"
    "74 if the program returned 0 but staged bytes did not reach their file;\n"
    "2 wrong command line or option; 126 the program cannot be executed; 127 there is no such program.\n";

struct Request {
    std::vector<std::string> settings;
    std::vector<std::string> program;
    bool quiet = false;
    std::string json_path;
};

void complain(std::string_view what) { fmt::print(stderr, "forebay run: {}\n", what); }

// Where the engine writes its statistics: the user's own file from where it ended, or one that goes away.
class StatisticsFile {
  public:
    explicit StatisticsFile(Variables& variables) {
        path_ = options_with(variables).options.stats;
        if (!path_.empty()) {
            std::error_code missing;
            const std::uintmax_t size = fs::file_size(path_, missing);
            if (!missing) offset_ = size;
            return;
        }
        const char* folder = std::getenv("TMPDIR");
        std::string name =
            fmt::format("{}/forebay-run-XXXXXX", folder != nullptr && *folder == '/' ? folder : "/tmp");
        const int descriptor = ::mkstemp(name.data());
        if (descriptor < 0) {
            complain(
                fmt::format("there will be no summary: {}", Status::from_errno(errno, "create " + name).message()));
            return;
        }
        ::close(descriptor);
        is_temporary_ = true;
        path_ = name;
        variables[option_variable("stats")] = path_;
    }
    ~StatisticsFile() {
        if (is_temporary_) ::unlink(path_.c_str());
    }
    StatisticsFile(const StatisticsFile&) = delete;
    StatisticsFile& operator=(const StatisticsFile&) = delete;

    [[nodiscard]] Result<Statistics> read() const {
        return path_.empty() ? Statistics{} : read_statistics(path_, offset_);
    }

  private:
    std::string path_;
    std::uint64_t offset_ = 0;
    bool is_temporary_ = false;
};

std::vector<log::ProcessView> ledgers(const std::string& nls) {
    auto scan = log::scan_ledgers(nls);
    return scan ? std::move(scan).value().processes : std::vector<log::ProcessView>{};
}

// Processes that were not there before the run, are gone, and did not drain.
std::vector<log::ProcessView> left_behind(const std::string& nls, const std::set<std::string>& before) {
    std::vector<log::ProcessView> result;
    for (log::ProcessView& process : ledgers(nls)) {
        const bool holds_bytes = std::any_of(process.files.begin(), process.files.end(),
                                             [](const log::FileCounters& file) { return file.pending > 0; });
        if (!process.alive && holds_bytes && !before.contains(process.directory))
            result.push_back(std::move(process));
    }
    return result;
}

bool write_json(const std::string& path, const RunSummary& summary) {
    const std::string text =
        as_json(summary).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
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
    Result<Variables> variables = launch_variables(request.settings, folder.value());
    if (!variables) {
        complain(variables.status().message());
        return kExitUsage;
    }
    const StatisticsFile statistics_file(variables.value());
    const LoadedOptions loaded = options_with(variables.value());
    for (const Status& problem : loaded.problems) complain(problem.message());

    std::set<std::string> before;
    for (const log::ProcessView& process : ledgers(loaded.options.nls)) before.insert(process.directory);
    const auto begin = std::chrono::steady_clock::now();
    const Result<ChildEnd> end = run_child(request.program, environment_with(variables.value()));
    if (!end) return start_failure(end.status());

    RunSummary summary;
    summary.program = request.program;
    summary.end = end.value();
    summary.elapsed_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    Result<Statistics> statistics = statistics_file.read();
    if (statistics)
        summary.statistics = std::move(statistics).value();
    else
        complain(statistics.status().message());
    summary.left_behind = left_behind(loaded.options.nls, before);
    summary.exit_status = exit_status_of(summary);
    if (!request.json_path.empty() && !write_json(request.json_path, summary) && summary.exit_status == kExitFine)
        summary.exit_status = kExitProblem;
    // What was lost is told even to those who asked for quiet.
    if (!request.quiet || !not_drained(summary).empty()) fmt::print(stderr, "{}", as_text(summary));
    return summary.exit_status;
}

}   // namespace

void add_run(CLI::App& app, int& exit_status) {
    CLI::App* command =
        app.add_subcommand("run", "Run a program with forebay switched on: forebay run -- PROGRAM ARGUMENTS");
    command->footer(kFooter);
    command->positionals_at_end();   // from the program's name on, every argument is the program's
    auto request = std::make_shared<Request>();
    command
        ->add_option("-o,--option", request->settings,
                     "Set an option, key=value; may be repeated (forebay options lists them)")
        ->allow_extra_args(false);
    command->add_flag("-q,--quiet", request->quiet, "No summary, unless bytes were not drained");
    command->add_option("--json", request->json_path,
                        "Write the summary to this file as JSON; - is standard output");
    command->add_option("PROGRAM", request->program, "The program and its arguments; -- may stand before it")
        ->required();
    command->callback([request, &exit_status] { exit_status = run(*request); });
}

}   // namespace forebay::cli
