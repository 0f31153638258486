// What the figures of a run suggest to change, in words. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "cli/run_summary.h"
#include "cli/trace_reader.h"

namespace forebay::cli {

struct Advice {
    std::string finding;   // what was seen, with its figure
    std::string action;    // what to do about it
    std::string option;    // of forebay, that acts on it; empty: it is the program's or the site's
};

// How the writes to the files went, by the trace.
struct WritesToFiles {
    double bytes_per_s = 0;   // 0: not known
    Alignment alignment;      // by adviser_stripe
};
// The stripe that writes are compared with: the option's. What a file system tells of each file is not known here.
[[nodiscard]] std::uint64_t adviser_stripe(const Options& options);

// The most valuable first.
[[nodiscard]] std::vector<Advice> advice_for(const RunSummary& summary, const Options& options,
                                             const WritesToFiles& writes);

}   // namespace forebay::cli
