#include "stage/file_context.h"

#include <algorithm>

#include "area/process.h"
#include "base/attempt.h"
#include "base/clock.h"
#include "base/job_end.h"
#include "stage/deferred_closes.h"

namespace forebay::stage {

namespace {

std::uint64_t end_of_job_ns(const Options& options) noexcept {
    std::uint64_t end_ns = drain::Deadline::kNever;
    (void)attempt([&] {
        if (const auto end = parse_job_end(options.deadline))   // else it is among the problems of the options
            end_ns = monotonic_end_ns(end.value(), {monotonic_ns(), realtime_ns(), area::age_of_this_process_ns()});
    });
    return end_ns;
}

}   // namespace

FileContext::FileContext(const Parts& parts, std::shared_ptr<WaitClock> clock)
    : parts_(parts),
      trace_(parts.options.trace),
      progress_(std::move(clock)),
      spare_time_(monotonic_ns()),
      deadline_(end_of_job_ns(parts.options)) {}

log::SegmentPool* FileContext::pool() noexcept { return parts_.area.pool(); }

bool FileContext::drain_others_for_room(const StagedFile& asking) {
    bool under_way = false;
    for (const auto& file : parts_.files.all())
        if (file.get() != &asking) under_way = file->log().drain_for_room() || under_way;
    return under_way || parts_.closes.any_under_way();   // the end of a close gives segments back, too
}

bool FileContext::make_held_ready() {
    bool any = false;
    for (const auto& file : parts_.files.all()) any = file->log().make_held_ready() > 0 || any;
    return any;
}

bool FileContext::await_a_close() noexcept { return parts_.closes.await_one(); }

// Bytes that wait for their neighbours, or that the program holds back, drain from now on.
bool FileContext::deadline_presses() noexcept {
    if (!deadline_.known() || deadline_.presses() || inherited()) return deadline_.presses();
    const std::uint64_t now_ns = monotonic_ns(), bytes = parts_.files.pending_bytes();
    if (!deadline_.begins_to_press(now_ns, bytes)) return deadline_.presses();
    (void)attempt([&] {
        parts_.statistics.warn(deadline_.warning(now_ns, bytes));
        for (const auto& file : parts_.files.all()) (void)file->log().drain_for_room();
    });
    return true;
}

// As much as one target write carries at most is always fine.
bool FileContext::too_much_for_deadline() noexcept {
    if (!deadline_presses()) return false;
    return parts_.files.pending_bytes() > std::max(deadline_.allowance_bytes(monotonic_ns()), options().write_max);
}

void FileContext::addresses_given(const io::Identity& identity) { parts_.files.given_addresses().note(identity); }

void FileContext::count_made_good() noexcept {
    parts_.statistics.counters().made_good.fetch_add(1, std::memory_order_relaxed);
}

void FileContext::wrote(std::uint64_t begin_ns, std::uint64_t end_ns, ByteRange range) {
    parts_.area.ledger().header().wrote_ns.store(realtime_ns(), std::memory_order_relaxed);
    trace_.wrote(begin_ns, end_ns, range.begin, range.size());
    deadline_.wrote(begin_ns, end_ns, range.size());
    (void)deadline_presses();
}

}   // namespace forebay::stage
