#include "drain/scheduler.h"

#include <new>

namespace forebay::drain {

Scheduler::Scheduler(std::size_t threads) : engine_({.threads_max = threads}) {}

bool Scheduler::wake(const std::shared_ptr<Source>& source) {
    if (source->queued_.exchange(true)) return true;   // a thread is on its way to it, or comes to it next
    try {
        const task::Submitted queued = engine_.submit({.run = [this, source] {
            serve(source);
            return Status::ok();
        }});
        // Nobody waits for the task: without a thread it would stay where it is.
        if (queued.has_thread || (queued.task && !engine_.cancel(queued.task))) return true;
    } catch (const std::bad_alloc&) {
        // As good as no thread.
    }
    source->queued_.exchange(false);
    return false;
}

void Scheduler::carry_out(std::unique_ptr<Work> work) {
    std::shared_ptr<Work> shared;
    try {
        shared = std::move(work);   // or leaves it where it is
        const task::Submitted queued = engine_.submit({.run = [shared] {
            shared->run();
            return Status::ok();
        }});
        if (queued.has_thread || (queued.task && !engine_.cancel(queued.task))) return;
    } catch (const std::bad_alloc&) {
        // As good as no thread.
    }
    (shared ? *shared : *work).run();
}

void Scheduler::serve(const std::shared_ptr<Source>& source) {
    // Before take(): what others did before they found it queued is seen there, and who comes later queues it.
    source->queued_.exchange(false);
    Source::Taken taken;
    try {
        taken = source->take();
        if (taken.more) wake(source);
    } catch (const std::bad_alloc&) {
        // What was not taken, or not queued, is woken again with the next write, at the latest at close.
    }
    if (taken.work) taken.work->run();
}

}   // namespace forebay::drain
