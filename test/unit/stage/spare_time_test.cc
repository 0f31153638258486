#include "stage/spare_time.h"

#include <gtest/gtest.h>

namespace forebay::stage {
namespace {

constexpr std::uint64_t kMiB = drain::TargetPace::kBytes, kPace = 500, kLog = 100 * kMiB;

TEST(SpareTime, is_earned_between_the_calls_and_not_in_them) {
    SpareTime spare(1000);
    EXPECT_FALSE(spare.suffices_for(1, 1000 * kMiB, kLog)) << "nothing is lent";
    spare.enter(1499);
    spare.leave(9000);
    EXPECT_FALSE(spare.suffices_for(kMiB, kPace, kLog));
    spare.enter(9001);
    spare.leave(20000);
    EXPECT_TRUE(spare.suffices_for(kMiB, kPace, kLog));
    EXPECT_FALSE(spare.suffices_for(2 * kMiB, kPace, kLog));
}

TEST(SpareTime, is_spent_on_what_is_staged) {
    SpareTime spare(0);
    spare.enter(2 * kPace);
    spare.spend(kMiB, kPace);
    EXPECT_TRUE(spare.suffices_for(kMiB, kPace, kLog));
    spare.spend(kMiB, kPace);
    EXPECT_FALSE(spare.suffices_for(kMiB, kPace, kLog));
    spare.spend(kMiB, kPace);   // staged all the same
    spare.leave(2 * kPace);
    spare.enter(3 * kPace);
    EXPECT_FALSE(spare.suffices_for(kMiB, kPace, kLog));
    spare.leave(3 * kPace);
    spare.enter(4 * kPace);
    EXPECT_TRUE(spare.suffices_for(kMiB, kPace, kLog));
}

TEST(SpareTime, that_is_owed_is_forgiven_once_the_program_has_waited_for_the_drain) {
    SpareTime spare(0);
    spare.spend(100 * kMiB, kPace);
    spare.leave(0);
    spare.enter(kPace);
    EXPECT_FALSE(spare.suffices_for(kMiB, kPace, kLog));
    spare.forgive();
    EXPECT_FALSE(spare.suffices_for(1, kMiB * kPace, kLog));
    spare.leave(kPace);
    spare.enter(2 * kPace);
    spare.forgive();
    EXPECT_TRUE(spare.suffices_for(kMiB, kPace, kLog)) << "what was earned stays";
}

TEST(SpareTime, is_not_saved_beyond_what_the_log_holds) {
    SpareTime spare(0);
    spare.enter(1'000'000 * kPace);
    EXPECT_TRUE(spare.suffices_for(kLog, kPace, kLog));
    EXPECT_FALSE(spare.suffices_for(kLog + kMiB, kPace, kLog));
    spare.spend(kLog, kPace);
    EXPECT_FALSE(spare.suffices_for(kMiB, kPace, kLog));
}

TEST(SpareTime, of_a_clock_that_another_thread_was_ahead_of_is_none) {
    SpareTime spare(1000);
    spare.enter(500);
    EXPECT_FALSE(spare.suffices_for(kMiB, 1, kLog));
    EXPECT_TRUE(spare.suffices_for(0, kPace, kLog));
}

}   // namespace
}   // namespace forebay::stage
