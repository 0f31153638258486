// One run of a program with forebay switched on, from its start to its summary. `forebay run` uses it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/launch.h"
#include "cli/run_summary.h"

namespace forebay::cli {

void complain_of_run(std::string_view what);

struct PreparedRun {
    std::string plugin_folder;
    Variables variables;   // additions to our environment
};
// Returns nullopt if the program must not start. The error is then printed, and `exit_status` is set.
[[nodiscard]] std::optional<PreparedRun> prepare_run(const std::vector<std::string>& settings, int& exit_status);

// Runs the program in the working directory, and blocks until it has ended. Call it before threads exist, as
// `run_child`. The summary's `exit_status` is that of `forebay run`. Errors: those of `run_child`.
[[nodiscard]] Result<RunSummary> run_staged(const PreparedRun& prepared, const std::vector<std::string>& program);

// Call this before the program starts. True if the check created the file, which is then empty.
[[nodiscard]] Result<bool> check_writable(const std::string& path);
// Writes indented JSON into the file; "-" is standard output. Prints an error and returns false if that fails.
[[nodiscard]] bool write_json(const std::string& path, const nlohmann::ordered_json& value);

// Returns the exit status.
[[nodiscard]] int start_failure(const Status& failure);

}   // namespace forebay::cli
