// Waiting, statuses, threads that cannot be had, and forks.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <latch>
#include <stdexcept>

#include "unit/task/steps.h"

namespace forebay::task {
namespace {

using test::Gate;
using test::Journal;
using test::no_thread;
using test::nothing;
using test::pass;
using test::submit;
using ::testing::ElementsAre;

TEST(TaskStatus, wait_returns_what_the_function_returned) {
    Engine engine({.threads_max = 1});
    EXPECT_TRUE(engine.wait(submit(engine, {.run = nothing})));
    const Task failed = submit(engine, {.run = [] { return Status(Code::kIo, "write to x", 5); }});
    const Status status = engine.wait(failed);
    EXPECT_EQ(status.code(), Code::kIo);
    EXPECT_EQ(status.sys_errno(), 5);
    EXPECT_EQ(status.message(), "write to x");
    EXPECT_EQ(failed.state(), State::kDone);
    EXPECT_EQ(failed.status().code(), Code::kIo);
}

TEST(TaskStatus, children_of_a_failed_task_run_and_see_its_status) {
    Engine engine({.threads_max = 1});
    const Task failed = submit(engine, {.run = [] { return Status(Code::kNoSpace, "full"); }});
    const Task child = submit(engine, {.run = [failed] { return failed.status().with_context("after its parent"); },
                                       .parents = {{failed}}});
    EXPECT_EQ(engine.wait(child).code(), Code::kNoSpace);
}

TEST(TaskStatus, an_exception_ends_the_task_and_not_the_thread) {
    Engine engine({.threads_max = 1});
    const Task memory = submit(engine, {.run = []() -> Status { throw std::bad_alloc(); }});
    const Task error = submit(engine, {.run = []() -> Status { throw std::runtime_error("a reason of some length"); }});
    const Task other = submit(engine, {.run = []() -> Status { throw 1; }});
    EXPECT_EQ(engine.wait(memory).code(), Code::kUnavailable);
    EXPECT_EQ(engine.wait(error).code(), Code::kInternal);
    EXPECT_EQ(error.status().message(), "a reason of some length");
    EXPECT_EQ(engine.wait(other).code(), Code::kInternal);
    EXPECT_TRUE(engine.wait(submit(engine, {.run = nothing})));
}

TEST(TaskStatus, states_follow_a_task_from_waiting_to_done) {
    Gate parent_gate, gate;
    Engine engine({.threads_max = 2});
    const Task parent = submit(engine, {.run = pass(parent_gate)});
    const Task task = submit(engine, {.run = pass(gate), .parents = {{parent}}});
    EXPECT_EQ(task.state(), State::kWaiting);
    EXPECT_EQ(task.status().code(), Code::kUnavailable);
    parent_gate.open();
    EXPECT_TRUE(gate.wait_for_arrivals(1));
    EXPECT_EQ(task.state(), State::kRunning);
    gate.open();
    EXPECT_TRUE(engine.wait(task));
    EXPECT_EQ(task.state(), State::kDone);
}

TEST(TaskStatus, what_a_function_holds_is_destroyed_before_its_task_is_done) {
    Engine engine({.threads_max = 2});
    for (int i = 0; i < 1000; ++i) {
        auto held = std::make_shared<int>(i);
        const std::weak_ptr<int> watch = held;
        EXPECT_TRUE(engine.wait(submit(engine, {.run = [held = std::move(held)] { return Status::ok(); }})));
        EXPECT_TRUE(watch.expired());
    }
}

TEST(TaskStatus, a_handle_outlives_its_engine) {
    Task task;
    {
        Engine engine({.threads_max = 1});
        task = submit(engine, {.run = [] { return Status(Code::kNotFound, "no such thing"); }});
        EXPECT_FALSE(engine.wait(task));
    }
    EXPECT_EQ(task.status().message(), "no such thing");
}

TEST(TaskRefusal, a_request_without_a_function_or_with_a_strange_parent_is_refused) {
    Engine engine({.threads_max = 1}), other({.threads_max = 1});
    const Task foreign = submit(other, {.run = nothing}), none;
    for (Submitted refused : {engine.submit({}), engine.submit({.run = nothing, .parents = {{foreign}}}),
                              engine.submit({.run = nothing, .sufficient_parents = {{none}}})}) {
        EXPECT_EQ(refused.status.code(), Code::kInvalidArgument);
        EXPECT_FALSE(refused.task);
    }
    EXPECT_EQ(engine.wait(none).code(), Code::kInvalidArgument);
    EXPECT_FALSE(engine.cancel(none));
    EXPECT_TRUE(engine.wait_all());   // none of them is left behind
    EXPECT_TRUE(other.wait_all());
}

TEST(TaskRefusal, a_task_that_waits_for_another_one_of_its_engine_is_refused_instead_of_hanging) {
    for (const StartThread& start : {StartThread(), StartThread(no_thread)}) {
        Status told, told_all, told_ended;
        Engine engine({.threads_max = 1, .start_thread = start});
        const Task before = submit(engine, {.run = nothing});
        const Task second = submit(engine, {.run =
                                                [&] {
                                                    const Task later = submit(engine, {.run = nothing});
                                                    told = engine.wait(later);
                                                    told_all = engine.wait_all();
                                                    told_ended = engine.wait(before);   // that one does not block
                                                    return Status::ok();
                                                },
                                            .parents = {{before}}});
        EXPECT_TRUE(engine.wait_all());
        EXPECT_EQ(told.code(), Code::kInvalidArgument);
        EXPECT_EQ(told_all.code(), Code::kInvalidArgument);
        EXPECT_TRUE(told_ended);
        EXPECT_EQ(second.state(), State::kDone);
    }
}

TEST(TaskWait, several_threads_may_wait_for_one_task_and_for_all) {
    Gate gate;
    std::atomic<int> back{0};
    Engine engine({.threads_max = 2});
    const Task task = submit(engine, {.run = pass(gate)});
    {
        std::vector<std::jthread> waiters;
        for (int i = 0; i < 8; ++i)
            waiters.emplace_back([&, i] {
                EXPECT_TRUE(i % 2 == 0 ? engine.wait(task) : engine.wait_all());
                EXPECT_EQ(task.state(), State::kDone);
                ++back;
            });
        gate.open();
    }
    EXPECT_EQ(back, 8);
}

TEST(TaskWait, waiting_for_all_in_an_engine_that_was_never_used_returns_at_once) {
    Engine engine({.threads_max = 8});
    EXPECT_TRUE(engine.wait_all());
}

TEST(TaskWait, tasks_from_many_threads_all_run) {
    constexpr int kThreads = 4, kEach = 2000;
    std::atomic<int> ran{0};
    Engine engine({.threads_max = 3, .budget_bytes = 10});
    {
        std::vector<std::jthread> submitters;
        for (int t = 0; t < kThreads; ++t)
            submitters.emplace_back([&, t] {
                Task last;
                for (int i = 0; i < kEach; ++i) {
                    const std::vector<Task> parents = last && i % 3 == 0 ? std::vector<Task>{last}
                                                                         : std::vector<Task>{};
                    last = submit(engine, {.run = [&] { return ++ran, Status::ok(); },
                                           .bytes = static_cast<std::uint64_t>(i % 7),
                                           .parents = parents,
                                           .barrier = i % 100 == t});
                    if (i % 50 == 0) {
                        EXPECT_TRUE(engine.wait(last));
                    }
                }
            });
    }
    EXPECT_TRUE(engine.wait_all());
    EXPECT_EQ(ran, kThreads * kEach);
}

TEST(TaskThreads, no_more_threads_start_than_there_is_work_for) {
    std::atomic<std::size_t> started{0};
    Gate gate;
    Engine engine({.threads_max = 8, .start_thread = [&](std::function<void()> serve) {
                       ++started;
                       return std::jthread(std::move(serve));
                   }});
    EXPECT_EQ(started, 0u);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(engine.wait(submit(engine, {.run = nothing})));
    // A thread lets go of the engine, after a task has ended, only to sleep: the next submit always finds it asleep.
    EXPECT_EQ(started, 1u);
    for (int i = 0; i < 3; ++i) submit(engine, {.run = pass(gate)});
    EXPECT_TRUE(gate.wait_for_arrivals(3));
    EXPECT_EQ(started, 3u);
    gate.open();
    EXPECT_TRUE(engine.wait_all());
}

TEST(TaskThreads, no_more_tasks_run_at_a_time_than_there_may_be_threads) {
    std::atomic<int> running{0}, highest{0};
    Engine engine({.threads_max = 2});
    for (int i = 0; i < 500; ++i)
        submit(engine, {.run = [&] {
                   const int now = ++running;
                   int seen = highest;
                   while (now > seen && !highest.compare_exchange_weak(seen, now)) {
                   }
                   --running;
                   return Status::ok();
               }});
    EXPECT_TRUE(engine.wait_all());
    EXPECT_LE(highest, 2);
}

TEST(TaskThreads, without_a_thread_submit_says_so_and_whoever_waits_runs_the_tasks) {
    Journal journal;
    std::thread::id ran_in;
    Engine engine({.threads_max = 4, .start_thread = no_thread});
    const Submitted first = engine.submit({.run = [&] {
        ran_in = std::this_thread::get_id();
        return journal.note("first")();
    }});
    EXPECT_TRUE(first.status);
    EXPECT_FALSE(first.has_thread);
    EXPECT_EQ(first.task.state(), State::kScheduled);
    const Task barrier = submit(engine, {.run = journal.note("barrier"), .barrier = true});
    const Task after = submit(engine, {.run = journal.note("after")});
    submit(engine, {.run = journal.note("left"), .parents = {{after}}});
    EXPECT_TRUE(engine.wait(barrier));
    EXPECT_EQ(ran_in, std::this_thread::get_id());
    EXPECT_THAT(journal.names(), ElementsAre("first", "barrier"));
    EXPECT_TRUE(engine.wait_all());
    EXPECT_THAT(journal.names(), ElementsAre("first", "barrier", "after", "left"));
}

TEST(TaskThreads, without_a_thread_several_waiting_callers_share_the_tasks_and_all_come_back) {
    for (int round = 0; round < 50; ++round) {
        std::atomic<int> ran{0};
        Engine engine({.start_thread = no_thread});
        std::vector<Task> tasks;
        for (int i = 0; i < 40; ++i) {
            const std::vector<Task> parents = i % 3 == 2 ? std::vector<Task>{tasks.back()} : std::vector<Task>{};
            tasks.push_back(submit(engine, {.run = [&] { return ++ran, Status::ok(); }, .parents = parents}));
        }
        std::vector<std::jthread> waiters;
        for (std::size_t t = 0; t < 4; ++t)
            waiters.emplace_back([&, t] {
                for (std::size_t i = t; i < tasks.size(); i += 4) EXPECT_TRUE(engine.wait(tasks[i]));
            });
        waiters.clear();
        EXPECT_EQ(ran, 40);
    }
}

TEST(TaskThreads, without_a_thread_a_waiting_caller_is_woken_for_what_becomes_free_to_run) {
    for (int round = 0; round < 20; ++round) {
        Gate parent_gate;
        std::latch both(2);
        const auto meet = [&] { return both.arrive_and_wait(), Status::ok(); };
        Engine engine({.start_thread = no_thread});
        const Task parent = submit(engine, {.run = pass(parent_gate)});
        const Task a = submit(engine, {.run = meet, .parents = {{parent}}}),
                   b = submit(engine, {.run = meet, .parents = {{parent}}});
        std::jthread first([&] { EXPECT_TRUE(engine.wait(a)); });
        EXPECT_TRUE(parent_gate.wait_for_arrivals(1));
        std::jthread second([&] { EXPECT_TRUE(engine.wait(b)); });   // mostly asleep when the parent ends
        parent_gate.open();
    }
}

TEST(TaskThreads, a_thread_that_can_be_had_later_runs_what_is_left) {
    std::atomic<bool> available{false};
    Gate ran;
    Engine engine({.threads_max = 1, .start_thread = [&](std::function<void()> serve) {
                       return available ? std::jthread(std::move(serve)) : no_thread(serve);
                   }});
    EXPECT_FALSE(engine.submit({.run = pass(ran)}).has_thread);
    available = true;
    EXPECT_TRUE(engine.submit({.run = nothing}).has_thread);
    EXPECT_TRUE(ran.wait_for_arrivals(1));   // nobody waits for the task itself
    ran.open();
    EXPECT_TRUE(engine.wait_all());
}

TEST(TaskThreads, fewer_threads_than_wanted_run_all_tasks) {
    std::atomic<int> started{0}, ran{0};
    Engine engine({.threads_max = 8, .start_thread = [&](std::function<void()> serve) {
                       return ++started == 1 ? std::jthread(std::move(serve)) : no_thread(serve);
                   }});
    for (int i = 0; i < 200; ++i) EXPECT_TRUE(engine.submit({.run = [&] { return ++ran, Status::ok(); }}).has_thread);
    EXPECT_TRUE(engine.wait_all());
    EXPECT_EQ(ran, 200);
}

// How a child ended that did `act`; a child that hangs is killed.
template <class Act>
int in_child(Act act) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        ::_exit(act());
    }
    int how = -1;
    EXPECT_EQ(::waitpid(child, &how, 0), child);
    return how;
}

TEST(TaskFork, a_child_lets_go_of_the_engine_without_hanging) {
    Gate gate;
    auto engine = std::make_unique<Engine>(Limits{.threads_max = 2});
    EXPECT_TRUE(engine->wait(submit(*engine, {.run = nothing})));   // a thread is asleep
    const Task running = submit(*engine, {.run = pass(gate)}),
               child_task = submit(*engine, {.run = nothing, .parents = {{running}}});
    EXPECT_TRUE(gate.wait_for_arrivals(1));
    EXPECT_EQ(in_child([&] {
                  engine->forget_threads();
                  if (engine->submit({.run = nothing}).status.code() != Code::kUnavailable) return 1;
                  if (engine->wait(child_task).code() != Code::kInvalidArgument) return 2;
                  if (engine->wait_all().code() != Code::kInvalidArgument) return 3;
                  if (engine->cancel(child_task)) return 4;
                  engine.reset();
                  return 0;
              }),
              0);
    EXPECT_EQ(running.state(), State::kRunning);
    gate.open();
    EXPECT_TRUE(engine->wait(child_task));
}

#ifndef FOREBAY_SANITIZES_THREAD   // which lets no child of several threads start one
TEST(TaskFork, a_child_can_have_an_engine_of_its_own) {
    Engine engine({.threads_max = 2});
    EXPECT_TRUE(engine.wait(submit(engine, {.run = nothing})));
    EXPECT_EQ(in_child([&] {
                  engine.forget_threads();
                  Engine own({.threads_max = 2});
                  const Submitted task = own.submit({.run = nothing});
                  return own.wait(task.task) && task.has_thread ? 0 : 1;
              }),
              0);
}
#endif

// ---- idle threads ----------------------------------------------------------------------------------

TEST(TaskThreads, a_thread_that_has_been_idle_ends_and_another_one_runs_the_next_task) {
    std::atomic<int> started{0}, ended{0};
    Engine engine({.threads_max = 2,
                   .start_thread =
                       [&](std::function<void()> serve) {
                           ++started;
                           return std::jthread([&, serve = std::move(serve)] {
                               serve();
                               ++ended;
                               ended.notify_all();
                           });
                       },
                   .idle_max = std::chrono::milliseconds(1)});
    for (int round = 1; round <= 20; ++round) {
        const Task task = submit(engine, {.run = nothing});
        EXPECT_TRUE(engine.wait(task));
        for (int now = ended; now < started; now = ended) ended.wait(now);
        EXPECT_GE(started, round) << "the thread of the round before has ended";
    }
}

TEST(TaskThreads, tasks_that_come_as_threads_end_are_all_run) {
    std::atomic<int> runs{0};
    constexpr int kTasks = 2000;
    {
        Engine engine({.threads_max = 3, .idle_max = std::chrono::milliseconds(0)});
        for (int i = 0; i < kTasks; ++i) {
            const Task task = submit(engine, {.run = [&] {
                                         ++runs;
                                         return Status::ok();
                                     }});
            if (i % 7 == 0) {
                EXPECT_TRUE(engine.wait(task));
            }
        }
        EXPECT_TRUE(engine.wait_all());
    }
    EXPECT_EQ(runs, kTasks);
}

}   // namespace
}   // namespace forebay::task
