// What `forebay run` tells at the end: what was staged, and whether all of it reached its files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/child_process.h"
#include "cli/stats_reader.h"
#include "log/ledger.h"

namespace forebay::cli {

struct RunSummary {
    std::vector<std::string> program;
    ChildEnd end;
    double elapsed_s = 0;
    Statistics statistics;
    std::vector<log::ProcessView> left_behind;   // dead processes of this run with staged bytes
    int exit_status = 0;                         // of `forebay run` itself
};

// Sums over all closed files; `path` is empty.
[[nodiscard]] log::FileCounters totals(const std::vector<log::FileCounters>& files);
// Files that stepped aside, by reason.
[[nodiscard]] std::map<std::string, std::uint64_t> aside_by_reason(const Statistics& statistics);
// One line for every file of which not everything arrived: by the statistics, or left behind by a crash.
[[nodiscard]] std::vector<std::string> not_drained(const RunSummary& summary);

[[nodiscard]] std::string as_text(const RunSummary& summary);
[[nodiscard]] nlohmann::ordered_json as_json(const RunSummary& summary);

}   // namespace forebay::cli
