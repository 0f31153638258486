// Running tasks carry no more bytes than the budget says, and all of them get their turn.
#include <gmock/gmock.h>

#include <atomic>

#include "unit/task/steps.h"

namespace forebay::task {
namespace {

using test::Gate;
using test::Journal;
using test::nothing;
using test::pass;
using test::submit;
using ::testing::ElementsAre;

// Until a task without bytes has run. What was submitted before it and fits has then begun.
void let_begin_what_fits(Engine& engine) { EXPECT_TRUE(engine.wait(submit(engine, {.run = nothing}))); }

TEST(TaskBudget, tasks_that_fit_together_run_together_and_the_next_one_waits) {
    Gate first, third;
    Engine engine({.threads_max = 4, .budget_bytes = 100});
    const Task a = submit(engine, {.run = pass(first), .bytes = 60}),
               b = submit(engine, {.run = pass(first), .bytes = 40});
    EXPECT_TRUE(first.wait_for_arrivals(2));
    const Task c = submit(engine, {.run = pass(third), .bytes = 1});
    let_begin_what_fits(engine);
    EXPECT_EQ(c.state(), State::kScheduled);
    first.open();
    EXPECT_TRUE(third.wait_for_arrivals(1));
    third.open();
    EXPECT_TRUE(engine.wait_all());
}

TEST(TaskBudget, a_task_larger_than_the_budget_runs_alone_and_is_not_overtaken) {
    Gate small, large;
    Journal journal;
    Engine engine({.threads_max = 4, .budget_bytes = 100});
    submit(engine, {.run = pass(small), .bytes = 10});
    EXPECT_TRUE(small.wait_for_arrivals(1));
    const Task huge = submit(engine, {.run = pass(large), .bytes = 1000});
    const Task behind = submit(engine, {.run = journal.note("behind"), .bytes = 1});
    const Task free = submit(engine, {.run = journal.note("without bytes")});
    EXPECT_TRUE(engine.wait(free));
    EXPECT_EQ(huge.state(), State::kScheduled);
    EXPECT_EQ(behind.state(), State::kScheduled);
    small.open();
    EXPECT_TRUE(large.wait_for_arrivals(1));
    let_begin_what_fits(engine);
    EXPECT_EQ(behind.state(), State::kScheduled);
    large.open();
    EXPECT_TRUE(engine.wait(behind));
    EXPECT_THAT(journal.names(), ElementsAre("without bytes", "behind"));
}

TEST(TaskBudget, the_end_of_a_large_task_lets_all_begin_that_now_fit) {
    Gate large, small;
    Engine engine({.threads_max = 4, .budget_bytes = 100});
    submit(engine, {.run = pass(large), .bytes = 100});
    EXPECT_TRUE(large.wait_for_arrivals(1));
    for (int i = 0; i < 4; ++i) submit(engine, {.run = pass(small), .bytes = 25});
    large.open();
    EXPECT_TRUE(small.wait_for_arrivals(4));
    small.open();
    EXPECT_TRUE(engine.wait_all());
}

TEST(TaskBudget, canceling_the_one_that_does_not_fit_lets_those_behind_it_begin) {
    Gate small, behind;
    Engine engine({.threads_max = 2, .budget_bytes = 100});
    submit(engine, {.run = pass(small), .bytes = 10});
    EXPECT_TRUE(small.wait_for_arrivals(1));
    const Task huge = submit(engine, {.run = nothing, .bytes = 100});
    submit(engine, {.run = pass(behind), .bytes = 10});
    EXPECT_TRUE(engine.cancel(huge));
    EXPECT_TRUE(behind.wait_for_arrivals(1));
    small.open();
    behind.open();
    EXPECT_TRUE(engine.wait_all());
}

TEST(TaskBudget, the_budget_of_nothing_lets_one_task_with_bytes_run_at_a_time) {
    std::atomic<int> running{0}, highest{0};
    Engine engine({.threads_max = 4, .budget_bytes = 0});
    for (int i = 0; i < 500; ++i)
        submit(engine, {.run =
                            [&] {
                                highest = std::max(highest.load(), ++running);
                                --running;
                                return Status::ok();
                            },
                        .bytes = 1});
    EXPECT_TRUE(engine.wait_all());
    EXPECT_EQ(highest, 1);
}

TEST(TaskBudget, numbers_of_bytes_near_the_largest_do_not_wrap_around) {
    constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
    Gate gate;
    Engine engine({.threads_max = 2, .budget_bytes = kMost - 1});
    submit(engine, {.run = pass(gate), .bytes = kMost});
    EXPECT_TRUE(gate.wait_for_arrivals(1));
    const Task second = submit(engine, {.run = nothing, .bytes = kMost});
    let_begin_what_fits(engine);
    EXPECT_EQ(second.state(), State::kScheduled);
    gate.open();
    EXPECT_TRUE(engine.wait(second));
}

TEST(TaskBudget, a_waiting_caller_keeps_to_the_budget_too_when_there_is_no_thread) {
    Gate gate;
    Engine engine({.budget_bytes = 100, .start_thread = test::no_thread});
    const Task a = submit(engine, {.run = pass(gate), .bytes = 80}), b = submit(engine, {.run = nothing, .bytes = 80});
    std::jthread first([&] { EXPECT_TRUE(engine.wait(a)); });
    EXPECT_TRUE(gate.wait_for_arrivals(1));
    let_begin_what_fits(engine);   // by this thread
    EXPECT_EQ(b.state(), State::kScheduled);
    gate.open();
    EXPECT_TRUE(engine.wait(b));
}

}   // namespace
}   // namespace forebay::task
