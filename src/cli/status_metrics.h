// `forebay status --prometheus`: node sums for the node exporter's textfile collector (format 0.0.4). Pure.
#pragma once

#include <string>

#include "cli/status_view.h"

namespace forebay::cli {

// No label is a file name. Otherwise a site would collect as many series as its jobs have files.
[[nodiscard]] std::string status_as_metrics(const Sample& now);

}   // namespace forebay::cli
