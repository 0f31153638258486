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
    std::string name;            // of the program; empty: not known
    bool ended_itself = false;   // with its line of statistics
    bool runs = false;           // still
    std::uint64_t files_opened = 0;
    std::map<std::string, std::uint64_t> aside;   // files by reason
    CacheStatistics cache;
};

// A process of a run that has come to forebay.
struct BegunProcess {
    std::uint64_t pid = 0;
    std::string name, tally;   // the path of its counters (area/run_tally.h); empty: it could not make any
};

struct Statistics {
    std::vector<BegunProcess> begun;                // they have opened a file, or tried to
    std::vector<std::string> directories;           // of processes that stage, as they were made
    std::vector<ledger::FileCounters> files;        // one per close
    std::vector<ProcessStatistics> processes;       // one per process of which figures are known
    std::vector<std::string> without_figures;       // processes that came here, and of which some are not known: why
    std::map<std::string, CacheStatistics> reads;   // by path, of these processes; "": of files that they did not name
    std::uint64_t unreadable_lines = 0;             // torn or foreign ones
};

// Adds `more` to `sum`.
void add(CacheStatistics& sum, const CacheStatistics& more);

// One line of JSON into `statistics`. A line of a kind that is not known is passed over.
void read_statistics_line(const std::string& line, Statistics& statistics);

// The lines of `path` from byte `offset` on. No file means that nothing was written: no lines.
[[nodiscard]] Result<Statistics> read_statistics(const std::string& path, std::uint64_t offset);

// The line of a process that could not write it itself: docs/statistics.md.
[[nodiscard]] std::string line_of_ended(const ProcessStatistics& process);

// Completes what lines tell by the counters of the processes that have begun. They are whole however a process ended,
// and have what its forked children counted. `left_behind` are dead processes whose ledger is known.
void add_tallies(Statistics& statistics, const std::vector<ledger::ProcessView>& left_behind);

}   // namespace forebay::cli
