// The subcommands of `forebay cache`, added as those of `forebay` (commands.h).
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

// Returns the exit status.
int complain_of_cache(const std::string& command, const Status& failure);
// Prints the files of `none`, which are not cached; with `quiet` only those that do not exist. False: one does not
// exist.
[[nodiscard]] bool tell_uncached(const std::string& command, const Uncached& none, bool quiet);

}   // namespace forebay::cli
