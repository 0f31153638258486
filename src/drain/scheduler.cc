#include "drain/scheduler.h"

#include <new>

namespace forebay::drain {

Scheduler::Scheduler(std::size_t threads) : engine_({.threads_max = threads}) {}

bool Scheduler::wake(const std::shared_ptr<WorkSource>& source) {
    if (source->queued_.exchange(true)) return true;   // a thread is about to take from it
    try {
        const task::Submitted queued = engine_.submit({.run = [this, source] {
            serve(source);
            return Status::ok();
        }});
        // No call waits for the task, so without a thread it would never run.
        if (queued.has_thread || (queued.task && !engine_.cancel(queued.task))) return true;
    } catch (const std::bad_alloc&) {
        // No memory counts as no thread.
    }
    source->queued_.exchange(false);
    return false;
}

void Scheduler::carry_out(std::unique_ptr<Work> work) {
    std::shared_ptr<Work> shared;
    try {
        shared = std::move(work);   // moves nothing if it throws
        const task::Submitted queued = engine_.submit({.run = [shared] {
            shared->run();
            return Status::ok();
        }});
        if (queued.has_thread || (queued.task && !engine_.cancel(queued.task))) return;
    } catch (const std::bad_alloc&) {
    }
    (shared ? *shared : *work).run();
}

void Scheduler::serve(const std::shared_ptr<WorkSource>& source) {
    // Clear it before take(): take() then sees changes of callers that found it queued, and later callers queue it.
    source->queued_.exchange(false);
    WorkSource::Taken taken;
    try {
        taken = source->take();
        if (taken.more) wake(source);
    } catch (const std::bad_alloc&) {
        // The next write, or the close, wakes the source again.
    }
    if (taken.work) taken.work->run();
}

}   // namespace forebay::drain
