#include "stage/statistics.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "io/append.h"

namespace forebay::stage {

namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(WaitedClose::kCount)> kWaitedNames{
    "nothing_left", "failing", "unrecorded", "shared", "too_many", "named", "unclaimed", "deadline", "forked",
};

// The counts that are not zero, from that with number `first` on, as members of an object.
template <class Reason, class Counts, class NameOf>
std::string as_members(const Counts& counts, NameOf name_of, std::size_t first = 0) {
    std::string members;
    for (std::size_t i = first; i < counts.size(); ++i)
        if (const std::uint64_t count = counts[i]; count > 0)
            members += fmt::format(R"({}"{}":{})", members.empty() ? "" : ",", name_of(static_cast<Reason>(i)), count);
    return members;
}

// The member of a line that tells of the read cache. Empty if it had to do with no file.
std::string told(const cache::CacheTotals& totals) {
    const std::string reasons = as_members<cache::Aside>(totals.asides, cache::aside_name, 1);
    if (totals.files == 0 && reasons.empty()) return {};
    return fmt::format(R"(,"cache":{{"files":{},"hit_bytes":{},"missed_bytes":{},"fetched_bytes":{},"stored_bytes":{},)"
                       R"("unread_bytes":{},"remote_bytes":{},"remote_us":{},"late_answers":{},"ahead_bytes":{},)"
                       R"("replaced_bytes":{},"aside":{{{}}}}})",
                       totals.files, totals.hit_bytes, totals.missed_bytes, totals.fetched_bytes, totals.stored_bytes,
                       totals.unread_bytes, totals.remote_bytes, totals.remote_ns / 1000, totals.late_answers,
                       totals.ahead_bytes, totals.replaced_bytes, reasons);
}

// The member that tells of asynchronous calls. Empty if there were none.
std::string told(const AsyncCounters& counters) {
    const std::string reasons = as_members<AtOnce>(counters.at_once, at_once_name);
    if (counters.reads == 0 && reasons.empty()) return {};
    return fmt::format(R"(,"async":{{"reads":{},"read_bytes":{},"canceled":{},"failed":{},"waits":{},)"
                       R"("at_once":{{{}}}}})",
                       counters.reads, counters.read_bytes, counters.canceled, counters.failed, counters.waits,
                       reasons);
}

}   // namespace

void Statistics::tell_began() noexcept {
    if (std::exchange(began_, true)) return;
    run_.tell_began(::getpid(), tally_);
    read_cache_.count_into(tally_.tally().reads);
}

void Statistics::count_aside(ledger::AsideReason reason) noexcept {
    const auto at = static_cast<std::size_t>(reason);
    area_.ledger().header().aside[at].fetch_add(1, std::memory_order_relaxed);
    tally_.tally().aside[at].fetch_add(1, std::memory_order_relaxed);
}

void Statistics::tell_closed(const ledger::FileCounters& counters) {
    tell_line(fmt::format(R"({{"file":{}}})", ledger::to_json(counters)));
    tally_.tally().files_written.fetch_sub(1, std::memory_order_relaxed);
}

void Statistics::warn_by(Warn warn) {
    const LockGuard lock(warn_mutex_);
    warn_ = std::move(warn);
}

void Statistics::warn(const std::string& message) {
    Warn warn;
    {
        const LockGuard lock(warn_mutex_);
        warn = warn_;
    }
    if (warn) warn(message);
}

void Statistics::tell_line(const std::string& line) {
    if (!context_.options().stats.empty()) (void)io::append_line(context_.options().stats, line);
    run_.tell(line, context_.options().stats);
}

void Statistics::tell(Reads open) {
    if (const std::string reads = reads_as_json(open); !reads.empty()) tell_line(reads);
    if (counters_.stranded.load() > 0 || counters_.unread.load() > 0 ||
        area_.ledger().header().files_opened.load() > 0 || !asides_as_json().empty())
        tell_line(line(open));
}

std::string Statistics::line(Reads open) {
    const ledger::LedgerHeader& header = area_.ledger().header();
    const auto if_any = [](const char* name, std::uint64_t count) {
        return count > 0 ? fmt::format(R"(,"{}":{})", name, count) : std::string();
    };
    return fmt::format(R"({{"process":{{"pid":{},"files_opened":{},"files_staged":{},"aside":{{{}}},)"
                       R"("stranded":{},"unread":{}{}{}{}{}{}{}}}}})",
                       ::getpid(), header.files_opened.load(), header.files_staged.load(), asides_as_json(),
                       counters_.stranded.load(), counters_.unread.load(),
                       context_.deadline_pressed() ? R"(,"deadline":true)" : "", if_any("nameless", counters_.nameless),
                       if_any("made_good", counters_.made_good), closes_as_json(), told(read_cache_.totals(open)),
                       told(async_requests_.counters()));
}

std::string Statistics::asides_as_json() {
    return as_members<ledger::AsideReason>(area_.ledger().header().aside, ledger::reason_name);
}

// A member of the line of a process. Empty with close=wait.
std::string Statistics::closes_as_json() const {
    if (context_.options().close == OnClose::kWait) return {};
    const std::string waited = as_members<std::size_t>(counters_.waited_closes, [](auto i) { return kWaitedNames[i]; });
    const auto left = counters_.left_closes.load(std::memory_order_relaxed);
    return fmt::format(R"(,"deferred_closes":{}{},"waited_closes":{{{}}})",
                       counters_.deferred_closes.load(std::memory_order_relaxed),
                       left > 0 ? fmt::format(R"(,"left_closes":{})", left) : "", waited);
}

// A line for each file that the read cache had to do with. One append is enough for all of them.
std::string Statistics::reads_as_json(Reads open) const {
    std::string lines;
    for (const auto& [path, totals] : read_cache_.totals_by_path(open)) {
        const std::string quoted = nlohmann::json(path).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
        lines += fmt::format(R"({}{{"read":{{"pid":{},"path":{}{}}}}})", lines.empty() ? "" : "\n", ::getpid(), quoted,
                             told(totals));
    }
    return lines;
}

}   // namespace forebay::stage
