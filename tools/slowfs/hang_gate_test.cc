#include "hang_gate.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace forebay::slowfs {
namespace {

bool never() { return false; }

std::future<HangEnd> hanging(HangGate& gate) {
    auto end = std::async(std::launch::async, [&gate] { return gate.wait(gate.releases(), 0, never); });
    while (gate.waiting() == 0) std::this_thread::yield();
    return end;
}

TEST(HangGate, who_waits_is_released) {
    HangGate gate;
    auto end = hanging(gate);
    gate.release();
    EXPECT_EQ(end.get(), HangEnd::kReleased);
    EXPECT_EQ(gate.waiting(), 0U);
}

TEST(HangGate, a_release_before_the_wait_and_after_the_rule_counts) {
    HangGate gate;
    const std::uint64_t seen = gate.releases();
    gate.release();
    EXPECT_EQ(gate.wait(seen, 0, never), HangEnd::kReleased);
}

TEST(HangGate, a_bounded_hang_ends_by_itself) {
    HangGate gate;
    gate.release();   // an earlier release does not count
    EXPECT_EQ(gate.wait(gate.releases(), 1'000'000, never), HangEnd::kTimedOut);
}

TEST(HangGate, an_interrupted_request_stops_waiting) {
    HangGate gate;
    EXPECT_EQ(gate.wait(gate.releases(), 0, [] { return true; }), HangEnd::kInterrupted);
}

TEST(HangGate, nobody_waits_after_stop) {
    HangGate gate;
    auto end = hanging(gate);
    gate.stop();
    EXPECT_EQ(end.get(), HangEnd::kStopped);
    EXPECT_EQ(gate.wait(gate.releases(), 0, never), HangEnd::kStopped);
}

}   // namespace
}   // namespace forebay::slowfs
