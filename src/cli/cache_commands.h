// The subcommands of `forebay cache`, as those of `forebay` (commands.h).
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "base/status.h"
#include "cli/read_caches.h"

namespace forebay::cli {

void add_cache_list(CLI::App& cache, int& exit_status);
void add_cache_prefetch(CLI::App& cache, int& exit_status);
void add_cache_evict(CLI::App& cache, int& exit_status);
void add_cache_pin(CLI::App& cache, int& exit_status);   // and unpin
void add_cache_verify(CLI::App& cache, int& exit_status);

// Tells of the failure of `forebay cache <command>`; returns the exit status.
int complain_of_cache(const std::string& command, const Status& failure);
// Tells which files of the command line are not cached. False: one of them is not there at all.
[[nodiscard]] bool tell_uncached(const std::string& command, const Uncached& none, bool quiet);

}   // namespace forebay::cli
