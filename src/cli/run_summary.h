// The summary of `forebay run`: the staged bytes, and the files that did not get all of them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/child_process.h"
#include "cli/stats_reader.h"
#include "ledger/ledger.h"

namespace forebay::cli {

struct RunSummary {
    std::vector<std::string> program;
    ChildEnd end;
    std::uint64_t begin_ns = 0;   // CLOCK_MONOTONIC
    double elapsed_s = 0;
    Statistics statistics;
    std::vector<ledger::ProcessView> left_behind;   // dead processes of this run, and their open files
    std::string unknown;                            // why the activity is unknown; empty if it is known
    std::vector<std::string> remarks;               // observed reasons why the program was not staged
    int exit_status = 0;                            // of `forebay run` itself
};

// False if the log of a process may have bytes that the summary does not tell.
[[nodiscard]] bool knows_all_logs(const RunSummary& summary);

// The last known counters of each file and opening: from the statistics, or from the ledger of a dead process.
[[nodiscard]] std::vector<ledger::FileCounters> all_files(const RunSummary& summary);
// Returns sums over all files; `path` is empty.
[[nodiscard]] ledger::FileCounters totals(const std::vector<ledger::FileCounters>& files);
[[nodiscard]] std::map<std::string, std::uint64_t> aside_by_reason(const Statistics& statistics);
[[nodiscard]] CacheStatistics cache_totals(const Statistics& statistics);
// The part of the read bytes that came from the node, in percent; 0 if there were no reads.
[[nodiscard]] std::uint64_t hit_percent(const CacheStatistics& cache);
[[nodiscard]] std::size_t process_count(const RunSummary& summary);
// Reasons why the figures are incomplete, a sentence each. Empty: they are complete.
[[nodiscard]] std::vector<std::string> gaps(const RunSummary& summary);
// One line for each incomplete file, from the statistics or left by a crash.
[[nodiscard]] std::vector<std::string> not_drained(const RunSummary& summary);

[[nodiscard]] std::string as_text(const RunSummary& summary);
[[nodiscard]] nlohmann::ordered_json as_json(const RunSummary& summary);

}   // namespace forebay::cli
