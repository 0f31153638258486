// Reading the statistics that the engine appends (option stats): docs/statistics.md; and a run record
// (area/run_record.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "ledger/ledger.h"

namespace forebay::cli {

// What was read through the read cache: of all files, or of one, which was opened `files` times.
struct CacheStatistics {
    std::uint64_t files = 0, hit_bytes = 0, missed_bytes = 0, fetched_bytes = 0, stored_bytes = 0, unread_bytes = 0,
                  remote_bytes = 0;
    std::map<std::string, std::uint64_t> aside;   // files of which something was not stored, by reason
};

struct ProcessStatistics {
    std::uint64_t pid = 0;
    std::uint64_t files_opened = 0;
    std::map<std::string, std::uint64_t> aside;   // files by reason
    CacheStatistics cache;
};

struct Statistics {
    bool began = false;                             // a program has come to forebay: it has opened a file, or tried to
    std::vector<std::string> directories;           // of processes that stage, as they were made
    std::vector<ledger::FileCounters> files;        // one per close
    std::vector<ProcessStatistics> processes;       // one per process that ended by itself
    std::map<std::string, CacheStatistics> reads;   // by path, of these processes; "": of files that they did not name
    std::uint64_t unreadable_lines = 0;             // torn or foreign ones
};

// Adds `more` to `sum`.
void add(CacheStatistics& sum, const CacheStatistics& more);

// One line of JSON into `statistics`. A line of a kind that is not known is passed over.
void read_statistics_line(const std::string& line, Statistics& statistics);

// The lines of `path` from byte `offset` on. No file means that nothing was written: no lines.
[[nodiscard]] Result<Statistics> read_statistics(const std::string& path, std::uint64_t offset);

}   // namespace forebay::cli
