// One run of a program with forebay switched on, from its start to what is known of it at its end. For `forebay run`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cli/launch.h"
#include "cli/run_summary.h"

namespace forebay::cli {

// One line on standard error.
void complain_of_run(std::string_view what);

struct PreparedRun {
    std::string plugin_folder;
    Variables variables;   // what the program gets in addition to our environment
};
// Nothing, if the program must not be started so: what is wrong has been told, and the exit status says which kind.
[[nodiscard]] std::optional<PreparedRun> prepare_run(const std::vector<std::string>& settings, int& exit_status);

// Runs the program in the working directory; blocks until it has ended. Like `run_child`, before threads exist.
// `exit_status` of the summary is that of `forebay run`. Errors: those of `run_child`.
[[nodiscard]] Result<RunSummary> run_staged(const PreparedRun& prepared, const std::vector<std::string>& program);

// Whether a file of the summary can be written, before the program starts; true: it was made for that, and is empty.
[[nodiscard]] Result<bool> check_writable(const std::string& path);
// Indented, into the file; "-" is standard output. False: it has been told why not.
[[nodiscard]] bool write_json(const std::string& path, const nlohmann::ordered_json& value);

// Tells why a program could not be started; the exit status.
[[nodiscard]] int start_failure(const Status& failure);

}   // namespace forebay::cli
