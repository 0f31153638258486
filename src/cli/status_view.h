// The view of `forebay status` on a scan of ledgers. Pure: no clock, no terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/cache_view.h"
#include "ledger/ledger.h"

namespace forebay::cli {

// A scan, its time (CLOCK_REALTIME, as in the ledgers), and the unreadable places.
struct Sample {
    ledger::LedgerScan scan;
    std::uint64_t time_ns = 0;
    std::vector<std::string> areas{};    // all that were scanned
    std::vector<std::string> unseen{};   // with the reason
    std::vector<std::string> others{};   // users that were not included
    std::vector<CacheView> caches{};     // the read caches of the areas, if no files are named
};

// Bytes per second that reach the file: since `before` if that has the same file, else over the file's life so far.
[[nodiscard]] double drain_rate(const ledger::ProcessView& process, const ledger::FileCounters& file, const Sample& now,
                                const Sample* before);

struct Screen {
    std::size_t columns = 100;
    bool utf8 = false;
    bool wraps = false;     // wrap lines at `columns`
    std::size_t rows = 0;   // maximum number of rows; 0: no limit
};
// `before` is the previous sample, or null.
[[nodiscard]] std::string status_as_text(const Sample& now, const Sample* before, const Screen& screen);
[[nodiscard]] nlohmann::ordered_json status_as_json(const std::string& nls, const Sample& now, const Sample* before);
// True if logs may be in places that could not be read.
[[nodiscard]] bool has_gaps(const Sample& now);
// `status --check`. 1: a dead process left bytes, or bytes cannot be written. 3: unknown. 4: the drain goes on. Else 0.
[[nodiscard]] int check(const Sample& now);

}   // namespace forebay::cli
