// What `forebay recover` and `forebay discard` ask for and tell.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/staging_areas.h"
#include "recover/report.h"

namespace forebay::cli {

// The files of the command line, those that are not there by their names.
[[nodiscard]] std::vector<recover::Wanted> wanted(const Survey& asked);
// A file of the command line that is not there, and that no log is about. Empty: none.
[[nodiscard]] std::string unknown_file(const Survey& asked, const recover::Report& report);
void append(recover::Report& all, recover::Report more);

// Lines for people, without clock or terminal; with `dry_run` nothing was done.
[[nodiscard]] std::string report_as_text(const Survey& asked, const recover::Report& report, bool dry_run);
[[nodiscard]] nlohmann::ordered_json report_as_json(const Survey& asked, const recover::Report& report, bool dry_run);
// One of the two, on standard output.
void print_report(const Survey& asked, const recover::Report& report, bool dry_run, bool json);

}   // namespace forebay::cli
