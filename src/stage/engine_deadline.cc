// The end of the job (drain/deadline.h): once it presses, closes and flushes wait, and writes wait for room.
#include "area/process.h"
#include "base/attempt.h"
#include "base/job_end.h"
#include "stage/engine_state.h"

namespace forebay::stage {

std::uint64_t Engine::State::deadline_of(const Options& options) noexcept {
    std::uint64_t end_ns = drain::Deadline::kNever;
    (void)attempt([&] {
        if (const auto end = parse_job_end(options.deadline))   // else it is among the problems of the options
            end_ns = monotonic_end_ns(end.value(), {monotonic_ns(), realtime_ns(), area::age_of_this_process_ns()});
        return Status::ok();
    });
    return end_ns;
}

std::uint64_t Engine::State::pending_bytes() noexcept {
    const std::lock_guard lock(mutex_);
    std::uint64_t bytes = 0;
    for (const auto& [identity, entry] : files_)
        if (entry.slot != nullptr) bytes += entry.slot->pending.load(std::memory_order_relaxed);
    return bytes;
}

// What waits for its neighbours, or was held back by the program, goes from now on.
void Engine::State::look_at_deadline() noexcept {
    if (!deadline_.known() || deadline_.presses() || inherited()) return;
    const std::uint64_t now_ns = monotonic_ns(), bytes = pending_bytes();
    if (!deadline_.begins_to_press(now_ns, bytes)) return;
    (void)attempt([&] {
        Warn warn;
        {
            const std::lock_guard lock(mutex_);
            warn = warn_;
        }
        if (warn) warn(deadline_.warning(now_ns, bytes));
        for (const auto& file : open_files()) (void)file->press();
        return Status::ok();
    });
}

bool Engine::State::deadline_presses() noexcept {
    look_at_deadline();
    return deadline_.presses();
}

// What one target write carries at most is always fine.
bool Engine::State::too_much_for_deadline() noexcept {
    if (!deadline_presses()) return false;
    return pending_bytes() > std::max(deadline_.allowance_bytes(monotonic_ns()), loaded_.options.write_max);
}

}   // namespace forebay::stage
