// What `forebay run` tells at the end: what was staged, and whether all of it reached its files.
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
    std::vector<ledger::ProcessView> left_behind;   // dead processes of this run, and the files they had not closed
    std::string unknown;                            // why it is not known what went through forebay; empty: it is
    std::vector<std::string> remarks;               // what kept the program from being staged, as far as was seen
    int exit_status = 0;                            // of `forebay run` itself
};

// Of each file and opening the last that is known: from the statistics, or from the ledger of a process that died.
[[nodiscard]] std::vector<ledger::FileCounters> all_files(const RunSummary& summary);
// Sums over all files; `path` is empty.
[[nodiscard]] ledger::FileCounters totals(const std::vector<ledger::FileCounters>& files);
// Files that stepped aside, by reason.
[[nodiscard]] std::map<std::string, std::uint64_t> aside_by_reason(const Statistics& statistics);
// What all processes read through the read cache.
[[nodiscard]] CacheStatistics cache_totals(const Statistics& statistics);
// The part of what was read that came from the node, in percent; 0 where nothing was read.
[[nodiscard]] std::uint64_t hit_percent(const CacheStatistics& cache);
// Processes that came to forebay, as far as is known.
[[nodiscard]] std::size_t process_count(const RunSummary& summary);
// Why the figures leave something out, a sentence each. Empty: they are whole.
[[nodiscard]] std::vector<std::string> gaps(const RunSummary& summary);
// One line for every file of which not everything arrived: by the statistics, or left behind by a crash.
[[nodiscard]] std::vector<std::string> not_drained(const RunSummary& summary);

[[nodiscard]] std::string as_text(const RunSummary& summary);
[[nodiscard]] nlohmann::ordered_json as_json(const RunSummary& summary);

}   // namespace forebay::cli
