#include "drain/target_pace.h"

#include <gtest/gtest.h>

namespace forebay::drain {
namespace {

constexpr std::uint64_t kMiB = TargetPace::kBytes;

TEST(TargetPace, is_not_known_before_a_write) { EXPECT_FALSE(TargetPace().of_memory()); }

TEST(TargetPace, of_a_target_that_is_waited_for_is_none) {
    TargetPace pace;
    pace.wrote(kMiB, 400, 1000, true);
    EXPECT_FALSE(pace.of_memory());
}

TEST(TargetPace, is_what_a_mib_takes) {
    TargetPace pace;
    pace.wrote(4 * kMiB, 3600, 4000, true);
    EXPECT_NEAR(static_cast<double>(pace.of_memory().value()), 1000, 2);
}

TEST(TargetPace, does_not_count_time_in_which_others_had_the_processor) {
    TargetPace pace;
    pace.wrote(kMiB, 1000, 50000, false);
    EXPECT_NEAR(static_cast<double>(pace.of_memory().value()), 1000, 2);
}

TEST(TargetPace, follows_the_target) {
    TargetPace pace;
    for (int i = 0; i < 10; ++i) pace.wrote(kMiB, 1000, 1000, false);
    pace.wrote(kMiB, 1000, 2500, true);
    EXPECT_TRUE(pace.of_memory()) << "one write alone tells little";
    for (int i = 0; i < 10; ++i) pace.wrote(kMiB, 1000, 20000, true);
    EXPECT_FALSE(pace.of_memory());
    for (int i = 0; i < 20; ++i) pace.wrote(kMiB, 1000, 1000, false);
    EXPECT_TRUE(pace.of_memory());
}

}   // namespace
}   // namespace forebay::drain
