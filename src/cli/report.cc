#include "cli/report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr double kReportSecond = 1e9;

Status write_text(const fs::path& path, const std::string& text) {
    errno = 0;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    return file ? Status::ok() : Status::from_errno(errno, "write " + path.string());
}

}   // namespace

Report report_of(RunSummary summary, const std::vector<TraceEvent>& events, const Options& options) {
    Report report;
    const auto end_ns = summary.begin_ns + static_cast<std::uint64_t>(summary.elapsed_s * kReportSecond);
    report.timeline = timeline_of(events, summary.begin_ns, end_ns, kReportIntervals);
    report.target_bytes_per_s = bytes_per_second(events, TraceEvent::Kind::kWrite);
    const ledger::FileCounters sum = totals(all_files(summary));
    const std::size_t processes = process_count(summary);
    if (processes > 0)
        report.waited_s = static_cast<double>(sum.stage_ns + sum.close_ns) / kReportSecond /
                          static_cast<double>(processes);
    if (report.target_bytes_per_s > 0)
        report.native_s = static_cast<double>(sum.staged + sum.through) / report.target_bytes_per_s;
    report.advice = advice_for(summary, options,
                               {report.target_bytes_per_s, alignment_of(events, adviser_stripe(options))});
    report.summary = std::move(summary);
    return report;
}

ordered_json as_json(const Report& report) {
    ordered_json advice = ordered_json::array();
    for (const Advice& one : report.advice)
        advice.push_back({{"finding", one.finding}, {"action", one.action}, {"option", one.option}});
    return {
        {"summary", as_json(report.summary)},
        {"target_bytes_per_s", report.target_bytes_per_s},
        {"waited_s", report.waited_s},
        {"native_s_estimated", report.native_s},
        {"advice", advice},
        {"timeline",
         {{"interval_s", report.timeline.interval_s},
          {"waiting", report.timeline.waiting},
          {"written_bytes", report.timeline.written_bytes},
          {"read_bytes", report.timeline.read_bytes}}},
    };
}

Result<std::string> prepare_report(const std::string& folder) {
    std::error_code error;
    const fs::path path = fs::absolute(folder, error);
    if (!error) fs::create_directories(path, error);
    if (error) return Status::from_errno(error.value(), "make the folder " + folder);
    std::string trace = (path / "trace.jsonl").lexically_normal().string();
    const int descriptor = ::open(trace.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (descriptor < 0) return Status::from_errno(errno, "write " + trace);
    ::close(descriptor);
    for (const char* name : {"report.html", "report.json"}) {
        const std::string written = (path / name).string();
        const bool made = ::access(written.c_str(), F_OK) != 0;
        const int one = ::open(written.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        if (one < 0) return Status::from_errno(errno, "write " + written);
        ::close(one);
        if (made) ::unlink(written.c_str());
    }
    return trace;
}

std::string page_of_report(const std::string& folder) {
    std::error_code error;
    const fs::path path = fs::absolute(fs::path(folder) / "report.html", error);
    return error ? folder + "/report.html" : path.lexically_normal().string();
}

Status write_report(const std::string& folder, const Report& report) {
    const fs::path path(folder);
    FOREBAY_TRY(write_text(path / "report.html", as_page(report)));
    return write_text(path / "report.json",
                      as_json(report).dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

}   // namespace forebay::cli
