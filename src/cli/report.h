// `forebay run --report DIR`: report.html, which needs no network, report.json and trace.jsonl. See docs/comparing.md.
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
    double target_bytes_per_s = 0;   // measured throughput of the files; 0 if unknown
    double waited_s = 0;             // average time of a process in calls that stage, flush and close
    double native_s = 0;             // estimated native time: all written bytes at the files' speed
    std::vector<Advice> advice;
};

// The report of a run that began at `begin_ns` (CLOCK_MONOTONIC).
[[nodiscard]] Report report_of(RunSummary summary, const std::vector<TraceEvent>& events, const Options& options);

[[nodiscard]] nlohmann::ordered_json as_json(const Report& report);
[[nodiscard]] std::string as_page(const Report& report);

// Makes the folder and an empty trace in it. Returns the trace's path. Errors name the path.
[[nodiscard]] Result<std::string> prepare_report(const std::string& folder);
[[nodiscard]] std::string page_of_report(const std::string& folder);
[[nodiscard]] Status write_report(const std::string& folder, const Report& report);

}   // namespace forebay::cli
