// Tasks run after their parents and on their side of every barrier.
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

// Figure 3 of the Compactor paper, as its text reads it: T2 needs T1; T4 and T5 may run at the same time after T3;
// T11 needs T8 or T9; barrier task BT13 needs T1 to T12; what comes after it needs the barrier.
TEST(TaskOrder, the_graph_of_figure_3_runs_as_the_paper_reads_it) {
    Gate t3_may_end, t4_and_t5, t8_may_end;
    Journal journal;
    Engine engine({.threads_max = 4});
    const auto noted = [&](const char* name, Gate& gate) {
        return [&gate, note = journal.note(name)] {
            EXPECT_TRUE(gate.pass());
            return note();
        };
    };
    const Task t1 = submit(engine, {.run = journal.note("T1")});
    const Task t2 = submit(engine, {.run = journal.note("T2"), .parents = {{t1}}});
    const Task t3 = submit(engine, {.run = noted("T3", t3_may_end)});
    const Task t4 = submit(engine, {.run = noted("T4", t4_and_t5), .parents = {{t3}}});
    const Task t5 = submit(engine, {.run = noted("T5", t4_and_t5), .parents = {{t3}}});
    const Task t6 = submit(engine, {.run = journal.note("T6")});
    const Task t7 = submit(engine, {.run = journal.note("T7"), .parents = {{t6}}});
    const Task t8 = submit(engine, {.run = noted("T8", t8_may_end)});
    const Task t9 = submit(engine, {.run = journal.note("T9"), .parents = {{t7}}});
    const Task t10 = submit(engine, {.run = journal.note("T10")});
    const std::vector<Task> either{t8, t9};
    const Task t11 = submit(engine, {.run = journal.note("T11"), .sufficient_parents = either});
    const Task t12 = submit(engine, {.run = journal.note("T12"), .parents = {{t11}}});
    const Task bt13 = submit(engine, {.run = journal.note("BT13"), .barrier = true});
    const Task t14 = submit(engine, {.run = journal.note("T14")});

    EXPECT_TRUE(engine.wait(t2));
    EXPECT_EQ(t4.state(), State::kWaiting);
    EXPECT_EQ(t5.state(), State::kWaiting);
    t3_may_end.open();
    EXPECT_TRUE(t4_and_t5.wait_for_arrivals(2));   // both run
    t4_and_t5.open();
    EXPECT_TRUE(engine.wait(t12));   // T9 was enough
    EXPECT_EQ(t8.state(), State::kRunning);
    EXPECT_TRUE(engine.wait(t10));
    EXPECT_EQ(bt13.state(), State::kWaiting);   // for T8
    EXPECT_EQ(t14.state(), State::kWaiting);
    t8_may_end.open();
    EXPECT_TRUE(engine.wait_all());

    EXPECT_LT(journal.at("T1"), journal.at("T2"));
    EXPECT_LT(journal.at("T9"), journal.at("T11"));
    EXPECT_LT(journal.at("T11"), journal.at("T8"));
    EXPECT_EQ(journal.at("BT13"), 12);
    EXPECT_EQ(journal.at("T14"), 13);
}

TEST(TaskOrder, what_may_begin_begins_in_the_order_in_which_it_became_free_to) {
    Gate gate;
    Journal journal;
    Engine engine({.threads_max = 1});
    const Task first = submit(engine, {.run = pass(gate)});
    submit(engine, {.run = journal.note("child 1"), .parents = {{first}}});
    submit(engine, {.run = journal.note("a")});
    submit(engine, {.run = journal.note("b")});
    submit(engine, {.run = journal.note("child 2"), .parents = {{first}}});
    gate.open();
    EXPECT_TRUE(engine.wait_all());
    EXPECT_THAT(journal.names(), ElementsAre("a", "b", "child 1", "child 2"));
}

TEST(TaskOrder, all_necessary_parents_and_one_sufficient_one_are_waited_for) {
    Gate one, two, three;
    Engine engine({.threads_max = 3});
    const Task a = submit(engine, {.run = pass(one)}), b = submit(engine, {.run = pass(two)});
    const Task c = submit(engine, {.run = pass(three)});
    const std::vector<Task> necessary{a}, sufficient{b, c};
    const Task child = submit(engine, {.run = nothing, .parents = necessary, .sufficient_parents = sufficient});
    three.open();
    EXPECT_TRUE(engine.wait(c));
    EXPECT_EQ(child.state(), State::kWaiting);
    one.open();
    EXPECT_TRUE(engine.wait(child));
    EXPECT_EQ(b.state(), State::kRunning);
    two.open();
}

TEST(TaskOrder, a_parent_may_have_ended_before_its_child_is_submitted) {
    Engine engine({.threads_max = 1});
    const Task parent = submit(engine, {.run = nothing});
    EXPECT_TRUE(engine.wait(parent));
    const Task child = submit(engine, {.run = nothing, .parents = {{parent}}});
    const Task other = submit(engine, {.run = nothing, .sufficient_parents = {{parent}}});
    EXPECT_TRUE(engine.wait(child));
    EXPECT_TRUE(engine.wait(other));
}

TEST(TaskOrder, a_parent_named_twice_is_waited_for_once) {
    Gate gate;
    Engine engine({.threads_max = 1});
    const Task parent = submit(engine, {.run = pass(gate)});
    const std::vector<Task> twice{parent, parent};
    const Task child = submit(engine, {.run = nothing, .parents = twice, .sufficient_parents = twice});
    gate.open();
    EXPECT_TRUE(engine.wait(child));
}

TEST(TaskOrder, a_chain_longer_than_a_stack_is_deep_runs_to_its_end) {
    constexpr int kLength = 200000;
    Gate gate;
    std::atomic<int> ran{0};
    Engine engine({.threads_max = 2});
    Task last = submit(engine, {.run = pass(gate)});
    for (int i = 0; i < kLength; ++i)
        last = submit(engine, {.run = [&] { return ++ran, Status::ok(); }, .parents = {{last}}});
    gate.open();
    EXPECT_TRUE(engine.wait(last));
    EXPECT_EQ(ran, kLength);
}

TEST(TaskOrder, a_running_task_may_submit_tasks_and_name_itself_as_their_parent) {
    Gate submitted;
    Task parent, child;
    Engine engine({.threads_max = 2});
    parent = submit(engine, {.run = [&] {
                        EXPECT_TRUE(submitted.pass());
                        child = submit(engine, {.run = nothing, .parents = {{parent}}});
                        EXPECT_EQ(child.state(), State::kWaiting);
                        return Status::ok();
                    }});
    submitted.open();
    EXPECT_TRUE(engine.wait_all());
    EXPECT_EQ(child.state(), State::kDone);
}

TEST(TaskBarrier, tasks_before_a_barrier_end_before_it_and_tasks_after_it_begin_after_it) {
    Gate before, barrier;
    Engine engine({.threads_max = 4});
    const Task a = submit(engine, {.run = pass(before)}), b = submit(engine, {.run = nothing});
    const Task middle = submit(engine, {.run = pass(barrier), .barrier = true});
    const Task c = submit(engine, {.run = nothing}), d = submit(engine, {.run = nothing, .parents = {{a}}});
    EXPECT_TRUE(engine.wait(b));
    EXPECT_EQ(middle.state(), State::kWaiting);
    EXPECT_EQ(c.state(), State::kWaiting);
    before.open();
    EXPECT_TRUE(barrier.wait_for_arrivals(1));
    EXPECT_EQ(a.state(), State::kDone);
    EXPECT_EQ(c.state(), State::kWaiting);
    EXPECT_EQ(d.state(), State::kWaiting);
    barrier.open();
    EXPECT_TRUE(engine.wait(c));
    EXPECT_TRUE(engine.wait(d));
}

TEST(TaskBarrier, barriers_with_nothing_between_them_run_in_turn) {
    Gate gate;
    Journal journal;
    Engine engine({.threads_max = 4});
    submit(engine, {.run = pass(gate)});
    for (const char* name : {"1", "2", "3"}) submit(engine, {.run = journal.note(name), .barrier = true});
    submit(engine, {.run = journal.note("after")});
    gate.open();
    EXPECT_TRUE(engine.wait_all());
    EXPECT_THAT(journal.names(), ElementsAre("1", "2", "3", "after"));
}

TEST(TaskBarrier, a_barrier_in_an_empty_engine_runs_at_once) {
    Engine engine({.threads_max = 1});
    EXPECT_TRUE(engine.wait(submit(engine, {.run = nothing, .barrier = true})));
    EXPECT_TRUE(engine.wait(submit(engine, {.run = nothing})));
}

TEST(TaskBarrier, what_a_task_before_a_barrier_submits_comes_after_the_barrier) {
    Gate gate;
    Journal journal;
    Engine engine({.threads_max = 2});
    submit(engine, {.run = [&] {
               EXPECT_TRUE(gate.pass());
               submit(engine, {.run = journal.note("late")});
               return Status::ok();
           }});
    submit(engine, {.run = journal.note("barrier"), .barrier = true});
    gate.open();
    EXPECT_TRUE(engine.wait_all());
    EXPECT_THAT(journal.names(), ElementsAre("barrier", "late"));
}

}   // namespace
}   // namespace forebay::task
