// What the figures of a run suggest to change, in words. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "cli/run_summary.h"

namespace forebay::cli {

struct Advice {
    std::string finding;   // what was seen, with its figure
    std::string action;    // what to do about it
    std::string option;    // of forebay, that acts on it; empty: it is the program's or the site's
};

// The most valuable first. `target_bytes_per_s`: what the files took, as measured; 0: not known.
[[nodiscard]] std::vector<Advice> advice_for(const RunSummary& summary, const Options& options,
                                             double target_bytes_per_s);

}   // namespace forebay::cli
