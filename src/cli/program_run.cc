#include "cli/program_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "area/run_record.h"
#include "base/clock.h"
#include "cli/exit_status.h"
#include "cli/program_witness.h"
#include "io/posix_file.h"

namespace forebay::cli {

namespace {

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

int exit_status_of(const RunSummary& summary) {
    if (summary.end.signal != 0) return kExitSignal + summary.end.signal;
    if (summary.end.exit_status != 0) return summary.end.exit_status;
    return not_drained(summary).empty() ? kExitFine : kExitNotDrained;
}

}   // namespace

void complain_of_run(std::string_view what) { fmt::print(stderr, "forebay run: {}\n", what); }

std::optional<PreparedRun> prepare_run(const std::vector<std::string>& settings, int& exit_status) {
    PreparedRun prepared;
    const Result<std::string> folder = plugin_folder();
    if (!folder) {
        complain_of_run(folder.status().message());
        exit_status = kExitProblem;
        return std::nullopt;
    }
    prepared.plugin_folder = folder.value();
    Result<Variables> variables = launch_variables(settings, folder.value());
    exit_status = kExitUsage;
    if (!variables) {
        complain_of_run(variables.status().message());
        return std::nullopt;
    }
    prepared.variables = std::move(variables).value();
    const LoadedOptions loaded = options_with(prepared.variables);
    for (const Status& problem : loaded.problems) complain_of_run(problem.message());
    if (!loaded.problems.empty()) return std::nullopt;
    exit_status = kExitFine;
    return prepared;
}

Result<RunSummary> run_staged(const PreparedRun& prepared, const std::vector<std::string>& program) {
    Variables variables = prepared.variables;
    const RunFile run_file(variables);
    ProgramWitness witness(prepared.plugin_folder);
    const std::uint64_t begin_ns = monotonic_ns();
    const Result<ChildEnd> end = run_child(program, environment_with(variables),
                                           [&witness](pid_t child) { witness.look(child); });
    if (!end) return end.status();

    RunSummary summary;
    summary.program = program;
    summary.end = end.value();
    summary.begin_ns = begin_ns;
    summary.elapsed_s = static_cast<double>(monotonic_ns() - begin_ns) / 1e9;
    Result<Statistics> statistics = run_file.read();
    if (statistics) {
        summary.statistics = std::move(statistics).value();
        summary.remarks = witness.remarks(program, summary.statistics.began);
    } else {
        summary.unknown = statistics.status().message();
    }
    summary.left_behind = left_behind(summary.statistics);
    summary.exit_status = exit_status_of(summary);
    return summary;
}

bool write_json(const std::string& path, const nlohmann::ordered_json& value) {
    const std::string text = value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
    if (path == "-") return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (file) return true;
    complain_of_run(Status::from_errno(errno, "write " + path).message());
    return false;
}

int start_failure(const Status& failure) {
    complain_of_run(failure.message());
    if (failure.code() == Code::kNotFound) return kExitNotFound;
    return kExitNotExecutable;
}

}   // namespace forebay::cli
