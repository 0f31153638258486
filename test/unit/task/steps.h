// What tests of the task engine are made of: tasks that wait for the test, and a record of what ran.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "support/no_thread.h"
#include "task/engine.h"

namespace forebay::test {

// How long to wait before saying that something which must happen does not.
inline constexpr std::chrono::seconds kPatience{60};

// Holds whoever comes until it is opened.
class Gate {
  public:
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    // False: it was not opened.
    [[nodiscard]] bool pass() {
        std::unique_lock lock(mutex_);
        ++arrived_;
        changed_.notify_all();
        return changed_.wait_for(lock, kPatience, [this] { return open_; });
    }
    // Until so many have come; false: they have not.
    [[nodiscard]] bool wait_for_arrivals(std::size_t count) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, kPatience, [&] { return arrived_ >= count; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
    std::size_t arrived_ = 0;
};

// What ran, in order.
class Journal {
  public:
    // A task's function that notes its name.
    [[nodiscard]] std::function<Status()> note(std::string name) {
        return [this, name = std::move(name)] {
            const std::lock_guard lock(mutex_);
            names_.push_back(name);
            return Status::ok();
        };
    }
    [[nodiscard]] std::vector<std::string> names() const {
        const std::lock_guard lock(mutex_);
        return names_;
    }
    // Position of a name, or the number of names if it is not there.
    [[nodiscard]] std::ptrdiff_t at(const std::string& name) const {
        const std::lock_guard lock(mutex_);
        return std::find(names_.begin(), names_.end(), name) - names_.begin();
    }

  private:
    mutable std::mutex mutex_;
    std::vector<std::string> names_;
};

[[nodiscard]] inline std::function<Status()> pass(Gate& gate) {
    return [&gate] {
        EXPECT_TRUE(gate.pass()) << "the gate stayed shut";
        return Status::ok();
    };
}

[[nodiscard]] inline Status nothing() { return Status::ok(); }

inline task::Task submit(task::Engine& engine, task::Request request) {
    task::Submitted submitted = engine.submit(std::move(request));
    EXPECT_TRUE(submitted.status) << submitted.status.message();
    return submitted.task;
}

}   // namespace forebay::test
