#include "task/thread_crew.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "base/background_thread.h"

namespace forebay::task {
namespace {

std::jthread start_plain_thread(std::function<void()> serve) { return start_background_thread(std::move(serve)); }

}   // namespace

ThreadCrew::ThreadCrew(Limits limits, std::function<void()> serve)
    : threads_max_(std::max<std::size_t>(1, limits.threads_max)),
      idle_max_(limits.idle_max),
      start_thread_(limits.start_thread ? std::move(limits.start_thread) : start_plain_thread),
      serve_(std::move(serve)) {}

ThreadCrew::~ThreadCrew() {
    for (auto* threads : {&left_, &threads_})
        for (std::jthread& thread : *threads) thread.join();
}

void ThreadCrew::summon(std::size_t tasks) {
    while (looking_ < tasks) {
        if (asleep_ > 0) {
            --asleep_;
            ++summonses_;
            ++looking_;
            ready_.notify_one();
        } else if (!start_thread()) {
            break;
        }
    }
}

void ThreadCrew::assist(std::size_t tasks) {
    if (asleep_ > 0 || looking_ >= tasks || threads_.size() < threads_max_) return;
    ++threads_max_;
    summon(tasks);
}

void ThreadCrew::stop() noexcept {
    stopping_ = true;
    ready_.notify_all();
}

bool ThreadCrew::await_summons(std::unique_lock<std::mutex>& lock) {
    --looking_;
    ++asleep_;
    const auto called = [this] { return summonses_ > 0 || stopping_; };
    if (idle_max_ == std::chrono::milliseconds::max()) {
        ready_.wait(lock, called);
    } else if (!ready_.wait_for(lock, idle_max_, called)) {
        --asleep_;
        const auto self = std::ranges::find(threads_, std::this_thread::get_id(), &std::jthread::get_id);
        left_.push_back(std::move(*self));   // start_thread reserved the space
        threads_.erase(self);
    }
    if (summonses_ == 0) return false;
    --summonses_;
    return true;
}

bool ThreadCrew::start_thread() {
    if (stopping_ || threads_.size() >= threads_max_) return false;
    try {
        for (std::jthread& thread : left_) thread.join();   // they take no lock by now
        left_.clear();
        threads_.reserve(threads_.size() + 1);   // reserve first: a thread that cannot be kept must not start
        left_.reserve(threads_.size() + 1);
        threads_.push_back(start_thread_(serve_));
    } catch (const std::system_error&) {
        return false;
    } catch (const std::bad_alloc&) {
        return false;
    }
    ++looking_;
    return true;
}

}   // namespace forebay::task
