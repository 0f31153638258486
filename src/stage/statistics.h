// Counts and tells for an engine: the counters of the process, its lines of statistics (docs/statistics.md), and
// warnings to the user. `forebay status` reads the counters of the ledger, and `forebay run` those of the tally, a file
// of the process. `ProcessCounters` appear in the line of the process only. Lines go to the file of option `stats` and
// to the records of `forebay run`. Best effort: statistics never fail a program. After a crash the lines are missing;
// ledger and tally stay. Locks: `warn_mutex_` is innermost, and not held while the user is told. `tell_began`,
// `count_opened` and `count_aside` need ProcessArea::opening(), as opening the area moves the counters from memory to
// the ledger's file. Otherwise every call from any thread. `tell`, `tell_closed` and `tell_began` append to files.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "area/run_record.h"
#include "base/mutex.h"
#include "cache/read_cache.h"
#include "ledger/ledger.h"
#include "stage/async_requests.h"
#include "stage/process_area.h"
#include "stage/staged_file.h"

namespace forebay::stage {

struct ProcessCounters {
    std::atomic<std::uint64_t> stranded{0};    // opened files whose name is in a left log of another file
    std::atomic<std::uint64_t> unread{0};      // directories of dead processes whose content is unknown
    std::atomic<std::uint64_t> nameless{0};    // files that lost their last name before they had drained
    std::atomic<std::uint64_t> made_good{0};   // failed target writes that a later attempt repaired
    std::atomic<std::uint64_t> deferred_closes{0}, left_closes{0};   // the second: to another process
    std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(WaitedClose::kCount)> waited_closes{};
};

class Statistics {
  public:
    Statistics(const FileContext& context, const area::RunRecord& run, ProcessArea& area, cache::ReadCache& read_cache,
               const AsyncRequests& async_requests)
        : context_(context), run_(run), area_(area), read_cache_(read_cache), async_requests_(async_requests) {}

    [[nodiscard]] ProcessCounters& counters() noexcept { return counters_; }
    // Before the first file is counted: tells `forebay run` that the process has begun. Later calls do nothing.
    void tell_began() noexcept;
    void count_opened() noexcept { add(&ledger::LedgerHeader::files_opened, &area::RunTally::files_opened); }
    void count_staged() noexcept { add(&ledger::LedgerHeader::files_staged, &area::RunTally::files_staged); }
    void count_aside(ledger::AsideReason reason) noexcept;
    // Takes back `count_staged` for a file of which no byte was staged.
    void count_never_staged() noexcept { add(&ledger::LedgerHeader::files_staged, &area::RunTally::files_staged, -1); }
    void begin_writing() noexcept { tally_.tally().files_written.fetch_add(1, std::memory_order_relaxed); }
    // A file is not written any more: tells its line, and counts it.
    void tell_closed(const ledger::FileCounters& counters);

    using Reads = std::span<const std::shared_ptr<cache::CachedFile>>;
    [[nodiscard]] std::string line(Reads open);
    // Tells the line of the process, and one for each file that was read through the read cache.
    void tell(Reads open);

    // `warn` shows the user events that concern no call of the program, from any thread. Set it before any open.
    using Warn = std::function<void(const std::string& message)>;
    void warn_by(Warn warn);
    void warn(const std::string& message);

  private:
    using Counter = std::atomic<std::uint64_t>;
    void add(Counter ledger::LedgerHeader::* there, Counter area::RunTally::* here, int difference = 1) noexcept {
        (area_.ledger().header().*there).fetch_add(static_cast<std::uint64_t>(difference), std::memory_order_relaxed);
        (tally_.tally().*here).fetch_add(static_cast<std::uint64_t>(difference), std::memory_order_relaxed);
    }
    [[nodiscard]] std::string asides_as_json();
    [[nodiscard]] std::string closes_as_json() const;
    [[nodiscard]] std::string reads_as_json(Reads open) const;
    void tell_line(const std::string& line);

    const FileContext& context_;
    const area::RunRecord& run_;
    ProcessArea& area_;
    cache::ReadCache& read_cache_;
    const AsyncRequests& async_requests_;
    area::TallyWriter tally_;
    bool began_ = false;   // under ProcessArea::opening()
    ProcessCounters counters_;
    Mutex warn_mutex_;
    Warn warn_ GUARDED_BY(warn_mutex_);
};

}   // namespace forebay::stage
