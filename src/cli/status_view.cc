#include "cli/status_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "base/options.h"

namespace forebay::cli {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kBarCells = 20;

std::string reasons_of(const std::array<std::uint64_t, log::kReasonCount>& files_aside) {
    std::string text;
    for (std::size_t i = 0; i < files_aside.size(); ++i)
        if (files_aside[i] > 0)
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                                log::reason_name(static_cast<log::AsideReason>(i)), files_aside[i]);
    return text;
}

std::string reasons_of(std::uint64_t mask) {
    std::string text;
    for (std::size_t i = 0; i < log::kReasonCount; ++i)
        if ((mask >> i & 1) != 0)
            (text += text.empty() ? "" : ", ") += log::reason_name(static_cast<log::AsideReason>(i));
    return text;
}

double age_s(const log::FileCounters& file, const Sample& now) {
    if (file.oldest_ns == 0 || file.oldest_ns >= now.time_ns) return 0;
    return static_cast<double>(now.time_ns - file.oldest_ns) / 1e9;
}

// The part of the staged bytes that needs no draining any more, 0 to 1.
double progress(const log::FileCounters& file) {
    if (file.staged == 0) return 1;
    return 1 - static_cast<double>(std::min(file.pending, file.staged)) / static_cast<double>(file.staged);
}

std::string bar(double part, const Screen& screen) {
    const auto full = static_cast<std::size_t>(part * static_cast<double>(kBarCells));
    std::string text;
    for (std::size_t i = 0; i < kBarCells; ++i)
        text += i < full ? (screen.utf8 ? "█" : "#") : (screen.utf8 ? "░" : ".");
    return "[" + text + "]";
}

// A path's end says more than its beginning. Control characters would move the cursor.
std::string shortened(std::string_view path, std::size_t columns) {
    std::string text;
    for (const char c : path) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    if (text.size() <= columns || columns < 8) return text;
    std::size_t begin = text.size() - (columns - 3);
    while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) ++begin;
    return "..." + text.substr(begin);
}

void append_file(std::string& text, const log::ProcessView& process, const log::FileCounters& file,
                 const Sample& now, const Sample* before, const Screen& screen) {
    const auto out = std::back_inserter(text);
    fmt::format_to(out, "  {}\n", shortened(file.path, screen.columns - 2));
    fmt::format_to(out, "    {} {:3.0f} %  staged {}, drained {}, pending {}, held {}", bar(progress(file), screen),
                   progress(file) * 100, format_size(file.staged), format_size(file.drained),
                   format_size(file.pending), format_size(file.held));
    if (file.drained > 0)
        fmt::format_to(out, ", {}/s",
                       format_size(static_cast<std::uint64_t>(drain_rate(process, file, now, before))));
    if (file.pending > 0) fmt::format_to(out, ", oldest {:.1f} s", age_s(file, now));
    text += '\n';
    if (file.requests > 0)
        fmt::format_to(out, "    {} requests in, {} writes out; {} merged, {} superseded, {} stolen\n", file.requests, file.target_writes,
                       format_size(file.merged), format_size(file.superseded), format_size(file.stolen));
    if (file.through > 0) fmt::format_to(out, "    written through: {}\n", format_size(file.through));
    if (file.aside != 0) fmt::format_to(out, "    stepped aside: {}\n", reasons_of(file.aside));
    if (file.guarantee_given_up > 0)
        fmt::format_to(out, "    {} drained before their commit for want of room\n",
                       format_size(file.guarantee_given_up));
    if (file.error != 0) fmt::format_to(out, "    ERROR: {}\n", std::strerror(static_cast<int>(file.error)));
}

void append_process(std::string& text, const log::ProcessView& process, const Sample& now, const Sample* before,
                    const Screen& screen) {
    const auto out = std::back_inserter(text);
    const std::uint64_t used =
        (process.segments_allocated - std::min(process.segments_free, process.segments_allocated)) *
        process.segment;
    fmt::format_to(out, "process {}{}: {} opened, {} staged; log {} of {}\n", process.pid,
                   process.alive ? "" : " (dead)", process.files_opened, process.files_staged, format_size(used),
                   format_size(process.size));
    for (const log::FileCounters& file : process.files) append_file(text, process, file, now, before, screen);
    if (process.files_without_slot > 0)
        fmt::format_to(out, "  {} more files are not shown\n", process.files_without_slot);
    if (const std::string reasons = reasons_of(process.aside); !reasons.empty())
        fmt::format_to(out, "  stepped aside, files by reason: {}\n", reasons);
    if (!process.alive) fmt::format_to(out, "  left behind by a process that died: `forebay recover` brings its files to their last flush\n");
}

}   // namespace

double drain_rate(const log::ProcessView& process, const log::FileCounters& file, const Sample& now,
                  const Sample* before) {
    std::uint64_t since_ns = file.opened_ns, drained_then = 0;
    if (before != nullptr)
        for (const log::ProcessView& old : before->scan.processes) {
            if (old.directory != process.directory) continue;
            for (const log::FileCounters& old_file : old.files)
                if (old_file.path == file.path && old_file.opened_ns == file.opened_ns) {
                    since_ns = before->time_ns;
                    drained_then = old_file.drained;
                }
        }
    if (since_ns >= now.time_ns || file.drained < drained_then) return 0;
    return static_cast<double>(file.drained - drained_then) * 1e9 / static_cast<double>(now.time_ns - since_ns);
}

std::string status_as_text(const std::string& nls, const Sample& now, const Sample* before, const Screen& screen) {
    std::string text;
    for (const log::ProcessView& process : now.scan.processes) append_process(text, process, now, before, screen);
    if (now.scan.processes.empty()) text = fmt::format("No process has logs in {}.\n", nls);
    for (const std::string& skipped : now.scan.skipped) text += fmt::format("not read: {}\n", skipped);
    return text;
}

ordered_json status_as_json(const std::string& nls, const Sample& now, const Sample* before) {
    ordered_json result{{"nls", nls},
                        {"time_ns", now.time_ns},
                        {"processes", ordered_json::array()},
                        {"skipped", now.scan.skipped}};
    for (const log::ProcessView& process : now.scan.processes) {
        ordered_json one{
            {"pid", process.pid},
            {"alive", process.alive},
            {"left_behind", !process.alive},
            {"directory", process.directory},
            {"size", process.size},
            {"segment", process.segment},
            {"segments_allocated", process.segments_allocated},
            {"segments_free", process.segments_free},
            {"files_opened", process.files_opened},
            {"files_staged", process.files_staged},
            {"files_without_slot", process.files_without_slot},
            {"aside", ordered_json::object()},
            {"files", ordered_json::array()},
        };
        for (std::size_t i = 0; i < process.aside.size(); ++i)
            if (process.aside[i] > 0)
                one["aside"][std::string(log::reason_name(static_cast<log::AsideReason>(i)))] = process.aside[i];
        for (const log::FileCounters& file : process.files) {
            ordered_json counters = ordered_json::parse(log::to_json(file));
            counters["rate_bytes_per_s"] = drain_rate(process, file, now, before);
            counters["oldest_age_s"] = age_s(file, now);
            one["files"].push_back(std::move(counters));
        }
        result["processes"].push_back(std::move(one));
    }
    return result;
}

}   // namespace forebay::cli
