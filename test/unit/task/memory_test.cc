// What has ended and is not held by a handle takes no memory, however long the graph goes on.
#include <atomic>
#include <cstdlib>
#include <new>

#include "unit/task/steps.h"

namespace {

std::atomic<std::ptrdiff_t> allocations{0};   // that were not given back yet

}   // namespace

// Counting replacements, for the whole test program.
void* operator new(std::size_t size) {
    void* const memory = std::malloc(size > 0 ? size : 1);
    if (memory == nullptr) throw std::bad_alloc();
    allocations.fetch_add(1, std::memory_order_relaxed);
    return memory;
}
void operator delete(void* memory) noexcept {
    if (memory == nullptr) return;
    allocations.fetch_sub(1, std::memory_order_relaxed);
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

namespace forebay::task {
namespace {

using test::Gate;
using test::nothing;
using test::pass;
using test::submit;

constexpr std::ptrdiff_t kFew = 100;   // a graph of some tasks

TEST(TaskMemory, a_long_run_of_barriers_keeps_no_history) {
    Engine engine({.threads_max = 2});
    Task barrier;
    std::ptrdiff_t at_first = 0;
    for (int i = 0; i < 20000; ++i) {
        for (int j = 0; j < 9; ++j) submit(engine, {.run = nothing});
        const Task previous = std::exchange(barrier, submit(engine, {.run = nothing, .barrier = true}));
        if (previous) {
            EXPECT_TRUE(engine.wait(previous));
        }
        if (i == 100) at_first = allocations;
    }
    EXPECT_TRUE(engine.wait_all());
    EXPECT_LT(allocations, at_first + kFew);
}

TEST(TaskMemory, a_long_chain_of_handles_frees_what_is_behind_it) {
    Engine engine({.threads_max = 1});
    Task last = submit(engine, {.run = nothing});
    EXPECT_TRUE(engine.wait(last));
    const std::ptrdiff_t at_first = allocations;
    for (int i = 0; i < 100000; ++i) {
        // The child holds its parent, which holds its own no longer.
        last = submit(engine, {.run = [parent = last] { return parent.status(); }, .parents = {{last}}});
        if (i % 64 == 0) {
            EXPECT_TRUE(engine.wait(last));
        }
    }
    EXPECT_TRUE(engine.wait(last));
    EXPECT_LT(allocations, at_first + kFew);
}

TEST(TaskMemory, an_endless_parent_does_not_keep_children_that_no_longer_wait_for_it) {
    Gate gate;
    Engine engine({.threads_max = 2});
    const Task endless = submit(engine, {.run = pass(gate)});
    EXPECT_TRUE(gate.wait_for_arrivals(1));
    const std::ptrdiff_t at_first = allocations;
    for (int i = 0; i < 20000; ++i) {
        const Task quick = submit(engine, {.run = nothing});
        const std::vector<Task> either{endless, quick};
        const Task child = submit(engine, {.run = nothing, .sufficient_parents = either});
        EXPECT_TRUE(engine.cancel(submit(engine, {.run = nothing, .parents = {{endless}}})));
        EXPECT_TRUE(engine.wait(child));
    }
    EXPECT_LT(allocations, at_first + kFew);
    gate.open();
}

TEST(TaskMemory, canceled_tasks_are_let_go_of_although_no_thread_ever_comes) {
    Engine engine({.start_thread = test::no_thread});
    const std::ptrdiff_t at_first = allocations;
    for (int i = 0; i < 20000; ++i)
        EXPECT_TRUE(engine.cancel(submit(engine, {.run = nothing, .barrier = i % 10 == 0})));
    EXPECT_LT(allocations, at_first + kFew);
}

TEST(TaskMemory, an_engine_gives_everything_back) {
    const std::ptrdiff_t before = allocations;
    {
        Gate gate;
        Engine engine({.threads_max = 2, .budget_bytes = 10});
        const Task first = submit(engine, {.run = pass(gate)});
        for (int i = 0; i < 1000; ++i)
            submit(engine, {.run = nothing, .bytes = 5, .parents = {{first}}, .barrier = i % 100 == 99});
        gate.open();
        EXPECT_TRUE(engine.wait(first));
    }
    EXPECT_EQ(allocations, before);
}

}   // namespace
}   // namespace forebay::task
