// `forebay run --report DIR`: a page (report.html) that shows what a run did, readable without a network, the same as
// JSON (report.json), and the trace (trace.jsonl). docs/comparing.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/options.h"
#include "base/status.h"
#include "cli/advice.h"
#include "cli/run_summary.h"
#include "cli/trace_reader.h"

namespace forebay::cli {

inline constexpr std::size_t kReportIntervals = 480;

struct Report {
    RunSummary summary;
    Timeline timeline;
    double target_bytes_per_s = 0;   // what the files took, as measured; 0: not known
    double waited_s = 0;             // that a process spent in calls which stage, flush and close, on average
    double native_s = 0;             // the same natively, estimated: all that was written, at the files' speed
    std::vector<Advice> advice;
};

// Of a run that began at `begin_ns` (CLOCK_MONOTONIC).
[[nodiscard]] Report report_of(RunSummary summary, const std::vector<TraceEvent>& events, const Options& options);

[[nodiscard]] nlohmann::ordered_json as_json(const Report& report);
// One page of HTML that needs nothing else.
[[nodiscard]] std::string as_page(const Report& report);

// Makes the folder and an empty trace in it; returns the trace's path. Errors name the path.
[[nodiscard]] Result<std::string> prepare_report(const std::string& folder);
// The page's complete path.
[[nodiscard]] std::string page_of_report(const std::string& folder);
// Writes report.html and report.json.
[[nodiscard]] Status write_report(const std::string& folder, const Report& report);

}   // namespace forebay::cli
