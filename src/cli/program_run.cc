#include "cli/program_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>

#include "base/clock.h"
#include "cli/exit_status.h"
#include "cli/program_witness.h"
#include "cli/run_folder.h"
#include "io/append.h"
#include "io/posix_file.h"

namespace forebay::cli {

namespace {

// Processes of the program that died before they closed all files. Their counters are only in their ledgers.
std::vector<ledger::ProcessView> left_behind(Statistics& statistics) {
    std::vector<ledger::ProcessView> result;
    for (ProcessDirectory& one : statistics.directories) {
        const auto directory = io::open_posix_directory(one.path);
        auto view = directory ? ledger::read_ledger(*directory.value())
                              : Result<ledger::ProcessView>(directory.status());
        if (view && !view.value().alive) result.push_back(std::move(view).value());
        // A clean end removes the directory.
        if (!view && view.status().code() != Code::kNotFound) one.unread = view.status().message();
    }
    return result;
}

// Appends a line to the user's statistics file for each process that could not write its own.
void tell_of_ended(const std::string& stats, const Statistics& statistics) {
    for (const ProcessStatistics& process : statistics.processes)
        if (!process.ended_itself && !process.runs && !stats.empty())
            (void)io::append_line(stats, line_of_ended(process));
}

int exit_status_of(const RunSummary& summary) {
    if (summary.end.signal != 0) return kExitSignal + summary.end.signal;
    if (summary.end.exit_status != 0) return summary.end.exit_status;
    if (!not_drained(summary).empty()) return kExitNotDrained;
    return knows_all_logs(summary) ? kExitFine : kExitUnknown;
}

}   // namespace

void complain_of_run(std::string_view what) {
    (void)std::fputs(fmt::format("forebay run: {}\n", what).c_str(), stderr);   // fmt::print would throw
}

std::optional<PreparedRun> prepare_run(const std::vector<std::string>& settings, int& exit_status) {
    PreparedRun prepared;
    const Result<std::string> folder = plugin_folder();
    if (!folder) {
        complain_of_run(folder.status().message());
        exit_status = kExitProblem;
        return std::nullopt;
    }
    prepared.plugin_folder = folder.value();
    exit_status = kExitUsage;
    Result<Variables> variables = launch_variables(settings, folder.value());
    if (!variables) {
        complain_of_run(variables.status().message());
        return std::nullopt;
    }
    prepared.variables = std::move(variables).value();
    if (const std::optional<std::string> startup = python_startup_folder())
        prepared.variables[kPythonPathVariable] = python_path_with(*startup);
    const LoadedOptions loaded = options_with(prepared.variables);
    for (const Status& problem : loaded.problems) complain_of_run(problem.message());
    if (!loaded.problems.empty()) return std::nullopt;
    exit_status = kExitFine;
    return prepared;
}

Result<RunSummary> run_staged(const PreparedRun& prepared, const std::vector<std::string>& program) {
    Variables variables = prepared.variables;
    const RunFolder folder(variables);
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
    Result<Statistics> statistics = folder.read();
    if (statistics) {
        summary.statistics = std::move(statistics).value();
        summary.left_behind = left_behind(summary.statistics);
        add_tallies(summary.statistics, summary.left_behind);
        tell_of_ended(options_with(prepared.variables).options.stats, summary.statistics);
        summary.remarks = witness.remarks(program, !summary.statistics.begun.empty());
        summary.unknown = folder.is_whole().message();
    } else {
        summary.unknown = statistics.status().message();
    }
    summary.exit_status = exit_status_of(summary);
    return summary;
}

Result<bool> check_writable(const std::string& path) {
    if (path == "-") {
        const int mode = ::fcntl(STDOUT_FILENO, F_GETFL);
        if (mode >= 0 && (mode & O_ACCMODE) != O_RDONLY) return false;
        return Status::from_errno(EBADF, "write to standard output");
    }
    const bool made = ::access(path.c_str(), F_OK) != 0;
    // A pipe without a reader yet is no error.
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    if (descriptor < 0 && errno != ENXIO) return Status::from_errno(errno, "write " + path);
    if (descriptor >= 0) ::close(descriptor);
    return made;
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
