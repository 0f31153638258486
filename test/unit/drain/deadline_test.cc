// Whether what is staged still drains before the job ends.
#include "drain/deadline.h"

#include <gtest/gtest.h>

namespace forebay::drain {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000, kMiB = 1 << 20;

// 100 MiB/s, measured until second 10; the job ends in second 100.
struct Measured {
    Deadline deadline{100 * kSecond};
    Measured() { deadline.wrote(0, 10 * kSecond, 1000 * kMiB); }
};

TEST(Deadline, without_an_end_nothing_presses) {
    Deadline deadline(Deadline::kNever);
    EXPECT_FALSE(deadline.known());
    EXPECT_FALSE(deadline.begins_to_press(1000 * kSecond, 1 << 30));
    EXPECT_FALSE(deadline.presses());
}

TEST(Deadline, it_presses_once_what_is_staged_needs_more_than_half_of_the_time_left) {
    Measured measured;
    EXPECT_FALSE(measured.deadline.begins_to_press(20 * kSecond, 4000 * kMiB));   // 40 of 80 s
    EXPECT_TRUE(measured.deadline.begins_to_press(20 * kSecond, 4001 * kMiB));
}

TEST(Deadline, it_begins_once_and_goes_on) {
    Measured measured;
    EXPECT_TRUE(measured.deadline.begins_to_press(99 * kSecond, 1000 * kMiB));
    EXPECT_FALSE(measured.deadline.begins_to_press(99 * kSecond, 1000 * kMiB));
    EXPECT_FALSE(measured.deadline.begins_to_press(20 * kSecond, 1));
    EXPECT_TRUE(measured.deadline.presses());
}

TEST(Deadline, nothing_staged_never_presses) {
    Measured measured;
    EXPECT_FALSE(measured.deadline.begins_to_press(200 * kSecond, 0));
}

TEST(Deadline, before_anything_was_measured_the_last_minute_presses) {
    Deadline deadline(100 * kSecond);
    EXPECT_FALSE(deadline.begins_to_press(40 * kSecond, 1));
    EXPECT_TRUE(deadline.begins_to_press(41 * kSecond, 1));
    EXPECT_EQ(deadline.allowance_bytes(41 * kSecond), 0u);
    EXPECT_NE(deadline.warning(41 * kSecond, kMiB).find("is not known"), std::string::npos);
}

TEST(Deadline, the_allowance_drains_in_half_of_the_time_left) {
    Measured measured;
    EXPECT_EQ(measured.deadline.allowance_bytes(20 * kSecond), 4000 * kMiB);
    EXPECT_EQ(measured.deadline.allowance_bytes(100 * kSecond), 0u);
    EXPECT_EQ(measured.deadline.allowance_bytes(500 * kSecond), 0u);
}

TEST(Deadline, writes_side_by_side_take_their_time_once) {
    Deadline deadline(100 * kSecond);
    deadline.wrote(0, 8 * kSecond, 500 * kMiB);
    deadline.wrote(2 * kSecond, 10 * kSecond, 500 * kMiB);
    deadline.wrote(3 * kSecond, 9 * kSecond, 0);
    EXPECT_EQ(deadline.allowance_bytes(20 * kSecond), 4000 * kMiB);
}

TEST(Deadline, pauses_between_writes_do_not_count) {
    Deadline deadline(100 * kSecond);
    deadline.wrote(0, 5 * kSecond, 500 * kMiB);
    deadline.wrote(15 * kSecond, 20 * kSecond, 500 * kMiB);
    EXPECT_EQ(deadline.allowance_bytes(20 * kSecond), 4000 * kMiB);
}

TEST(Deadline, a_target_that_becomes_slow_is_noticed) {
    Deadline deadline(1'000'000 * kSecond);
    deadline.wrote(0, 10 * kSecond, 1000 * kMiB);
    for (std::uint64_t second = 10; second < 1000; ++second)
        deadline.wrote(second * kSecond, (second + 1) * kSecond, kMiB);
    EXPECT_NEAR(static_cast<double>(deadline.allowance_bytes(1'000'000 * kSecond - 200 * kSecond)), 100.0 * kMiB, kMiB);
}

TEST(Deadline, the_warning_says_what_is_staged_and_how_long_it_takes) {
    Measured measured;
    EXPECT_EQ(measured.deadline.warning(20 * kSecond, 6000 * kMiB).find("the job ends in 80 s, and 5.9 GiB are staged"),
              0u);
    EXPECT_NE(measured.deadline.warning(20 * kSecond, 6000 * kMiB).find("60 s at 100 MiB per second"),
              std::string::npos);
    EXPECT_EQ(measured.deadline.warning(100 * kSecond, 1).find("the job has reached its end"), 0u);
}

}   // namespace
}   // namespace forebay::drain
