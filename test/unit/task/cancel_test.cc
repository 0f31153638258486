// What is canceled never runs; what that means for others.
#include <gmock/gmock.h>

#include "unit/task/steps.h"

namespace forebay::task {
namespace {

using test::Gate;
using test::Journal;
using test::nothing;
using test::pass;
using test::submit;
using ::testing::ElementsAre;

// One thread, which a task holds: nothing else runs until the gate is opened.
class TaskCancel : public testing::Test {
  protected:
    void SetUp() override {
        holding = submit(engine, {.run = pass(gate)});
        ASSERT_TRUE(gate.wait_for_arrivals(1));
    }
    void TearDown() override { gate.open(); }

    Gate gate;
    Journal journal;
    Engine engine{{.threads_max = 1}};
    Task holding;
};

TEST_F(TaskCancel, a_scheduled_task_is_canceled_and_never_runs) {
    const Task task = submit(engine, {.run = journal.note("never")});
    EXPECT_EQ(task.state(), State::kScheduled);
    EXPECT_TRUE(engine.cancel(task));
    EXPECT_EQ(task.state(), State::kCanceled);
    EXPECT_EQ(engine.wait(task).code(), Code::kUnavailable);
    gate.open();
    EXPECT_TRUE(engine.wait_all());
    EXPECT_THAT(journal.names(), ElementsAre());
}

TEST_F(TaskCancel, a_waiting_task_is_canceled_and_its_parent_is_not) {
    const Task child = submit(engine, {.run = journal.note("child"), .parents = {{holding}}});
    EXPECT_TRUE(engine.cancel(child));
    EXPECT_EQ(holding.state(), State::kRunning);
    gate.open();
    EXPECT_TRUE(engine.wait(holding));
    EXPECT_TRUE(engine.wait_all());
    EXPECT_THAT(journal.names(), ElementsAre());
}

TEST_F(TaskCancel, a_running_task_and_a_done_one_cannot_be_canceled) {
    EXPECT_FALSE(engine.cancel(holding));
    gate.open();
    EXPECT_TRUE(engine.wait(holding));
    EXPECT_FALSE(engine.cancel(holding));
    EXPECT_EQ(holding.state(), State::kDone);
}

TEST_F(TaskCancel, a_task_can_be_canceled_again) {
    const Task task = submit(engine, {.run = nothing});
    EXPECT_TRUE(engine.cancel(task));
    EXPECT_TRUE(engine.cancel(task));
}

TEST_F(TaskCancel, the_function_is_destroyed_when_cancel_returns) {
    const auto held = std::make_shared<int>(1);
    const Task task = submit(engine, {.run = [held] { return Status::ok(); }});
    const Task child = submit(engine, {.run = [held] { return Status::ok(); }, .parents = {{task}}});
    EXPECT_EQ(held.use_count(), 3);
    EXPECT_TRUE(engine.cancel(task));
    EXPECT_EQ(held.use_count(), 1);
}

TEST_F(TaskCancel, the_children_of_a_canceled_task_are_canceled_with_it_and_theirs_too) {
    const Task parent = submit(engine, {.run = nothing});
    const std::vector<Task> both{parent, holding};
    const Task child = submit(engine, {.run = nothing, .parents = both});
    const Task grandchild = submit(engine, {.run = nothing, .parents = {{child}}});
    EXPECT_TRUE(engine.cancel(parent));
    EXPECT_EQ(child.state(), State::kCanceled);
    EXPECT_EQ(grandchild.state(), State::kCanceled);
}

TEST_F(TaskCancel, a_task_is_canceled_with_the_last_of_its_sufficient_parents) {
    const Task a = submit(engine, {.run = nothing}), b = submit(engine, {.run = nothing});
    const std::vector<Task> either{a, b};
    const Task child = submit(engine, {.run = nothing, .sufficient_parents = either});
    EXPECT_TRUE(engine.cancel(a));
    EXPECT_EQ(child.state(), State::kWaiting);
    EXPECT_TRUE(engine.cancel(b));
    EXPECT_EQ(child.state(), State::kCanceled);
}

TEST_F(TaskCancel, a_task_runs_after_the_sufficient_parent_that_is_left) {
    const Task a = submit(engine, {.run = nothing}), b = submit(engine, {.run = nothing});
    const std::vector<Task> either{a, b};
    const Task child = submit(engine, {.run = nothing, .sufficient_parents = either});
    EXPECT_TRUE(engine.cancel(a));
    gate.open();
    EXPECT_TRUE(engine.wait(child));
}

TEST_F(TaskCancel, a_child_submitted_after_its_parent_was_canceled_is_canceled_at_once) {
    const Task parent = submit(engine, {.run = nothing});
    EXPECT_TRUE(engine.cancel(parent));
    EXPECT_EQ(submit(engine, {.run = nothing, .parents = {{parent}}}).state(), State::kCanceled);
    EXPECT_EQ(submit(engine, {.run = nothing, .sufficient_parents = {{parent}}}).state(), State::kCanceled);
    const std::vector<Task> either{parent, holding};
    EXPECT_EQ(submit(engine, {.run = nothing, .sufficient_parents = either}).state(), State::kWaiting);
}

TEST_F(TaskCancel, a_long_chain_is_canceled_with_its_first_task) {
    const Task first = submit(engine, {.run = nothing});
    Task last = first;
    for (int i = 0; i < 200000; ++i) last = submit(engine, {.run = nothing, .parents = {{last}}});
    EXPECT_TRUE(engine.cancel(first));
    EXPECT_EQ(last.state(), State::kCanceled);
}

TEST_F(TaskCancel, a_canceled_barrier_does_not_run_and_still_keeps_the_order) {
    const Task barrier = submit(engine, {.run = journal.note("barrier"), .barrier = true});
    const Task after = submit(engine, {.run = journal.note("after")});
    EXPECT_TRUE(engine.cancel(barrier));
    EXPECT_EQ(barrier.state(), State::kCanceled);
    EXPECT_EQ(after.state(), State::kWaiting);
    gate.open();
    EXPECT_TRUE(engine.wait(after));
    EXPECT_EQ(holding.state(), State::kDone);
    EXPECT_THAT(journal.names(), ElementsAre("after"));
}

TEST_F(TaskCancel, a_barrier_does_not_wait_for_what_was_canceled_before_it) {
    const Task before = submit(engine, {.run = nothing});
    const Task barrier = submit(engine, {.run = journal.note("barrier"), .barrier = true});
    submit(engine, {.run = journal.note("after")});
    EXPECT_TRUE(engine.cancel(before));
    EXPECT_EQ(barrier.state(), State::kWaiting);
    gate.open();
    EXPECT_TRUE(engine.wait_all());
    EXPECT_THAT(journal.names(), ElementsAre("barrier", "after"));
}

TEST_F(TaskCancel, a_barrier_goes_with_its_own_parent_and_the_next_section_comes) {
    const Task parent = submit(engine, {.run = nothing});
    const Task barrier = submit(engine, {.run = journal.note("barrier"), .parents = {{parent}}, .barrier = true});
    const Task child = submit(engine, {.run = journal.note("child"), .parents = {{barrier}}});
    const Task after = submit(engine, {.run = journal.note("after")});
    gate.open();
    EXPECT_TRUE(engine.wait(parent).is_ok() || parent.state() == State::kDone);
    EXPECT_TRUE(engine.wait_all());
    EXPECT_THAT(journal.names(), ElementsAre("barrier", "child", "after"));

    Gate second;
    submit(engine, {.run = pass(second)});
    EXPECT_TRUE(second.wait_for_arrivals(1));
    const Task doomed = submit(engine, {.run = nothing});
    const Task doomed_barrier = submit(engine, {.run = journal.note("never"), .parents = {{doomed}}, .barrier = true});
    const Task late = submit(engine, {.run = journal.note("late")});
    EXPECT_TRUE(engine.cancel(doomed));
    EXPECT_EQ(doomed_barrier.state(), State::kCanceled);
    EXPECT_EQ(late.state(), State::kWaiting);
    second.open();
    EXPECT_TRUE(engine.wait(late));
    EXPECT_THAT(journal.names(), ElementsAre("barrier", "child", "after", "late"));
}

TEST_F(TaskCancel, the_last_task_before_a_barrier_and_the_barrier_may_go_together) {
    gate.open();
    EXPECT_TRUE(engine.wait_all());
    // Without a thread, all of it happens while the lock is held once.
    Engine threadless({.start_thread = test::no_thread});
    const Task parent = submit(threadless, {.run = journal.note("parent")});
    submit(threadless, {.run = journal.note("barrier"), .parents = {{parent}}, .barrier = true});
    submit(threadless, {.run = journal.note("second barrier"), .barrier = true});
    const Task after = submit(threadless, {.run = journal.note("after")});
    EXPECT_TRUE(threadless.cancel(parent));
    EXPECT_TRUE(threadless.wait(after));
    EXPECT_THAT(journal.names(), ElementsAre("second barrier", "after"));
}

TEST_F(TaskCancel, whoever_waits_for_a_task_that_is_canceled_is_told) {
    const Task task = submit(engine, {.run = nothing});
    Status told;
    Gate about_to_wait;
    std::jthread waiter([&] {
        EXPECT_TRUE(about_to_wait.pass());
        told = engine.wait(task);
    });
    EXPECT_TRUE(about_to_wait.wait_for_arrivals(1));
    about_to_wait.open();
    EXPECT_TRUE(engine.cancel(task));
    waiter.join();
    EXPECT_EQ(told.code(), Code::kUnavailable);
}

TEST(TaskEnd, an_engine_that_ends_cancels_what_has_not_begun_and_waits_for_what_runs) {
    Gate gate;
    // The end has begun when it destroys the function of a task that it has canceled.
    struct OpensAtItsEnd {
        explicit OpensAtItsEnd(Gate& opened) : gate(opened) {}
        ~OpensAtItsEnd() { gate.open(); }
        Gate& gate;
    };
    auto opener = std::make_shared<OpensAtItsEnd>(gate);
    Task running, scheduled, child, barrier, after, submitted_late;
    {
        Engine engine({.threads_max = 1});
        running = submit(engine, {.run = [&] {
                             EXPECT_TRUE(gate.pass());
                             submitted_late = submit(engine, {.run = nothing});
                             return Status::ok();
                         }});
        EXPECT_TRUE(gate.wait_for_arrivals(1));
        scheduled = submit(engine, {.run = [opener = std::move(opener)] { return Status::ok(); }});
        child = submit(engine, {.run = nothing, .parents = {{running}}});
        barrier = submit(engine, {.run = nothing, .barrier = true});
        after = submit(engine, {.run = nothing});
    }
    EXPECT_EQ(running.state(), State::kDone);
    for (const Task& task : {scheduled, child, barrier, after, submitted_late})
        EXPECT_EQ(task.state(), State::kCanceled);
}

}   // namespace
}   // namespace forebay::task
