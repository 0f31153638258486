#include "cli/status_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>

#include "base/display_width.h"
#include "base/options.h"
#include "base/shell_word.h"
#include "cli/command_line.h"
#include "cli/exit_status.h"
#include "cli/file_view.h"
#include "ledger/drain_state.h"

namespace forebay::cli {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t kBarCells = 20;
constexpr auto kForwarded = static_cast<std::size_t>(ledger::AsideReason::kForwarded);   // a server stages it

std::string reasons_of(const std::array<std::uint64_t, ledger::kReasonCount>& files_aside) {
    std::string text;
    for (std::size_t i = 0; i < files_aside.size(); ++i)
        if (files_aside[i] > 0 && i != kForwarded)
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                                ledger::reason_name(static_cast<ledger::AsideReason>(i)), files_aside[i]);
    return text;
}

std::string reasons_of(std::uint64_t mask) {
    std::string text;
    for (std::size_t i = 0; i < ledger::kReasonCount; ++i)
        if ((mask >> i & 1) != 0 && i != kForwarded)
            (text += text.empty() ? "" : ", ") += ledger::reason_name(static_cast<ledger::AsideReason>(i));
    return text;
}

double age_s(const ledger::FileCounters& file, const Sample& now) {
    if (file.oldest_ns == 0 || file.oldest_ns >= now.time_ns) return 0;
    return static_cast<double>(now.time_ns - file.oldest_ns) / 1e9;
}

// Drained bytes of dead processes do not count for the current rate.
double drain_rate(const FileView& file, const Sample& now, const Sample* before) {
    double rate = 0;
    for (const FileMember& member : file.members)
        if (member.counters != nullptr && member.process->alive)
            rate += cli::drain_rate(*member.process, *member.counters, now, before);
    return rate;
}

std::string time_left(std::uint64_t pending, double rate) {
    constexpr double kLongest = 100 * 86400.0;
    const double seconds = rate > 0 ? std::ceil(static_cast<double>(pending) / rate) : 0;
    if (pending == 0 || rate <= 0 || seconds > kLongest) return {};
    const auto whole = static_cast<std::uint64_t>(seconds);
    if (whole < 60) return fmt::format(", about {} s left", whole);
    if (whole < 3600) return fmt::format(", about {} min left", (whole + 59) / 60);
    return fmt::format(", about {} h {} min left", whole / 3600, whole % 3600 / 60);
}

std::string bar(double part, const Screen& screen) {
    const auto full = static_cast<std::size_t>(part * static_cast<double>(kBarCells));
    std::string text;
    for (std::size_t i = 0; i < kBarCells; ++i)
        text += i < full ? (screen.utf8 ? "█" : "#") : (screen.utf8 ? "░" : ".");
    return "[" + text + "]";
}

// Keeps the end of a path, which says more than its beginning. Control characters would move the cursor.
std::string shortened(std::string_view path, std::size_t columns) {
    std::string text;
    for (const char c : path) text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    if (display_width(text) <= columns || columns < 8) return text;
    return "..." + text.substr(begin_of_last_columns(text, columns - 3));
}

std::string who(const FileView& file) {
    std::string text;
    for (const FileMember& member : file.members) {
        std::string more;
        if (member.drains && file.members.size() > 1) more = "drains for all";
        if (!member.process->alive) more += more.empty() ? "dead" : ", dead";
        text += fmt::format("{}{}{}", text.empty() ? "" : ", ", member.process->pid,
                            more.empty() ? "" : fmt::format(" ({})", more));
    }
    return fmt::format("{} {}",
                       file.members.size() == 1 ? "process" : fmt::format("{} processes:", file.members.size()), text);
}

void append_counters(std::string& text, const FileView& file, const Sample& now, const Sample* before,
                     const Screen& screen) {
    const auto out = std::back_inserter(text);
    const ledger::FileCounters& sum = file.sum;
    fmt::format_to(out, "    {} {:3.0f} %  staged {}, drained {}, pending {}, held {}", bar(file.progress(), screen),
                   std::floor(file.progress() * 100), format_size(sum.staged), format_size(sum.drained),
                   format_size(file.pending), format_size(sum.held));
    const bool alive = std::any_of(file.members.begin(), file.members.end(),
                                   [](const FileMember& member) { return member.process->alive; });
    if (sum.drained > 0 && alive)
        fmt::format_to(out, ", {}/s", format_size(static_cast<std::uint64_t>(drain_rate(file, now, before))));
    if (file.pending > 0) fmt::format_to(out, ", oldest {:.1f} s", age_s(sum, now));
    text += time_left(file.pending, drain_rate(file, now, before)) + "\n";
    if (sum.requests > 0)
        fmt::format_to(out, "    {} requests in, {} writes out; {} merged, {} superseded, {} read from staging\n",
                       sum.requests, sum.target_writes, format_size(sum.merged), format_size(sum.superseded),
                       format_size(sum.stolen));
    if (sum.through > 0) fmt::format_to(out, "    written through: {}\n", format_size(sum.through));
    if ((sum.aside >> kForwarded & 1) != 0) text += "    staged by a server\n";
    if (const std::string reasons = reasons_of(sum.aside); !reasons.empty())
        fmt::format_to(out, "    stepped aside: {}\n", reasons);
    if (sum.guarantee_given_up > 0)
        fmt::format_to(out, "    {} drained before their commit for lack of room\n",
                       format_size(sum.guarantee_given_up));
    if (file.outstanding && file.pending == 0) text += "    its size is not set yet\n";
    if (sum.error != 0) fmt::format_to(out, "    ERROR: {}\n", ledger::error_text(sum.error));
}

void append_file(std::string& text, const FileView& file, const Sample& now, const Sample* before,
                 const Screen& screen) {
    const auto out = std::back_inserter(text);
    fmt::format_to(out, "{}\n    {}\n", shortened(file.path, screen.columns), who(file));
    const bool counted = std::any_of(file.members.begin(), file.members.end(),
                                     [](const FileMember& member) { return member.counters != nullptr; });
    if (counted) append_counters(text, file, now, before, screen);
    else fmt::format_to(out, "    no counters, only a log\n");
    if (file.state == FileState::kLeftBehind && counted && !file.outstanding)
        fmt::format_to(out, "    its log may have more than these counters show\n");
    if (file.state == FileState::kLeftBehind)
        fmt::format_to(out,
                       "    left by a dead process: `forebay recover` brings the file to its last flush\n"
                       "    if the file was deleted: `forebay discard {}` removes its log\n",
                       shell_word(file.path));
    if (file.state == FileState::kDrained)
        fmt::format_to(out, "    its process ended without closing it; all staged bytes are in the file\n");
}

void append_process(std::string& text, const ledger::ProcessView& process) {
    const auto out = std::back_inserter(text);
    const std::uint64_t used = (process.segments_allocated -
                                std::min(process.segments_free, process.segments_allocated)) *
                               process.segment;
    fmt::format_to(out, "process {}{}: {} opened, {} staged; log {} of {}\n", process.pid,
                   process.alive ? "" : " (dead)", process.files_opened, process.files_staged, format_size(used),
                   format_size(process.size));
    if (process.files_without_slot > 0)
        fmt::format_to(out, "  {} more files were open; the ledger had no room for their counters\n",
                       process.files_without_slot);
    if (process.aside[kForwarded] > 0)
        fmt::format_to(out, "  staged by a server: {} files\n", process.aside[kForwarded]);
    if (const std::string reasons = reasons_of(process.aside); !reasons.empty())
        fmt::format_to(out, "  stepped aside, files by reason: {}\n", reasons);
}

std::string total_line(const std::vector<FileView>& files, const Sample& now, const Sample* before) {
    std::uint64_t staged = 0, drained = 0, pending = 0;
    double rate = 0;
    for (const FileView& file : files) {
        staged += file.sum.staged;
        drained += file.sum.drained;
        pending += file.pending;
        rate += drain_rate(file, now, before);
    }
    return fmt::format("total: {} files, staged {}, drained {}, pending {}{}{}\n", files.size(), format_size(staged),
                       format_size(drained), format_size(pending),
                       drained > 0 ? fmt::format(", {}/s", format_size(static_cast<std::uint64_t>(rate))) : "",
                       time_left(pending, rate));
}

std::string within(std::string_view text, std::size_t columns) {
    std::string result;
    while (!text.empty()) {
        const std::size_t line = std::min(text.find('\n'), text.size());
        const std::size_t fits = std::max<std::size_t>(bytes_in_columns(text.substr(0, line), columns), 1);
        const std::size_t taken = std::min(fits, line);
        result.append(text.substr(0, taken)) += '\n';
        text.remove_prefix(taken == line ? std::min(line + 1, text.size()) : taken);
    }
    return result;
}

// If there are too many lines, omits whole files and processes at the end, and counts them.
std::string fitted(const std::string& total, const std::vector<std::string>& files,
                   const std::vector<std::string>& processes, const std::string& rest, const Screen& screen) {
    const auto on_screen = [&](const std::string& text) {
        if (!screen.wraps || text.empty()) return text;
        return within(wrapped(std::string_view(text).substr(0, text.size() - 1), 0, 0, screen.columns) + "\n",
                      screen.columns);
    };
    const auto rows_of = [](const std::string& text) {
        return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
    };
    if (screen.rows == 0) {
        std::string text;
        for (const auto* part : {&files, &processes})
            for (const std::string& one : *part) text += on_screen(one);
        return text + on_screen(total) + on_screen(rest);
    }
    // The total comes first, because the end may be omitted.
    std::string text = on_screen(total);
    std::size_t left = screen.rows - std::min(screen.rows, rows_of(text) + 1);   // one row for the omitted ones
    std::string more;
    for (const auto& [part, one_is, many_are] :
         {std::tuple{&files, "file", "files"}, std::tuple{&processes, "process", "processes"}}) {
        std::size_t shown = 0;
        for (; shown < part->size(); ++shown) {
            const std::string one = on_screen((*part)[shown]);
            if (rows_of(one) > left) break;
            text += one;
            left -= rows_of(one);
        }
        const std::size_t missing = part->size() - shown;
        if (missing == 0) continue;
        left = 0;
        more += fmt::format("{}{} more {}", more.empty() ? "... and " : ", ", missing,
                            missing == 1 ? one_is : many_are);
    }
    const std::string last = on_screen(rest);
    if (rows_of(last) <= left) text += last;
    return text + (more.empty() ? "" : more + "\n");
}

ordered_json file_as_json(const FileView& file, const Sample& now, const Sample* before) {
    ordered_json one = ordered_json::parse(ledger::to_json(file.sum));
    one["path"] = file.path;
    one["pending"] = file.pending;
    one["device"] = file.device;
    one["inode"] = file.inode;
    one["state"] = state_name(file.state);
    one["progress"] = file.progress();
    one["rate_bytes_per_s"] = drain_rate(file, now, before);
    one["oldest_age_s"] = age_s(file.sum, now);
    one["processes"] = ordered_json::array();
    for (const FileMember& member : file.members)
        one["processes"].push_back({{"pid", member.process->pid},
                                    {"alive", member.process->alive},
                                    {"drains", member.drains},
                                    {"directory", member.process->directory},
                                    {"requests", member.counters == nullptr ? 0 : member.counters->requests},
                                    {"staged", member.counters == nullptr ? 0 : member.counters->staged}});
    return one;
}

// Returns true if only the process's log has some bytes, as far as is known.
bool is_left_behind(const ledger::ProcessView& process, const std::vector<FileView>& files) {
    return !process.alive && std::any_of(files.begin(), files.end(), [&](const FileView& file) {
        return file.state == FileState::kLeftBehind &&
               std::any_of(file.members.begin(), file.members.end(),
                           [&](const FileMember& member) { return member.process == &process; });
    });
}

}   // namespace

double drain_rate(const ledger::ProcessView& process, const ledger::FileCounters& file, const Sample& now,
                  const Sample* before) {
    std::uint64_t since_ns = file.opened_ns, drained_then = 0;
    if (before != nullptr)
        for (const ledger::ProcessView& old : before->scan.processes) {
            if (old.directory != process.directory) continue;
            for (const ledger::FileCounters& old_file : old.files)
                if (old_file.path == file.path && old_file.opened_ns == file.opened_ns) {
                    since_ns = before->time_ns;
                    drained_then = old_file.drained;
                }
        }
    if (since_ns >= now.time_ns || file.drained < drained_then) return 0;
    return static_cast<double>(file.drained - drained_then) * 1e9 / static_cast<double>(now.time_ns - since_ns);
}

std::string status_as_text(const Sample& now, const Sample* before, const Screen& screen) {
    const std::vector<FileView> views = files_of(now.scan);
    std::vector<std::string> files, processes;
    for (const FileView& file : views) append_file(files.emplace_back(), file, now, before, screen);
    for (const ledger::ProcessView& process : now.scan.processes)
        if (!is_empty(process)) append_process(processes.emplace_back(), process);
    std::string rest;
    if (processes.empty()) {
        files.clear();
        rest = fmt::format("{} {}.\n", has_gaps(now) ? "No logs were found in" : "No process has logs in",
                           fmt::join(now.areas, ", "));
    }
    for (const CacheView& cache : now.caches)
        rest += fmt::format("read cache {}: {}\n{}", cache.path, cache_summary(cache), devices_as_text(cache));
    for (const std::string& skipped : now.scan.skipped) rest += fmt::format("not read: {}\n", skipped);
    for (const std::string& unseen : now.unseen) rest += fmt::format("not read: {}\n", unseen);
    if (!now.others.empty()) rest += fmt::format("Not included: the logs of {}.\n", fmt::join(now.others, ", "));
    const std::string total = files.size() > 1 ? total_line(views, now, before) : "";
    return fitted(total, files, processes, rest, screen);
}

bool has_gaps(const Sample& now) { return !now.unseen.empty() || !now.scan.skipped.empty(); }

int check(const Sample& now) {
    const std::vector<FileView> files = files_of(now.scan);
    const auto any = [&](const auto& is) { return std::any_of(files.begin(), files.end(), is); };
    if (any([](const FileView& file) {
            return file.state == FileState::kLeftBehind || file.state == FileState::kFailing;
        }))
        return kExitProblem;
    if (has_gaps(now)) return kExitUnknown;
    const bool at_work = any([](const FileView& file) {
        return file.outstanding || std::any_of(file.members.begin(), file.members.end(), [](const FileMember& member) {
                   return member.process->alive && member.counters == nullptr;
               });
    });
    return at_work ? kExitAtWork : kExitFine;
}

ordered_json status_as_json(const std::string& nls, const Sample& now, const Sample* before) {
    ordered_json result{{"nls", nls},
                        {"areas", now.areas},
                        {"time_ns", now.time_ns},
                        {"files", ordered_json::array()},
                        {"processes", ordered_json::array()},
                        {"read_caches", ordered_json::array()},
                        {"skipped", now.scan.skipped},
                        {"unseen", now.unseen}};
    for (const CacheView& cache : now.caches)
        result["read_caches"].push_back({{"path", cache.path},
                                         {"stored_bytes", cache.account.stored_bytes},
                                         {"capacity_bytes", cache.account.capacity_bytes},
                                         {"further_devices", further_as_json(cache)},
                                         {"files", cache.replicas.size()}});
    const std::vector<FileView> files = files_of(now.scan);
    for (const FileView& file : files) result["files"].push_back(file_as_json(file, now, before));
    for (const ledger::ProcessView& process : now.scan.processes) {
        ordered_json one{
            {"pid", process.pid},
            {"alive", process.alive},
            {"left_behind", is_left_behind(process, files)},
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
                one["aside"][std::string(ledger::reason_name(static_cast<ledger::AsideReason>(i)))] = process.aside[i];
        for (const ledger::FileCounters& file : process.files) {
            ordered_json counters = ordered_json::parse(ledger::to_json(file));
            counters["rate_bytes_per_s"] = drain_rate(process, file, now, before);
            counters["oldest_age_s"] = age_s(file, now);
            one["files"].push_back(std::move(counters));
        }
        result["processes"].push_back(std::move(one));
    }
    return result;
}

}   // namespace forebay::cli
