#include "throttle.h"

#include <gtest/gtest.h>

#include <array>

namespace forebay::slowfs {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;
constexpr std::uint64_t kMiBPerSecond = 1U << 20;

OpSet only(Op op) { return OpSet().set(index_of(op)); }

TEST(Throttle, without_limits_an_operation_ends_when_it_arrives) {
    Throttle throttle;
    EXPECT_EQ(throttle.reserve(Op::kWrite, 1 << 20, 77), 77);
}

TEST(Throttle, transfers_queue_on_the_shared_timeline) {
    Throttle throttle;
    throttle.set_bandwidth(Channel::kShared, 1000);   // a byte per millisecond
    EXPECT_EQ(throttle.reserve(Op::kWrite, 10, 0), 10 * kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kRead, 5, 0), 15 * kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 5, 2 * kMillisecond), 20 * kMillisecond);
}

TEST(Throttle, idle_time_is_not_saved_up) {
    Throttle throttle;
    throttle.set_bandwidth(Channel::kShared, 1000);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 1, 0), 1 * kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 1, 500 * kMillisecond), 501 * kMillisecond);
}

TEST(Throttle, latencies_of_concurrent_operations_overlap) {
    Throttle throttle;
    throttle.set_bandwidth(Channel::kShared, 1000);
    throttle.set_latency(only(Op::kWrite), 100 * kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 1, 0), 101 * kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 1, 0), 102 * kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 1, 0), 103 * kMillisecond);
}

TEST(Throttle, reads_and_writes_have_their_own_limits_below_the_shared_one) {
    Throttle throttle;
    throttle.set_bandwidth(Channel::kRead, 1000);
    throttle.set_bandwidth(Channel::kWrite, 100);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 1, 0), 10 * kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kRead, 1, 0), 1 * kMillisecond);
    throttle.set_bandwidth(Channel::kShared, 10);
    EXPECT_EQ(throttle.reserve(Op::kRead, 1, 0), 100 * kMillisecond);
}

TEST(Throttle, only_the_named_operations_are_delayed) {
    Throttle throttle;
    throttle.set_latency(delayed_by_default(), kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kFsync, 0, 0), kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kGetattr, 0, 0), 0);
    throttle.set_latency(only(Op::kGetattr), 2 * kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kGetattr, 0, 0), 2 * kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kFsync, 0, 0), kMillisecond);
}

TEST(Throttle, operations_without_bytes_take_no_bandwidth) {
    Throttle throttle;
    throttle.set_bandwidth(Channel::kShared, 1);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 5, 0), 5000 * kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 0, 0), 0);   // failed
    EXPECT_EQ(throttle.reserve(Op::kOpen, 0, 0), 0);
}

TEST(Throttle, a_new_bandwidth_forgets_the_queue_of_the_old_one) {
    Throttle throttle;
    throttle.set_bandwidth(Channel::kShared, 1);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 100, 0), 100'000 * kMillisecond);
    throttle.set_bandwidth(Channel::kShared, 1000);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 1, 0), kMillisecond);
}

TEST(Throttle, each_caller_has_its_own_limit_beside_the_shared_one) {
    Throttle throttle;
    throttle.set_caller_bandwidth(Throttle::Caller::kThread, 1000);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 10, 0, 1), 10 * kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 10, 0, 2), 10 * kMillisecond) << "another one does not wait";
    EXPECT_EQ(throttle.reserve(Op::kRead, 10, 0, 1), 20 * kMillisecond) << "the same one does";
    throttle.set_bandwidth(Channel::kShared, 500);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 10, 100 * kMillisecond, 3), 120 * kMillisecond)
        << "the later of the two ends";
    EXPECT_EQ(throttle.reserve(Op::kWrite, 10, 100 * kMillisecond, 4), 140 * kMillisecond);
    throttle.set_bandwidth(Channel::kShared, 0);
    throttle.set_caller_bandwidth(Throttle::Caller::kProcess, 0);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 10, 0, 1), 0);
}

TEST(Throttle, callers_that_are_gone_are_forgotten) {
    Throttle throttle;
    throttle.set_caller_bandwidth(Throttle::Caller::kProcess, 1000);
    for (pid_t caller = 1; caller <= 5000; ++caller)
        EXPECT_EQ(throttle.reserve(Op::kWrite, 1, caller * kMillisecond, caller), (caller + 1) * kMillisecond);
    EXPECT_EQ(throttle.reserve(Op::kWrite, 1, 5000 * kMillisecond, 5000), 5002 * kMillisecond)
        << "one that is not waits for its own";
}

TEST(Throttle, many_transfers_add_up_to_the_configured_bandwidth) {
    Throttle throttle;
    throttle.set_bandwidth(Channel::kShared, 200 * kMiBPerSecond);
    std::int64_t end = 0;
    for (int i = 0; i < 200; ++i) end = throttle.reserve(Op::kWrite, 1U << 20, end);
    EXPECT_NEAR(static_cast<double>(end), 1e9, 1e3);
}

}   // namespace
}   // namespace forebay::slowfs
