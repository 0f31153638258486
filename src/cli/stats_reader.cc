#include "cli/stats_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <utility>

#include "area/process.h"
#include "area/run_tally.h"
#include "cache/cache_counters.h"

namespace forebay::cli {

namespace {

using nlohmann::json;

std::uint64_t number(const json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::string text(const json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// A path that is not UTF-8 has its bytes as hexadecimal digits (area/run_record.h).
std::string path_text(const json& object, const std::string& key) {
    const std::string digits = text(object, (key + "_bytes").c_str());
    std::string path;
    for (std::size_t at = 0; at + 1 < digits.size(); at += 2) {
        unsigned char byte = 0;
        (void)std::from_chars(digits.data() + at, digits.data() + at + 2, byte, 16);
        path += static_cast<char>(byte);
    }
    return path.empty() ? text(object, key.c_str()) : path;
}

ledger::FileCounters file_of(const json& object) {
    ledger::FileCounters file;
    if (const auto path = object.find("path"); path != object.end() && path->is_string())
        file.path = path->get<std::string>();
    file.opened_ns = number(object, "opened_ns");
    file.requests = number(object, "requests");
    file.staged = number(object, "staged");
    file.drained = number(object, "drained");
    file.superseded = number(object, "superseded");
    file.through = number(object, "through");
    file.pending = number(object, "pending");
    file.held = number(object, "held");
    file.oldest_ns = number(object, "oldest_ns");
    file.commits = number(object, "commits");
    file.target_writes = number(object, "target_writes");
    file.drain_ns = number(object, "drain_ns");
    file.stage_ns = number(object, "stage_ns");
    file.stall_ns = number(object, "stall_ns");
    file.close_ns = number(object, "close_ns");
    file.guarantee_given_up = number(object, "guarantee_given_up");
    file.merged = number(object, "merged");
    file.stolen = number(object, "stolen");
    file.syncs = number(object, "syncs");
    file.error = number(object, "error");
    file.aside = number(object, "aside");
    return file;
}

std::map<std::string, std::uint64_t> aside_of(const json& object) {
    std::map<std::string, std::uint64_t> reasons;
    if (const auto aside = object.find("aside"); aside != object.end() && aside->is_object())
        for (const auto& [reason, count] : aside->items())
            if (count.is_number_unsigned()) reasons[reason] = count.get<std::uint64_t>();
    return reasons;
}

CacheStatistics cache_of(const json& object) {
    const auto cache = object.find("cache");
    if (cache == object.end() || !cache->is_object()) return {};
    return {.files = number(*cache, "files"),
            .hit_bytes = number(*cache, "hit_bytes"),
            .missed_bytes = number(*cache, "missed_bytes"),
            .fetched_bytes = number(*cache, "fetched_bytes"),
            .stored_bytes = number(*cache, "stored_bytes"),
            .unread_bytes = number(*cache, "unread_bytes"),
            .remote_bytes = number(*cache, "remote_bytes"),
            .aside = aside_of(*cache)};
}

ProcessStatistics process_of(const json& object) {
    ProcessStatistics process;
    process.ended_itself = !object.contains("died");
    process.pid = number(object, "pid");
    process.files_opened = number(object, "files_opened");
    process.aside = aside_of(object);
    process.cache = cache_of(object);
    return process;
}

// Returns true if the process runs in this boot: on this machine, since its start.
bool runs(const area::TallyView& tally) {
    auto process = area::identify_this_process();
    if (!process) return false;
    process.value().pid = tally.pid;
    process.value().start_ticks = tally.start_ticks;
    return area::is_seen_running(process.value());
}

// `told` holds the process's own figures; null if it did not end by itself.
ProcessStatistics process_of(const area::TallyView& tally, const ProcessStatistics* told) {
    ProcessStatistics process;
    process.pid = tally.pid;
    process.ended_itself = told != nullptr && told->ended_itself;
    process.runs = !process.ended_itself && runs(tally);
    process.files_opened = tally.files_opened;
    for (std::size_t i = 0; i < ledger::kReasonCount; ++i)
        if (tally.aside[i] > 0)
            process.aside[std::string(ledger::reason_name(static_cast<ledger::AsideReason>(i)))] = tally.aside[i];
    process.cache = {.files = tally.read_files,
                     .hit_bytes = tally.hit_bytes,
                     .missed_bytes = tally.missed_bytes,
                     .fetched_bytes = tally.fetched_bytes,
                     .stored_bytes = tally.stored_bytes,
                     .unread_bytes = told != nullptr ? told->cache.unread_bytes : 0,
                     .remote_bytes = tally.remote_bytes,
                     .aside = {}};
    for (std::size_t i = 0; i < cache::kAsideCount; ++i)
        if (tally.read_aside[i] > 0)
            process.cache.aside[cache::aside_name(static_cast<cache::Aside>(i))] = tally.read_aside[i];
    return process;
}

std::uint64_t rest(std::uint64_t all, std::uint64_t part) { return all - std::min(all, part); }

// Adds the reads of unnamed files: of processes that did not end by themselves, and of forked children.
void add_unnamed_reads(Statistics& statistics) {
    CacheStatistics all, named;
    for (const ProcessStatistics& process : statistics.processes) add(all, process.cache);
    for (const auto& [path, read] : statistics.reads) add(named, read);
    const CacheStatistics unnamed{.files = std::max<std::uint64_t>(1, rest(all.files, named.files)),
                                  .hit_bytes = rest(all.hit_bytes, named.hit_bytes),
                                  .missed_bytes = rest(all.missed_bytes, named.missed_bytes),
                                  .fetched_bytes = rest(all.fetched_bytes, named.fetched_bytes),
                                  .stored_bytes = rest(all.stored_bytes, named.stored_bytes),
                                  .unread_bytes = 0,
                                  .remote_bytes = rest(all.remote_bytes, named.remote_bytes),
                                  .aside = {}};
    if (unnamed.hit_bytes + unnamed.missed_bytes + unnamed.fetched_bytes + unnamed.remote_bytes > 0)
        add(statistics.reads[""], unnamed);
}

}   // namespace

void add(CacheStatistics& sum, const CacheStatistics& more) {
    sum.files += more.files;
    sum.hit_bytes += more.hit_bytes;
    sum.missed_bytes += more.missed_bytes;
    sum.fetched_bytes += more.fetched_bytes;
    sum.stored_bytes += more.stored_bytes;
    sum.unread_bytes += more.unread_bytes;
    sum.remote_bytes += more.remote_bytes;
    for (const auto& [reason, count] : more.aside) sum.aside[reason] += count;
}

void read_statistics_line(const std::string& line, Statistics& statistics) {
    const json parsed = json::parse(line, nullptr, false);
    if (!parsed.is_object()) {
        ++statistics.unreadable_lines;
        return;
    }
    if (const auto began = parsed.find("began"); began != parsed.end() && began->is_object())
        statistics.begun.push_back({number(*began, "pid"), text(*began, "name"), path_text(*began, "tally")});
    if (const auto area = parsed.find("area"); area != parsed.end() && area->is_object())
        statistics.directories.push_back({number(*area, "pid"), path_text(*area, "directory")});
    if (const auto file = parsed.find("file"); file != parsed.end() && file->is_object())
        statistics.files.push_back(file_of(*file));
    if (const auto process = parsed.find("process"); process != parsed.end() && process->is_object())
        statistics.processes.push_back(process_of(*process));
    if (const auto read = parsed.find("read"); read != parsed.end() && read->is_object())
        if (const auto path = read->find("path"); path != read->end() && path->is_string())
            add(statistics.reads[path->get<std::string>()], cache_of(*read));
}

Result<Statistics> read_statistics(io::File& record) {
    const auto size = record.size();
    if (!size) return size.status();
    std::string text(size.value(), '\0');
    const auto read = record.read_at(0, std::as_writable_bytes(std::span(text)));
    if (!read) return read.status();
    text.resize(read.value());
    Statistics statistics;
    std::istringstream lines(std::move(text));
    for (std::string line; std::getline(lines, line);)
        if (!line.empty()) read_statistics_line(line, statistics);
    return statistics;
}

std::string line_of_ended(const ProcessStatistics& process) {
    json told{{"pid", process.pid}, {"files_opened", process.files_opened}, {"aside", process.aside}, {"died", true}};
    const CacheStatistics& cache = process.cache;
    if (cache.files > 0 || !cache.aside.empty())
        told["cache"] = {{"files", cache.files},
                         {"hit_bytes", cache.hit_bytes},
                         {"missed_bytes", cache.missed_bytes},
                         {"fetched_bytes", cache.fetched_bytes},
                         {"stored_bytes", cache.stored_bytes},
                         {"unread_bytes", cache.unread_bytes},
                         {"remote_bytes", cache.remote_bytes},
                         {"aside", cache.aside}};
    return json{{"process", told}}.dump(-1, ' ', false, json::error_handler_t::replace);
}

void add_tallies(Statistics& statistics, const std::vector<ledger::ProcessView>& left_behind) {
    std::vector<ProcessStatistics> processes;
    std::vector<ProcessStatistics> told = std::move(statistics.processes);
    for (const BegunProcess& begun : statistics.begun) {
        const auto is_it = [&begun](const auto& one) { return one.pid == begun.pid; };
        const auto own = std::ranges::find_if(told, is_it);
        const std::string who = fmt::format("process {}{}", begun.pid,
                                            begun.name.empty() ? "" : fmt::format(" ({})", begun.name));
        const auto tally = begun.tally.empty() ? Result<area::TallyView>(Status(Code::kNotFound, "none"))
                                               : area::read_tally(begun.tally);
        if (!tally) {
            if (own == told.end()) statistics.without_figures.push_back(who + ": it left none, and was killed");
            continue;
        }
        processes.push_back(process_of(tally.value(), own == told.end() ? nullptr : &*own));
        processes.back().name = begun.name;
        if (processes.back().ended_itself || processes.back().runs) continue;
        const bool unread = std::ranges::any_of(statistics.directories, [&](const ProcessDirectory& one) {
            return one.pid == begun.pid && !one.unread.empty();
        });
        if (tally.value().files_written > 0 && !unread && std::ranges::none_of(left_behind, is_it))
            statistics.without_figures.push_back(
                fmt::format("{}: it was killed with {} open for writing, and its log is gone", who,
                            tally.value().files_written == 1 ? "a file" : "files"));
    }
    for (ProcessStatistics& process : told)
        if (std::ranges::none_of(processes, [&](const auto& one) { return one.pid == process.pid; }))
            processes.push_back(std::move(process));
    statistics.processes = std::move(processes);
    add_unnamed_reads(statistics);
}

}   // namespace forebay::cli
