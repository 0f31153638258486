#include "drain/concurrency.h"

#include <gtest/gtest.h>

namespace forebay::drain {
namespace {

constexpr std::uint64_t kWrite = 1 << 20;

// Feeds the control from a target whose rate, in bytes per microsecond, depends on the writes in flight.
template <class Rate>
std::size_t settle(Concurrency& control, Rate rate, int writes) {
    for (int i = 0; i < writes; ++i) control.completed(kWrite, kWrite * 1000 / rate(control.allowed()));
    return control.allowed();
}

TEST(Concurrency, starts_with_one_write) { EXPECT_EQ(Concurrency(4).allowed(), 1u); }

TEST(Concurrency, grows_to_the_limit_while_latency_is_hidden) {
    Concurrency control(4);
    EXPECT_EQ(settle(control, [](std::size_t n) { return 100 * n; }, 60), 4u);
}

TEST(Concurrency, returns_to_one_where_a_second_write_gains_nothing) {
    Concurrency control(4);
    std::size_t alone = 0;
    for (int i = 0; i < 400; ++i) {
        settle(control, [](std::size_t) { return std::size_t{200}; }, 1);
        alone += control.allowed() == 1;
    }
    EXPECT_GT(alone, 340u) << "trials are rare";
}

TEST(Concurrency, stops_where_more_gains_no_more) {
    Concurrency control(16);
    EXPECT_EQ(settle(control, [](std::size_t n) { return 100 * std::min<std::size_t>(n, 4); }, 100), 4u);
}

TEST(Concurrency, notices_later_that_a_second_write_would_gain) {
    Concurrency control(2);
    settle(control, [](std::size_t) { return std::size_t{200}; }, 100);
    EXPECT_EQ(settle(control, [](std::size_t n) { return 100 * n; }, 300), 2u);
}

TEST(Concurrency, never_exceeds_a_limit_of_one) {
    Concurrency control(1);
    EXPECT_EQ(settle(control, [](std::size_t n) { return 100 * n; }, 100), 1u);
}

TEST(Concurrency, begins_with_a_write_for_each_process_where_the_target_is_waited_for) {
    Concurrency control(4);
    control.drain_for(8, true);
    EXPECT_EQ(control.allowed(), 8u);
    EXPECT_EQ(settle(
                  control, [](std::size_t n) { return 100 * n; }, 200),
              8u)
        << "and no more, where that is beyond the limit";
}

TEST(Concurrency, tries_as_many_as_there_are_processes_where_the_target_is_memory) {
    Concurrency control(4);
    control.drain_for(8, false);
    EXPECT_EQ(control.allowed(), 1u);
    EXPECT_EQ(settle(control, [](std::size_t n) { return 100 * n; }, 200), 8u);
}

TEST(Concurrency, starts_over_with_one_write) {
    Concurrency control(4);
    control.drain_for(8, true);
    control.start_over();
    EXPECT_EQ(control.allowed(), 1u);
}

}   // namespace
}   // namespace forebay::drain
