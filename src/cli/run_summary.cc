#include "cli/run_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/options.h"
#include "cli/file_view.h"
#include "ledger/drain_state.h"

namespace forebay::cli {

namespace {

using nlohmann::ordered_json;

double in_seconds(std::uint64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string counted(std::uint64_t count, std::string_view one, std::string_view many) {
    return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::size_t distinct_files(const std::vector<ledger::FileCounters>& files) {
    std::set<std::string_view> paths;
    for (const ledger::FileCounters& file : files) paths.insert(file.path);
    return paths.size();
}

std::string cache_line(const CacheStatistics& cache, bool is_whole) {
    if (cache.files == 0 && cache.aside.empty()) return {};
    // The amount read from files that stepped aside is unknown.
    std::string text = fmt::format("read cache: {} from this node, {} from the files ({} % hits{}), {} stored",
                                   format_size(cache.hit_bytes), format_size(cache.missed_bytes), hit_percent(cache),
                                   is_whole ? "" : " of what is known", format_size(cache.stored_bytes));
    if (cache.remote_bytes > 0) text += fmt::format(", {} from other nodes", format_size(cache.remote_bytes));
    if (cache.unread_bytes > 0) text += fmt::format(", {} fetched and not read", format_size(cache.unread_bytes));
    for (const auto& [reason, count] : cache.aside)
        text += fmt::format("; {} {}", reason == "once" ? "read once" : reason, counted(count, "file", "files"));
    return text;
}

}   // namespace

ledger::FileCounters totals(const std::vector<ledger::FileCounters>& files) {
    ledger::FileCounters sum;
    for (const ledger::FileCounters& file : files) add(sum, file);
    return sum;
}

std::vector<ledger::FileCounters> all_files(const RunSummary& summary) {
    std::vector<ledger::FileCounters> files;
    const auto note = [&](const ledger::FileCounters& file) {
        const auto known = std::find_if(files.begin(), files.end(), [&](const ledger::FileCounters& one) {
            return file.opened_ns != 0 && one.opened_ns == file.opened_ns && one.path == file.path;
        });
        if (known == files.end()) files.push_back(file);
        else *known = file;
    };
    for (const ledger::FileCounters& file : summary.statistics.files) note(file);
    for (const ledger::ProcessView& process : summary.left_behind)
        for (const ledger::FileCounters& file : process.files) note(file);
    return files;
}

std::map<std::string, std::uint64_t> aside_by_reason(const Statistics& statistics) {
    std::map<std::string, std::uint64_t> result;
    for (const ProcessStatistics& process : statistics.processes)
        for (const auto& [reason, count] : process.aside)
            if (count > 0) result[reason] += count;
    if (!statistics.processes.empty()) return result;
    // No process ended by itself, so only the files' counters exist.
    for (const ledger::FileCounters& file : statistics.files)
        for (std::size_t i = 0; i < ledger::kReasonCount; ++i)
            if ((file.aside >> i & 1) != 0)
                ++result[std::string(ledger::reason_name(static_cast<ledger::AsideReason>(i)))];
    return result;
}

CacheStatistics cache_totals(const Statistics& statistics) {
    CacheStatistics sum;
    for (const ProcessStatistics& process : statistics.processes) add(sum, process.cache);
    return sum;
}

std::uint64_t hit_percent(const CacheStatistics& cache) {
    const double asked = static_cast<double>(cache.hit_bytes + cache.remote_bytes + cache.missed_bytes);
    return asked > 0 ? static_cast<std::uint64_t>(100.0 * static_cast<double>(cache.hit_bytes) / asked) : 0;
}

std::size_t process_count(const RunSummary& summary) {
    std::set<std::uint64_t> pids;
    for (const ProcessStatistics& process : summary.statistics.processes) pids.insert(process.pid);
    for (const ledger::ProcessView& process : summary.left_behind) pids.insert(process.pid);
    return pids.size();
}

bool knows_all_logs(const RunSummary& summary) {
    return summary.unknown.empty() &&
           std::ranges::all_of(summary.statistics.directories,
                               [](const ProcessDirectory& one) { return one.unread.empty(); });
}

std::vector<std::string> gaps(const RunSummary& summary) {
    std::vector<std::string> gaps;
    if (!summary.unknown.empty()) gaps.push_back("the files of forebay are unknown: " + summary.unknown);
    for (const ProcessDirectory& one : summary.statistics.directories)
        if (!one.unread.empty())
            gaps.push_back(fmt::format("the log of process {} is unknown: {}", one.pid, one.unread));
    for (const std::string& process : summary.statistics.without_figures) gaps.push_back("no figures of " + process);
    for (const ProcessStatistics& process : summary.statistics.processes)
        if (process.runs)
            gaps.push_back(fmt::format("process {}{} still runs: its figures are not final", process.pid,
                                       process.name.empty() ? "" : fmt::format(" ({})", process.name)));
    if (summary.statistics.unreadable_lines > 0)
        gaps.push_back(fmt::format("{} of the statistics are not readable",
                                   counted(summary.statistics.unreadable_lines, "line", "lines")));
    return gaps;
}

std::vector<std::string> not_drained(const RunSummary& summary) {
    std::vector<std::string> lines;
    for (const ledger::FileCounters& file : all_files(summary)) {
        if (!ledger::is_outstanding(file) && file.error == 0) continue;
        std::string line = file.pending > 0 ? fmt::format("{}: {} not drained", file.path, format_size(file.pending))
                                            : file.path + ": its size is not set, or it may not be on its device";
        if (file.error != 0) line += ": " + ledger::error_text(file.error);
        for (const ledger::ProcessView& process : summary.left_behind)
            for (const ledger::FileCounters& left : process.files)
                if (left.path == file.path && left.opened_ns == file.opened_ns && left.pending > 0)
                    line += fmt::format(": process {} died and left them in {}", process.pid, process.directory);
        lines.push_back(std::move(line));
    }
    return lines;
}

std::string as_text(const RunSummary& summary) {
    const std::vector<ledger::FileCounters> files = all_files(summary);
    const ledger::FileCounters sum = totals(files);
    const std::size_t processes = process_count(summary);
    std::string text;
    const auto line = [&](const std::string& what) { text += "forebay: " + what + "\n"; };
    const std::vector<std::string> missing = gaps(summary);
    if (!summary.unknown.empty()) {
    } else if (summary.statistics.begun.empty() && files.empty() && summary.statistics.processes.empty()) {
        line("no HDF5 file went through forebay" +
             std::string(summary.remarks.empty() ? " (forebay doctor says whether a program can load it)" : ""));
    } else {
        line(fmt::format("{}: {} staged, {} drained, {} superseded, {} written through",
                         counted(distinct_files(files), "file", "files"), format_size(sum.staged),
                         format_size(sum.drained), format_size(sum.superseded), format_size(sum.through)));
        line(fmt::format("{} became {}", counted(sum.requests, "write of the program", "writes of the program"),
                         counted(sum.target_writes, "write to the files", "writes to the files")));
        const std::string times = fmt::format(
            "in staged writes {:.2f} s ({:.2f} s of it waiting for room), in flush and close {:.2f} s",
            in_seconds(sum.stage_ns), in_seconds(sum.stall_ns), in_seconds(sum.close_ns));
        // For parallel processes a sum of times is not elapsed time.
        if (processes > 1)
            line(fmt::format("sum over {} processes: {}; the run took {:.2f} s", processes, times, summary.elapsed_s));
        else line(fmt::format("time {}, of {:.2f} s", times, summary.elapsed_s));
    }
    for (const std::string& remark : summary.remarks) line(remark);
    const CacheStatistics cache = cache_totals(summary.statistics);
    // All reads of a file on trial are counted.
    const bool all_counted = std::ranges::all_of(cache.aside, [](const auto& one) { return one.first == "once"; });
    const bool is_whole = missing.empty() && all_counted && summary.remarks.empty();
    if (const std::string cached = cache_line(cache, is_whole); !cached.empty()) line(cached);
    std::string reasons;
    auto asides = aside_by_reason(summary.statistics);
    if (const auto served = asides.find("forwarded"); served != asides.end()) {
        line(fmt::format("staged by a server: {}", counted(served->second, "file", "files")));
        asides.erase(served);
    }
    for (const auto& [reason, count] : asides)
        reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", reason, count);
    if (!reasons.empty()) line("stepped aside, files by reason: " + reasons);
    if (sum.guarantee_given_up > 0)
        line(fmt::format(
            "{} drained before their commit for lack of room: a crash at that time would have mixed two states",
            format_size(sum.guarantee_given_up)));
    for (const std::string& gap : missing) line(gap);
    for (const std::string& file : not_drained(summary)) line("NOT DRAINED: " + file);
    if (sum.pending > 0)
        line("the staged bytes stay in the log on the staging area: `forebay recover` brings the files to their "
             "last flush");
    return text;
}

namespace {

ordered_json cache_as_json(const CacheStatistics& cache) {
    if (cache.files == 0 && cache.aside.empty()) return {};
    return {{"files", cache.files},
            {"hit_bytes", cache.hit_bytes},
            {"missed_bytes", cache.missed_bytes},
            {"fetched_bytes", cache.fetched_bytes},
            {"stored_bytes", cache.stored_bytes},
            {"unread_bytes", cache.unread_bytes},
            {"remote_bytes", cache.remote_bytes},
            {"aside", cache.aside}};
}

}   // namespace

ordered_json as_json(const RunSummary& summary) {
    const auto plain = [](const ledger::FileCounters& file) { return ordered_json::parse(ledger::to_json(file)); };
    ordered_json result{
        {"program", summary.program},
        {"exit_status", summary.exit_status},
        {"program_exit_status", summary.end.signal == 0 ? ordered_json(summary.end.exit_status) : ordered_json()},
        {"program_signal", summary.end.signal == 0 ? ordered_json() : ordered_json(summary.end.signal)},
        {"elapsed_s", summary.elapsed_s},
        {"files_closed", summary.statistics.files.size()},
        {"processes", process_count(summary)},
        {"distinct_files", distinct_files(all_files(summary))},
        {"totals", plain(totals(all_files(summary)))},
        {"aside", aside_by_reason(summary.statistics)},
        {"not_drained", not_drained(summary)},
        {"unreadable_lines", summary.statistics.unreadable_lines},
        {"gaps", gaps(summary)},
        {"remarks", summary.remarks},
        {"read_cache", cache_as_json(cache_totals(summary.statistics))},
        {"read_files", ordered_json::array()},
        {"files", ordered_json::array()},
    };
    for (const auto& [path, cache] : summary.statistics.reads)
        result["read_files"].push_back({{"path", path}, {"cache", cache_as_json(cache)}});
    for (const char* of_one_file : {"path", "opened_ns", "oldest_ns", "error"}) result["totals"].erase(of_one_file);
    for (const ledger::FileCounters& file : summary.statistics.files) result["files"].push_back(plain(file));
    return result;
}

}   // namespace forebay::cli
