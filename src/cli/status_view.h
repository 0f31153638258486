// What `forebay status` shows of a scan of ledgers. Pure: no clock, no terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/cache_view.h"
#include "ledger/ledger.h"

namespace forebay::cli {

// A scan, when it was made (CLOCK_REALTIME, as the ledgers' own times), and what could not be looked into.
struct Sample {
    ledger::LedgerScan scan;
    std::uint64_t time_ns = 0;
    std::vector<std::string> areas{};    // that were looked at
    std::vector<std::string> unseen{};   // each with the reason
    std::vector<std::string> others{};   // users who were not asked about
    std::vector<CacheView> caches{};     // the read caches of the areas, where no files are asked about
};

// Bytes per second that reach the file: since `before`, if the same file is in it, else over its life so far.
[[nodiscard]] double drain_rate(const ledger::ProcessView& process, const ledger::FileCounters& file, const Sample& now,
                                const Sample* before);

struct Screen {
    std::size_t columns = 100;
    bool utf8 = false;
    bool wraps = false;     // lines end at `columns`
    std::size_t rows = 0;   // what does not fit is left out, and counted; 0: as many as there are
};
// Lines for people. `before` is the sample before this one, or null.
[[nodiscard]] std::string status_as_text(const Sample& now, const Sample* before, const Screen& screen);
[[nodiscard]] nlohmann::ordered_json status_as_json(const std::string& nls, const Sample& now, const Sample* before);
// The exit status of `status --check`: 1 something is left behind, or cannot be written; 3 nobody can tell; 4 bytes are
// on their way; 0.
[[nodiscard]] int check(const Sample& now);

}   // namespace forebay::cli
