// Advice: changes that the figures of a run suggest, in words. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "cli/run_summary.h"
#include "cli/trace_reader.h"

namespace forebay::cli {

struct Advice {
    std::string finding;   // the observation with its figure
    std::string action;    // the suggested change
    std::string option;    // the forebay option to change; empty if the program or the site must change
};

struct WritesToFiles {
    double bytes_per_s = 0;   // 0 if unknown
    Alignment alignment;      // relative to adviser_stripe
};
// The stripe that writes are compared with: the option's value, because the file system's stripes are not known here.
[[nodiscard]] std::uint64_t adviser_stripe(const Options& options);

// The most valuable advice comes first.
[[nodiscard]] std::vector<Advice> advice_for(const RunSummary& summary, const Options& options,
                                             const WritesToFiles& writes);

}   // namespace forebay::cli
