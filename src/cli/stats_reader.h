// Reads the engine's statistics (option stats; docs/statistics.md) and a run record (area/run_record.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "ledger/ledger.h"

namespace forebay::cli {

// Reads through the read cache: of all files, or of one file that was opened `files` times.
struct CacheStatistics {
    std::uint64_t files = 0, hit_bytes = 0, missed_bytes = 0, fetched_bytes = 0, stored_bytes = 0, unread_bytes = 0,
                  remote_bytes = 0;
    std::map<std::string, std::uint64_t> aside;   // files that were not stored completely, by reason
};

struct ProcessStatistics {
    std::uint64_t pid = 0;
    std::string name;            // of the program; empty if unknown
    bool ended_itself = false;   // wrote its line of statistics
    bool runs = false;           // still runs
    std::uint64_t files_opened = 0;
    std::map<std::string, std::uint64_t> aside;   // files by reason
    CacheStatistics cache;
};

// A process of a run that has used forebay.
struct BegunProcess {
    std::uint64_t pid = 0;
    std::string name, tally;   // `tally`: path of its tally (area/run_tally.h), empty if it has none
};

// On the staging area. `unread`: why it cannot be read; empty if it was read, or is gone.
struct ProcessDirectory {
    std::uint64_t pid = 0;
    std::string path, unread{};
};

struct Statistics {
    std::vector<BegunProcess> begun;                // processes that opened a file, or tried to
    std::vector<ProcessDirectory> directories;      // of staging processes, in order of creation
    std::vector<ledger::FileCounters> files;        // one per close
    std::vector<ProcessStatistics> processes;       // one per process with known figures
    std::vector<std::string> without_figures;       // processes with missing figures, and the reason
    std::map<std::string, CacheStatistics> reads;   // by path, of these processes; "" for unnamed files
    std::uint64_t unreadable_lines = 0;             // torn or foreign ones
};

void add(CacheStatistics& sum, const CacheStatistics& more);

// Parses one line of JSON into `statistics`. Ignores lines of an unknown kind.
void read_statistics_line(const std::string& line, Statistics& statistics);

// Reads all lines of a run record.
[[nodiscard]] Result<Statistics> read_statistics(io::File& record);

// Returns the line for a process that could not write its own: docs/statistics.md.
[[nodiscard]] std::string line_of_ended(const ProcessStatistics& process);

// Completes the statistics with the tallies of the processes that have begun. A tally is complete however its process
// ended, and includes forked children. `left_behind` are dead processes with a known ledger.
void add_tallies(Statistics& statistics, const std::vector<ledger::ProcessView>& left_behind);

}   // namespace forebay::cli
