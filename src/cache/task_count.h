// Counts the tasks of one file. A task counts until the engine has destroyed it with all that it owns.
// Thread-safe: a lock of its own, taken alone. Only `await_none` blocks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

namespace forebay::cache {

class TaskCount {
  public:
    // One task. It stands before all else that the task owns, so it ends last.
    class Entry {
      public:
        explicit Entry(std::shared_ptr<TaskCount> count) noexcept : count_(std::move(count)) {
            const std::lock_guard lock(count_->mutex_);
            ++count_->tasks_;
        }
        ~Entry() {
            const std::lock_guard lock(count_->mutex_);
            if (--count_->tasks_ == 0) count_->none_.notify_all();
        }
        Entry(const Entry&) = delete;
        Entry& operator=(const Entry&) = delete;

      private:
        const std::shared_ptr<TaskCount> count_;
    };

    // Blocks until there is no task, or until the time given.
    void await_none(std::chrono::steady_clock::time_point until) {
        std::unique_lock lock(mutex_);
        none_.wait_until(lock, until, [this] { return tasks_ == 0; });
    }

  private:
    std::mutex mutex_;   // guards `tasks_`
    std::condition_variable none_;
    std::size_t tasks_ = 0;
};

}   // namespace forebay::cache
