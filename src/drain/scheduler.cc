#include "drain/scheduler.h"

#include <algorithm>
#include <new>
#include <system_error>

namespace forebay::drain {

Scheduler::Scheduler(std::size_t threads) : threads_max_(std::max<std::size_t>(1, threads)) {}

Scheduler::~Scheduler() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        for (auto& thread : threads_) thread.request_stop();
    }
    ready_.notify_all();
}

bool Scheduler::wake(const std::shared_ptr<Source>& source) {
    const std::lock_guard lock(mutex_);
    if (source->queued_) return true;   // a thread is on its way to it, or comes to it next
    // An idle thread may be on its way to what is queued already.
    if (idle_ <= queue_.size()) start_thread_locked();
    if (threads_.empty()) return false;
    queue_.push_back(source);
    source->queued_ = true;
    ready_.notify_one();
    return true;
}

// Starts one more thread if there may be one.
void Scheduler::start_thread_locked() {
    if (threads_.size() < threads_max_ && !stopping_) {
        try {
            threads_.emplace_back([this](const std::stop_token& stop) { serve(stop); });
        } catch (const std::system_error&) {
            // Fewer threads than wanted serve as well, only slower.
        }
    }
}

void Scheduler::serve(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    for (;;) {
        ++idle_;
        const bool found = ready_.wait(lock, stop, [this] { return !queue_.empty(); });
        --idle_;
        if (!found || stop.stop_requested()) return;
        const std::shared_ptr<Source> source = std::move(queue_.front());
        queue_.pop_front();
        source->queued_ = false;
        lock.unlock();
        Source::Taken taken;
        try {
            taken = source->take();
            if (taken.more) wake(source);
        } catch (const std::bad_alloc&) {
            // What was not taken, or not queued, is woken again with the next write, at the latest at close.
        }
        if (taken.work) taken.work->run();
        lock.lock();
    }
}

void Scheduler::forget_threads() noexcept {
    // Destroying a joinable thread object that has no thread behind it would end the process.
    for (auto& thread : threads_) new std::jthread(std::move(thread));
    threads_.clear();
}

}   // namespace forebay::drain
