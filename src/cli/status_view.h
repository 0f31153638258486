// What `forebay status` shows of a scan of ledgers. Pure: no clock, no terminal.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "log/ledger.h"

namespace forebay::cli {

// A scan and when it was made (CLOCK_REALTIME, as the ledgers' own times).
struct Sample {
    log::LedgerScan scan;
    std::uint64_t time_ns = 0;
};

// Bytes per second that reach the file: since `before`, if the same file is in it, else over its life so far.
[[nodiscard]] double drain_rate(const log::ProcessView& process, const log::FileCounters& file, const Sample& now,
                                const Sample* before);

struct Screen {
    std::size_t columns = 100;
    bool utf8 = false;
};
// Lines for people. `before` is the sample before this one, or null.
[[nodiscard]] std::string status_as_text(const std::string& nls, const Sample& now, const Sample* before,
                                         const Screen& screen);
[[nodiscard]] nlohmann::ordered_json status_as_json(const std::string& nls, const Sample& now,
                                                    const Sample* before);

}   // namespace forebay::cli
