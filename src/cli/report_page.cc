// The page of a report. It escapes all external text (paths, arguments).
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/file_view.h"
#include "cli/report.h"

namespace forebay::cli {

namespace {

constexpr double kWidth = 960, kLane = 64, kLeft = 0, kGap = 34;

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>forebay report</title><style>
:root{color-scheme:light dark;--ink:#1d2328;--faint:#5c6770;--paper:#fff;--card:#f3f5f7;--line:#d5dbe0;
--compute:#c9d6df;--wait:#d55e00;--write:#0072b2;--read:#009e73;--bad:#b3261e}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaed;--faint:#9aa5ae;--paper:#14181b;--card:#1f2529;--line:#343c42;
--compute:#3c4a54;--wait:#ff8c3a;--write:#56b4e9;--read:#35c99a;--bad:#ff8a80}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:62rem;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}
code{font:.92em ui-monospace,monospace;overflow-wrap:anywhere}
.faint{color:var(--faint)}.bad{color:var(--bad);font-weight:600}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.8rem;margin:1.2rem 0}
.card{background:var(--card);border-radius:.5rem;padding:.8rem 1rem}.card b{display:block;font-size:1.5rem}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:.92rem}
th,td{text-align:right;padding:.3rem .6rem;border-bottom:1px solid var(--line);white-space:nowrap}
th{white-space:normal;vertical-align:bottom}
td:first-child{text-align:left;white-space:normal;min-width:14rem}th:first-child{text-align:left}
svg{width:100%;height:auto;display:block}svg text{fill:var(--faint);font:12px system-ui,sans-serif}
li{margin:.5rem 0}
</style></head><body>
)";

std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '&') result += "&amp;";
        else if (c == '<') result += "&lt;";
        else if (c == '>') result += "&gt;";
        else if (c == '"') result += "&quot;";
        else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) result += '?';
        else result += c;
    }
    return result;
}

std::string size(double bytes) { return format_size(static_cast<std::uint64_t>(bytes)); }

std::string card(std::string_view value, std::string_view meaning) {
    return fmt::format("<div class=\"card\"><b>{}</b>{}</div>\n", escaped(value), escaped(meaning));
}

std::string lane(const std::vector<double>& row, double top, double highest, std::string_view colour,
                 const std::string& label) {
    const double width = kWidth / static_cast<double>(row.size());
    std::string path;
    for (std::size_t i = 0; i < row.size(); ++i) {
        if (row[i] <= 0 || highest <= 0) continue;
        const double height = std::max(0.5, kLane * std::min(1.0, row[i] / highest));
        path += fmt::format("M{:.2f} {:.2f}h{:.2f}v{:.2f}h-{:.2f}z", kLeft + static_cast<double>(i) * width,
                            top + kLane - height, width, height, width);
    }
    return fmt::format("<text x=\"0\" y=\"{:.1f}\">{}</text><path d=\"{}\" fill=\"var(--{})\"/>"
                       "<path d=\"M0 {:.1f}h{}\" stroke=\"var(--line)\"/>\n",
                       top - 6, escaped(label), path, colour, top + kLane, kWidth);
}

std::string picture(const Report& report) {
    const Timeline& line = report.timeline;
    const auto highest = [](const std::vector<double>& row) {
        return row.empty() ? 0.0 : *std::ranges::max_element(row);
    };
    const auto rate = [&line, &highest](const std::vector<double>& row) {
        return line.interval_s > 0 ? size(highest(row) / line.interval_s) + "/s" : "";
    };
    const double written = highest(line.written_bytes), read = highest(line.read_bytes);
    const int lanes = 1 + (written > 0 ? 1 : 0) + (read > 0 ? 1 : 0);
    const double height = lanes * (kLane + kGap) + 20;
    double top = kGap - 8;
    std::string svg = fmt::format(
        "<svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"Time line: when the program "
        "waited, and when bytes moved\">\n",
        kWidth, height);
    svg += fmt::format("<rect x=\"0\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" fill=\"var(--compute)\"/>\n", top, kWidth,
                       kLane);
    svg += lane(line.waiting, top, 1, "wait", "The program; in colour while it waits for files that it writes");
    top += kLane + kGap;
    if (written > 0) {
        svg += lane(line.written_bytes, top, written, "write",
                    "Bytes reach the files; peak: " + rate(line.written_bytes));
        top += kLane + kGap;
    }
    if (read > 0) {
        svg += lane(line.read_bytes, top, read, "read",
                    "Bytes are read from files that are cached; peak: " + rate(line.read_bytes));
        top += kLane + kGap;
    }
    svg += fmt::format("<text x=\"0\" y=\"{:.0f}\">0 s</text><text x=\"{}\" y=\"{:.0f}\" text-anchor=\"end\">{:.1f} s"
                       "</text></svg>\n",
                       height - 8, kWidth, height - 8, report.summary.elapsed_s);
    return svg;
}

std::string cards(const Report& report, const ledger::FileCounters& sum) {
    std::string html = "<div class=\"cards\">\n";
    html += card(fmt::format("{:.1f} s", report.summary.elapsed_s), "the run took");
    html += card(fmt::format("{:.1f} s", report.waited_s), "waiting for files it writes, per process");
    html += card(format_size(sum.staged), "staged on the node");
    if (report.native_s > report.waited_s && report.native_s > 0.1)
        html += card(fmt::format("{:.1f} s", report.native_s - report.waited_s),
                     "saved, by the files' measured speed (an estimate: run --compare measures)");
    const CacheStatistics cache = cache_totals(report.summary.statistics);
    if (cache.hit_bytes + cache.remote_bytes + cache.missed_bytes > 0)
        html += card(fmt::format("{} %", hit_percent(cache)), "of what was read through the cache came from the node");
    return html + "</div>\n";
}

std::string files_table(const std::vector<ledger::FileCounters>& files) {
    std::map<std::string, ledger::FileCounters> by_path;
    for (const ledger::FileCounters& file : files) {
        ledger::FileCounters& sum = by_path[file.path];
        add(sum, file);
        sum.error = std::max(sum.error, file.error);
        sum.aside |= file.aside;
    }
    std::string html = "<h2>Files that were written</h2>\n";
    if (by_path.empty()) return html + "<p class=\"faint\">None went through forebay.</p>\n";
    html += "<div class=\"wide\"><table><tr><th>file</th><th>staged</th><th>drained</th><th>superseded</th>"
            "<th>bypassed the log</th><th>read back</th><th>writes in</th><th>writes out</th><th>waited</th></tr>\n";
    for (const auto& [path, file] : by_path)
        html += fmt::format("<tr><td><code>{}</code>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
                            "<td>{}</td><td>{}</td><td>{:.2f} s</td></tr>\n",
                            escaped(path),
                            file.pending > 0 || file.error != 0 ? " <span class=\"bad\">not drained</span>" : "",
                            format_size(file.staged), format_size(file.drained), format_size(file.superseded),
                            format_size(file.through), format_size(file.stolen), file.requests, file.target_writes,
                            static_cast<double>(file.stage_ns + file.close_ns) / 1e9);
    return html + "</table></div>\n";
}

std::string cache_row(const std::string& name, const CacheStatistics& cache) {
    std::string reasons;
    for (const auto& [reason, count] : cache.aside)
        reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", escaped(reason), count);
    return fmt::format("<tr><td>{}</td><td>{}</td><td>{} %</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
                       "<td>{}</td></tr>\n",
                       name, cache.files, hit_percent(cache), format_size(cache.hit_bytes),
                       format_size(cache.remote_bytes), format_size(cache.missed_bytes),
                       format_size(cache.stored_bytes), format_size(cache.unread_bytes), reasons);
}

std::string cache_table(const Statistics& statistics) {
    const CacheStatistics all = cache_totals(statistics);
    if (all.files == 0 && all.aside.empty()) return {};
    std::string html = "<h2>Files that were read through the cache</h2>\n<div class=\"wide\"><table><tr><th>file</th>"
                       "<th>opened</th><th>hits</th><th>from this node</th><th>from other nodes</th>"
                       "<th>from the file</th><th>put into the cache</th><th>read ahead, not used</th>"
                       "<th>not fully cached, by reason</th></tr>\n";
    for (const auto& [path, cache] : statistics.reads)
        html += cache_row(path.empty() ? "not named" : "<code>" + escaped(path) + "</code>", cache);
    return html + cache_row("all", all) + "</table></div>\n";
}

std::string reasons_table(const RunSummary& summary) {
    auto reasons = aside_by_reason(summary.statistics);
    reasons.erase("forwarded");   // a staging server stages it
    for (const auto& [reason, count] : cache_totals(summary.statistics).aside) reasons["cache: " + reason] += count;
    if (reasons.empty()) return {};
    std::string html = "<h2>Files that were not staged, and why</h2>\n<table><tr><th>reason</th><th>files</th></tr>\n";
    for (const auto& [reason, count] : reasons)
        html += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escaped(reason), count);
    return html +
           "</table>\n<p class=\"faint\">docs/statistics.md, “Why a file was not staged”, explains the reasons.</p>\n";
}

std::string advice_list(const std::vector<Advice>& advice) {
    std::string html = "<h2>Suggestions</h2>\n";
    if (advice.empty()) return html + "<p>The figures of this run suggest no change.</p>\n";
    html += "<ul>\n";
    for (const Advice& one : advice)
        html += fmt::format("<li>{} {}{}</li>\n", escaped(one.finding), escaped(one.action),
                            one.option.empty() ? "" : fmt::format(" Option <code>{}</code>.", escaped(one.option)));
    return html + "</ul>\n";
}

}   // namespace

std::string as_page(const Report& report) {
    const std::vector<ledger::FileCounters> files = all_files(report.summary);
    const ledger::FileCounters sum = totals(files);
    std::string command;
    for (const std::string& word : report.summary.program) command += (command.empty() ? "" : " ") + word;
    std::string html(kHead);
    html += fmt::format("<h1>forebay report</h1>\n<p><code>{}</code></p>\n", escaped(command));
    for (const std::string& lost : not_drained(report.summary))
        html += fmt::format("<p class=\"bad\">Not drained: {}</p>\n", escaped(lost));
    for (const std::string& gap : gaps(report.summary))
        html += fmt::format("<p class=\"bad\">Missing in the figures: {}</p>\n", escaped(gap));
    for (const std::string& remark : report.summary.remarks) html += fmt::format("<p>{}</p>\n", escaped(remark));
    html += cards(report, sum);
    html += "<h2>Time line</h2>\n" + picture(report);
    html += advice_list(report.advice);
    html += files_table(files);
    html += cache_table(report.summary.statistics);
    html += reasons_table(report.summary);
    html += fmt::format("<p class=\"faint\">{} written to the files at {}. Figures as JSON: report.json; every write, "
                        "read and wait: trace.jsonl.</p>\n</body></html>\n",
                        format_size(sum.drained + sum.through),
                        report.target_bytes_per_s > 0 ? size(report.target_bytes_per_s) + "/s" : "an unknown speed");
    return html;
}

}   // namespace forebay::cli
