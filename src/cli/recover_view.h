#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/staging_areas.h"
#include "recover/report.h"

namespace forebay::cli {

// Missing files are identified by name.
[[nodiscard]] std::vector<recover::Wanted> wanted(const Survey& asked);
// Returns a file of the command line that does not exist and is in no log. Empty: there is none.
[[nodiscard]] std::string unknown_file(const Survey& asked, const recover::Report& report);
void append(recover::Report& all, recover::Report more);

// Returns lines for people, without clock or terminal. With `dry_run` the command changed no file.
[[nodiscard]] std::string report_as_text(const Survey& asked, const recover::Report& report, bool dry_run);
[[nodiscard]] nlohmann::ordered_json report_as_json(const Survey& asked, const recover::Report& report, bool dry_run);
void print_report(const Survey& asked, const recover::Report& report, bool dry_run, bool json);

}   // namespace forebay::cli
