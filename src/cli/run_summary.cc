#include "cli/run_summary.h"

#include <fmt/format.h>

#include <cstring>
#include <iterator>
#include <set>

#include "base/options.h"

namespace forebay::cli {

namespace {

using nlohmann::ordered_json;

double seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::size_t distinct_files(const std::vector<log::FileCounters>& files) {
    std::set<std::string_view> paths;
    for (const log::FileCounters& file : files) paths.insert(file.path);
    return paths.size();
}

}   // namespace

log::FileCounters totals(const std::vector<log::FileCounters>& files) {
    log::FileCounters sum;
    for (const log::FileCounters& file : files) {
        sum.requests += file.requests;
        sum.staged += file.staged;
        sum.drained += file.drained;
        sum.superseded += file.superseded;
        sum.through += file.through;
        sum.pending += file.pending;
        sum.held += file.held;
        sum.commits += file.commits;
        sum.target_writes += file.target_writes;
        sum.drain_ns += file.drain_ns;
        sum.stage_ns += file.stage_ns;
        sum.stall_ns += file.stall_ns;
        sum.close_ns += file.close_ns;
        sum.guarantee_given_up += file.guarantee_given_up;
        sum.merged += file.merged;
        sum.stolen += file.stolen;
        sum.syncs += file.syncs;
        sum.aside |= file.aside;
    }
    return sum;
}

std::map<std::string, std::uint64_t> aside_by_reason(const Statistics& statistics) {
    std::map<std::string, std::uint64_t> result;
    for (const ProcessStatistics& process : statistics.processes)
        for (const auto& [reason, count] : process.aside)
            if (count > 0) result[reason] += count;
    if (!statistics.processes.empty()) return result;
    // No process ended by itself: what its files said is all there is.
    for (const log::FileCounters& file : statistics.files)
        for (std::size_t i = 0; i < log::kReasonCount; ++i)
            if ((file.aside >> i & 1) != 0)
                ++result[std::string(log::reason_name(static_cast<log::AsideReason>(i)))];
    return result;
}

std::vector<std::string> not_drained(const RunSummary& summary) {
    std::vector<std::string> lines;
    for (const log::FileCounters& file : summary.statistics.files) {
        if (file.pending == 0 && file.error == 0) continue;
        lines.push_back(
            fmt::format("{}: {} not drained{}", file.path, format_size(file.pending),
                        file.error != 0 ? fmt::format(": {}", std::strerror(static_cast<int>(file.error))) : ""));
    }
    for (const log::ProcessView& process : summary.left_behind)
        for (const log::FileCounters& file : process.files)
            if (file.pending > 0)
                lines.push_back(fmt::format("{}: {} not drained: process {} died and left them in {}", file.path,
                                            format_size(file.pending), process.pid, process.directory));
    return lines;
}

std::string as_text(const RunSummary& summary) {
    const std::vector<log::FileCounters>& files = summary.statistics.files;
    const log::FileCounters sum = totals(files);
    std::string text;
    const auto line = [&](const std::string& what) { text += "forebay: " + what + "\n"; };
    if (files.empty() && summary.statistics.processes.empty() && summary.left_behind.empty()) {
        line("no HDF5 file went through forebay (forebay doctor tells whether it can be loaded)");
    } else {
        line(fmt::format("{}: {} staged, {} drained, {} superseded, {} written through",
                         counted(distinct_files(files), "file", "files"), format_size(sum.staged),
                         format_size(sum.drained), format_size(sum.superseded), format_size(sum.through)));
        line(fmt::format("{} became {}", counted(sum.requests, "write of the program", "writes of the program"),
                         counted(sum.target_writes, "write to the files", "writes to the files")));
        line(
            fmt::format("time in staged writes {:.2f} s ({:.2f} s of it waiting for room), in flush and close "
                        "{:.2f} s, of {:.2f} s",
                        seconds(sum.stage_ns), seconds(sum.stall_ns), seconds(sum.close_ns), summary.elapsed_s));
    }
    std::string reasons;
    for (const auto& [reason, count] : aside_by_reason(summary.statistics))
        reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", reason, count);
    if (!reasons.empty()) line("stepped aside, files by reason: " + reasons);
    if (sum.guarantee_given_up > 0)
        line(
            fmt::format("{} drained before their commit for want of room: a crash then would have mixed two states",
                        format_size(sum.guarantee_given_up)));
    if (summary.statistics.unreadable_lines > 0)
        line(fmt::format("{} of the statistics could not be read",
                         counted(summary.statistics.unreadable_lines, "line", "lines")));
    for (const std::string& file : not_drained(summary)) line("NOT DRAINED: " + file);
    if (!summary.left_behind.empty()) line("the staged bytes are kept in the log on the staging area");
    return text;
}

ordered_json as_json(const RunSummary& summary) {
    const auto plain = [](const log::FileCounters& file) { return ordered_json::parse(log::to_json(file)); };
    ordered_json result{
        {"program", summary.program},
        {"exit_status", summary.exit_status},
        {"program_exit_status", summary.end.signal == 0 ? ordered_json(summary.end.exit_status) : ordered_json()},
        {"program_signal", summary.end.signal == 0 ? ordered_json() : ordered_json(summary.end.signal)},
        {"elapsed_s", summary.elapsed_s},
        {"files_closed", summary.statistics.files.size()},
        {"distinct_files", distinct_files(summary.statistics.files)},
        {"totals", plain(totals(summary.statistics.files))},
        {"aside", aside_by_reason(summary.statistics)},
        {"not_drained", not_drained(summary)},
        {"unreadable_lines", summary.statistics.unreadable_lines},
        {"files", ordered_json::array()},
    };
    for (const char* of_one_file : {"path", "opened_ns", "oldest_ns", "error"}) result["totals"].erase(of_one_file);
    for (const log::FileCounters& file : summary.statistics.files) result["files"].push_back(plain(file));
    return result;
}

}   // namespace forebay::cli
