// What `forebay recover` and `forebay discard` tell of their reports. Pure: no clock, no terminal.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "recover/report.h"

namespace forebay::cli {

// Lines for people. `nls` are the areas that were looked at; with `dry_run` nothing was done.
[[nodiscard]] std::string report_as_text(const std::vector<std::string>& nls, const recover::Report& report, bool dry_run);
[[nodiscard]] nlohmann::ordered_json report_as_json(const std::vector<std::string>& nls, const recover::Report& report, bool dry_run);

}   // namespace forebay::cli
