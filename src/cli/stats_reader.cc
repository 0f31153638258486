#include "cli/stats_reader.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace forebay::cli {

namespace {

using nlohmann::json;

std::uint64_t number(const json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
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
    file.served = number(object, "served");
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
    process.pid = number(object, "pid");
    process.files_opened = number(object, "files_opened");
    process.aside = aside_of(object);
    process.cache = cache_of(object);
    return process;
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
    statistics.began = statistics.began || parsed.contains("began");
    if (const auto area = parsed.find("area"); area != parsed.end() && area->is_object())
        statistics.directories.push_back(area->value("directory", ""));
    if (const auto file = parsed.find("file"); file != parsed.end() && file->is_object())
        statistics.files.push_back(file_of(*file));
    if (const auto process = parsed.find("process"); process != parsed.end() && process->is_object())
        statistics.processes.push_back(process_of(*process));
    if (const auto read = parsed.find("read"); read != parsed.end() && read->is_object())
        if (const auto path = read->find("path"); path != read->end() && path->is_string())
            add(statistics.reads[path->get<std::string>()], cache_of(*read));
}

Result<Statistics> read_statistics(const std::string& path, std::uint64_t offset) {
    Statistics statistics;
    std::error_code error;
    if (!std::filesystem::exists(path, error) && !error) return statistics;
    std::ifstream file(path, std::ios::binary);
    if (!file) return Status::from_errno(errno, "open the statistics " + path);
    file.seekg(static_cast<std::streamoff>(offset));
    for (std::string line; std::getline(file, line);)
        if (!line.empty()) read_statistics_line(line, statistics);
    if (file.bad()) return Status::from_errno(EIO, "read the statistics " + path);
    return statistics;
}

}   // namespace forebay::cli
