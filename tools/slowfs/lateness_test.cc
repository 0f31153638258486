#include "lateness.h"

#include <gtest/gtest.h>

#include "throttle.h"

namespace forebay::slowfs {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

TEST(Lateness, a_thread_without_history_arrives_when_it_does) {
    const Lateness lateness;
    EXPECT_EQ(lateness.due_arrival(1, 0, 500), 500);
}

TEST(Lateness, who_comes_back_at_once_arrives_when_the_last_operation_was_due) {
    Lateness lateness;
    lateness.answered(1, 10 * kMillisecond, 12 * kMillisecond);
    EXPECT_EQ(lateness.due_arrival(1, 0, 12 * kMillisecond + Lateness::carriage_ns(0)), 10 * kMillisecond);
    EXPECT_EQ(lateness.due_arrival(1, 0, 12 * kMillisecond), 10 * kMillisecond);   // never before
    EXPECT_EQ(lateness.due_arrival(2, 0, 12 * kMillisecond), 12 * kMillisecond);
}

TEST(Lateness, only_the_lateness_itself_is_made_up_for) {
    Lateness lateness;
    lateness.answered(1, 10 * kMillisecond, 12 * kMillisecond);
    EXPECT_EQ(lateness.due_arrival(1, 0, 12'900'000), 12'900'000 - 2 * kMillisecond - Lateness::carriage_ns(0));
}

TEST(Lateness, a_large_request_takes_longer_to_be_carried) {
    Lateness lateness;
    lateness.answered(1, 10 * kMillisecond, 10 * kMillisecond);
    EXPECT_EQ(lateness.due_arrival(1, 1'000'000, 11 * kMillisecond), 10 * kMillisecond);
    EXPECT_EQ(lateness.due_arrival(1, 100'000, 11 * kMillisecond), 11 * kMillisecond - Lateness::carriage_ns(100'000));
}

TEST(Lateness, who_pauses_gets_nothing_back) {
    Lateness lateness;
    lateness.answered(1, 10 * kMillisecond, 12 * kMillisecond);
    EXPECT_EQ(lateness.due_arrival(1, 0, 20 * kMillisecond), 20 * kMillisecond);
}

TEST(Lateness, a_row_of_late_replies_takes_the_configured_time) {
    Lateness lateness;
    Throttle throttle;
    throttle.set_bandwidth(Channel::kShared, 1000);
    throttle.set_latency(OpSet().set(index_of(Op::kWrite)), kMillisecond);
    std::int64_t arrival = 0;
    std::int64_t due = 0;
    for (int i = 0; i < 100; ++i) {
        due = throttle.reserve(Op::kWrite, 4, lateness.due_arrival(1, 0, arrival));
        const std::int64_t answered = due + 300'000;
        lateness.answered(1, due, answered);
        arrival = answered + 20'000;
    }
    EXPECT_EQ(due, 100 * 5 * kMillisecond);
}

}   // namespace
}   // namespace forebay::slowfs
