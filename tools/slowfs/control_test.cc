#include "control.h"

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace forebay::slowfs {
namespace {

using ::testing::HasSubstr;

nlohmann::json reported(const Simulation& simulation) { return nlohmann::json::parse(report(simulation)); }

TEST(Control, lines_change_the_settings_that_are_reported) {
    Simulation simulation;
    const Status status = execute_lines(simulation,
                                        "bandwidth 200MiB/s\nread-bandwidth 1GiB/s\nwrite-bandwidth 1MiB/s\n"
                                        "latency 0.5ms\nlatency fsync|getattr=20ms\n\n  fault op=write,errno=EIO  \n");
    ASSERT_TRUE(status.is_ok()) << status.message();
    const auto json = reported(simulation);
    EXPECT_EQ(json["bandwidth"], 200U << 20);
    EXPECT_EQ(json["read_bandwidth"], 1U << 30);
    EXPECT_EQ(json["write_bandwidth"], 1U << 20);
    EXPECT_EQ(json["latency_s"]["write"], 0.0005);
    EXPECT_EQ(json["latency_s"]["fsync"], 0.02);
    EXPECT_EQ(json["latency_s"]["getattr"], 0.02);
    EXPECT_FALSE(json["latency_s"].contains("lookup"));
    EXPECT_EQ(json["faults"][0]["rule"], "op=write,errno=EIO");
}

TEST(Control, a_limit_is_of_each_thread_or_of_each_process) {
    Simulation simulation;
    ASSERT_TRUE(execute(simulation, "thread-bandwidth 1MiB/s"));
    EXPECT_EQ(simulation.throttle.caller_bandwidth(Throttle::Caller::kThread), 1U << 20);
    ASSERT_TRUE(execute(simulation, "process-bandwidth 2MiB/s"));
    EXPECT_EQ(simulation.throttle.caller_bandwidth(Throttle::Caller::kThread), 0U);
    EXPECT_EQ(simulation.throttle.caller_bandwidth(Throttle::Caller::kProcess), 2U << 20);
    EXPECT_FALSE(execute(simulation, "process-bandwidth quick"));
}

TEST(Control, a_bad_line_is_named_and_ends_the_reading) {
    Simulation simulation;
    EXPECT_THAT(execute_lines(simulation, "bandwidth 1MiB\nbandwith 5\nlatency 1s\n").message(),
                HasSubstr("unknown line 'bandwith 5'"));
    EXPECT_EQ(simulation.throttle.bandwidth(Channel::kShared), 1U << 20);
    EXPECT_EQ(simulation.throttle.latency_ns(Op::kWrite), 0);
    EXPECT_THAT(execute(simulation, "bandwidth fast").message(), HasSubstr("bandwidth: 'fast' is not"));
    EXPECT_THAT(execute(simulation, "fault op=write").message(), HasSubstr("fault rule 'op=write'"));
    EXPECT_FALSE(execute(simulation, "clear everything").is_ok());
}

TEST(Control, clear_removes_the_rules) {
    Simulation simulation;
    ASSERT_TRUE(execute_lines(simulation, "fault op=write,errno=EIO\nclear").is_ok());
    EXPECT_TRUE(reported(simulation)["faults"].empty());
}

TEST(Control, operations_are_counted_by_kind_and_size) {
    Simulation simulation;
    Statistics& statistics = simulation.statistics;
    statistics.begin(Op::kWrite);
    statistics.begin(Op::kRead);
    statistics.begin(Op::kWrite);
    statistics.end(Op::kWrite, 5000, 5000, false, 10);
    statistics.end(Op::kWrite, 4096, 0, true, 10);
    statistics.end(Op::kRead, 100, 40, false, 10);
    const auto json = reported(simulation);
    EXPECT_EQ(json["count"], 3);
    EXPECT_EQ(json["errors"], 1);
    EXPECT_EQ(json["in_flight"], 0);
    EXPECT_EQ(json["in_flight_max"], 3);
    EXPECT_EQ(json["bytes_written"], 5000);
    EXPECT_EQ(json["bytes_read"], 40);
    EXPECT_EQ(json["operations"]["write"]["count"], 2);
    EXPECT_EQ(json["operations"]["write"]["in_flight_max"], 2);
    EXPECT_EQ(json["write_sizes"], nlohmann::json({{"4096", 2}}));
    EXPECT_EQ(json["read_sizes"], nlohmann::json({{"64", 1}}));
}

TEST(Control, reset_sets_the_counts_to_zero_and_keeps_the_rules) {
    Simulation simulation;
    ASSERT_TRUE(execute(simulation, "fault op=write,errno=EIO").is_ok());
    simulation.statistics.begin(Op::kWrite);
    simulation.statistics.end(Op::kWrite, 1, 1, false, 1);
    ASSERT_TRUE(execute(simulation, "reset").is_ok());
    const auto json = reported(simulation);
    EXPECT_EQ(json["count"], 0);
    EXPECT_EQ(json["in_flight_max"], 0);
    EXPECT_TRUE(json["write_sizes"].empty());
    EXPECT_EQ(json["faults"].size(), 1U);
}

}   // namespace
}   // namespace forebay::slowfs
