// Random graphs of tasks: every task runs once or is canceled as the rules say, after its parents, on its side of
// every barrier, and never beyond the budget, with any number of threads, also with none.
#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "task/engine.h"

namespace forebay::task {
namespace {

// One task, and what the test does with it.
struct Plan {
    std::vector<std::size_t> parents, sufficient;   // earlier tasks
    std::uint64_t bytes = 0;
    bool barrier = false, fails = false;
    bool waits = false;                 // until it has ended, before the next one is submitted
    std::vector<std::size_t> cancels;   // tasks that are canceled then
};

struct Observed {
    std::atomic<int> runs{0};
    std::uint64_t begin = 0, end = 0;   // stamps
    bool canceled_by_test = false;
    Task task;
};

std::vector<Plan> arbitrary_plan() {
    const auto count = *rc::gen::inRange<std::size_t>(1, 60);
    std::vector<Plan> plans(count);
    const auto chance = [](int percent) { return *rc::gen::inRange(0, 100) < percent; };
    for (std::size_t i = 0; i < count; ++i) {
        Plan& plan = plans[i];
        const auto earlier = [i] { return *rc::gen::inRange<std::size_t>(i > 12 ? i - 12 : 0, i); };
        if (i > 0) {
            for (auto n = *rc::gen::weightedElement<int>({{5, 0}, {4, 1}, {2, 2}, {1, 4}}); n > 0; --n)
                plan.parents.push_back(earlier());
            for (auto n = *rc::gen::weightedElement<int>({{6, 0}, {1, 1}, {2, 2}, {1, 4}}); n > 0; --n)
                plan.sufficient.push_back(earlier());
        }
        plan.bytes = *rc::gen::weightedElement<std::uint64_t>({{3, 0}, {2, 1}, {2, 30}, {2, 60}, {1, 500}});
        plan.barrier = chance(12);
        plan.fails = chance(10);
        plan.waits = chance(4);
        if (chance(12)) plan.cancels.push_back(*rc::gen::inRange<std::size_t>(i > 12 ? i - 12 : 0, i + 1));
    }
    return plans;
}

// Threads of which every nth cannot be had.
StartThread unreliable(std::size_t nth) {
    return [nth, asked = std::size_t{0}](std::function<void()> serve) mutable {
        if (nth > 0 && ++asked % nth == 0)
            throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
        return std::jthread(std::move(serve));
    };
}

class Run {
  public:
    Run(const std::vector<Plan>& plans, std::uint64_t budget_bytes)
        : plans_(plans), budget_bytes_(budget_bytes), seen_(plans.size()) {}

    void submit(Engine& engine, std::size_t i) {
        const Plan& plan = plans_[i];
        const auto tasks = [this](const std::vector<std::size_t>& indices) {
            std::vector<Task> handles;
            for (const std::size_t index : indices) handles.push_back(seen_[index].task);
            return handles;
        };
        const std::vector<Task> parents = tasks(plan.parents), sufficient = tasks(plan.sufficient);
        const Submitted submitted = engine.submit({.run = [this, i] { return body(i); },
                                                   .bytes = plan.bytes,
                                                   .parents = parents,
                                                   .sufficient_parents = sufficient,
                                                   .barrier = plan.barrier});
        RC_ASSERT(submitted.status.is_ok());
        seen_[i].task = submitted.task;
        for (const std::size_t index : plan.cancels)
            if (engine.cancel(seen_[index].task)) seen_[index].canceled_by_test = true;
        if (plan.waits) check_status(i, engine.wait(seen_[i].task));
    }

    // What is canceled then was so by the test.
    void engine_has_ended() {
        for (Observed& seen : seen_)
            if (seen.task.state() == State::kCanceled) seen.canceled_by_test = true;
    }

    void check() const {
        RC_ASSERT(!over_budget_);
        for (std::size_t i = 0; i < plans_.size(); ++i) {
            check_ended(i);
            check_parents(i);
        }
        check_barriers();
    }

  private:
    Status body(std::size_t i) {
        Observed& seen = seen_[i];
        const std::uint64_t bytes = plans_[i].bytes;
        seen.begin = ++clock_;
        ++seen.runs;
        if (bytes > 0) {
            // Both numbers in one, so that they are seen together: tasks in the upper half, bytes in the lower.
            const std::uint64_t now = charged_.fetch_add((std::uint64_t{1} << 32) + bytes) + (std::uint64_t{1} << 32) +
                                      bytes;
            if ((now >> 32) > 1 && (now & 0xffffffff) > budget_bytes_) over_budget_ = true;
        }
        if (i % 3 == 0) std::this_thread::yield();
        if (bytes > 0) charged_.fetch_sub((std::uint64_t{1} << 32) + bytes);
        seen.end = ++clock_;
        return plans_[i].fails ? Status(Code::kIo, "planned") : Status::ok();
    }

    void check_status(std::size_t i, const Status& status) const {
        const bool ran = seen_[i].task.state() == State::kDone;
        RC_ASSERT(status.code() == (!ran ? Code::kUnavailable : plans_[i].fails ? Code::kIo : Code::kOk));
    }

    void check_ended(std::size_t i) const {
        const Observed& seen = seen_[i];
        const State state = seen.task.state();
        RC_ASSERT(has_ended(state));
        RC_ASSERT(seen.runs == (state == State::kDone ? 1 : 0));
        check_status(i, seen.task.status());
    }

    // A task is canceled exactly if the test did so or if its parents can no longer let it run.
    void check_parents(std::size_t i) const {
        const auto canceled = [this](std::size_t index) { return seen_[index].task.state() == State::kCanceled; };
        const Plan& plan = plans_[i];
        const bool doomed = std::any_of(plan.parents.begin(), plan.parents.end(), canceled) ||
                            (!plan.sufficient.empty() &&
                             std::all_of(plan.sufficient.begin(), plan.sufficient.end(), canceled));
        RC_ASSERT(canceled(i) == (doomed || seen_[i].canceled_by_test));
        if (canceled(i)) return;
        for (const std::size_t parent : plan.parents) RC_ASSERT(seen_[parent].end < seen_[i].begin);
        RC_ASSERT(plan.sufficient.empty() ||
                  std::any_of(plan.sufficient.begin(), plan.sufficient.end(), [&](std::size_t parent) {
                      return !canceled(parent) && seen_[parent].end < seen_[i].begin;
                  }));
    }

    void check_barriers() const {
        std::uint64_t ended_before_barrier = 0;   // the last end among the tasks that a barrier separates
        std::uint64_t ended = 0;
        for (std::size_t i = 0; i < plans_.size(); ++i) {
            const bool ran = seen_[i].runs > 0;
            if (plans_[i].barrier) ended_before_barrier = ended;   // canceled or not
            if (ran) RC_ASSERT(ended_before_barrier < seen_[i].begin);
            if (ran) ended = std::max(ended, seen_[i].end);
            if (plans_[i].barrier) ended_before_barrier = ended;
        }
    }

    const std::vector<Plan>& plans_;
    const std::uint64_t budget_bytes_;
    std::vector<Observed> seen_;
    std::atomic<std::uint64_t> clock_{0}, charged_{0};
    std::atomic<bool> over_budget_{false};
};

RC_GTEST_PROP(TaskProperty, every_task_runs_once_in_its_place_or_is_canceled_by_the_rules, ()) {
    const std::vector<Plan> plans = arbitrary_plan();
    const auto threads = *rc::gen::inRange<std::size_t>(1, 5);
    const auto budget_bytes = *rc::gen::element<std::uint64_t>(0, 50, 100, 1000);
    const auto nth = *rc::gen::weightedElement<std::size_t>({{4, 0}, {1, 1}, {1, 2}, {1, 3}});
    Run run(plans, budget_bytes);
    Engine engine({.threads_max = threads, .budget_bytes = budget_bytes, .start_thread = unreliable(nth)});
    for (std::size_t i = 0; i < plans.size(); ++i) run.submit(engine, i);
    RC_ASSERT(engine.wait_all().is_ok());
    run.check();
}

// The same while everything is held back at first, so that canceled and waiting tasks pile up.
RC_GTEST_PROP(TaskProperty, the_rules_hold_when_all_is_submitted_before_anything_runs, ()) {
    std::vector<Plan> plans = arbitrary_plan();
    for (Plan& plan : plans) plan.waits = false;
    const auto budget_bytes = *rc::gen::element<std::uint64_t>(0, 50, 100, 1000);
    const auto waiters = *rc::gen::inRange(1, 4);
    Run run(plans, budget_bytes);
    Engine engine({.budget_bytes = budget_bytes, .start_thread = unreliable(1)});
    for (std::size_t i = 0; i < plans.size(); ++i) run.submit(engine, i);
    {
        std::vector<std::jthread> threads;
        for (int i = 1; i < waiters; ++i) threads.emplace_back([&] { (void)engine.wait_all(); });
        RC_ASSERT(engine.wait_all().is_ok());
    }
    run.check();
}

RC_GTEST_PROP(TaskProperty, an_engine_may_end_at_any_time, ()) {
    const std::vector<Plan> plans = arbitrary_plan();
    const auto threads = *rc::gen::inRange<std::size_t>(1, 5);
    const auto until = *rc::gen::inRange<std::size_t>(0, plans.size() + 1);
    const std::vector<Plan> submitted(plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(until));
    Run run(submitted, 100);
    {
        Engine engine({.threads_max = threads, .budget_bytes = 100});
        for (std::size_t i = 0; i < submitted.size(); ++i) run.submit(engine, i);
    }
    run.engine_has_ended();
    run.check();
}

}   // namespace
}   // namespace forebay::task
