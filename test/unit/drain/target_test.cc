// The target as an outflow knows it: its sizes, and what the log is told of it.
#include "drain/target.h"

#include <gtest/gtest.h>

#include "io/memory_file.h"
#include "support/noting_listener.h"

namespace forebay::drain {
namespace {

class TargetTest : public ::testing::Test {
  protected:
    TargetTest() { target_.open(io::make_memory_file("target"), io::TimesKind::kExact, 1000, 0); }

    index::StagedBytes bytes_;
    test::NotingListener listener_{bytes_};
    Target target_{listener_};
};

TEST_F(TargetTest, a_planned_write_counts_for_the_size_and_shows_once_it_has_ended) {
    target_.reaches(3000);
    EXPECT_EQ(target_.size(), 3000u);
    EXPECT_EQ(target_.shown_size(), 1000u);
    target_.begin_write({1000, 3000}, {});
    target_.end_write({1000, 3000}, true);
    EXPECT_EQ(target_.shown_size(), 3000u);
    EXPECT_FALSE(target_.size_in_doubt());
}

TEST_F(TargetTest, a_later_longer_commit_does_not_forget_a_cut) {
    target_.commit(1000);
    EXPECT_FALSE(target_.cut_due());
    target_.commit(400);
    target_.commit(700);
    EXPECT_EQ(target_.cut_due(), 400u);
    EXPECT_TRUE(target_.was_cut());
    target_.resized(400, false, {.logical_size = 700, .committed_size = 700});
    EXPECT_FALSE(target_.cut_due());
    EXPECT_EQ(target_.size(), 400u);
    EXPECT_TRUE(target_.was_cut()) << "until it is opened again";
}

TEST_F(TargetTest, a_commit_to_less_while_the_target_grows_makes_a_cut_due) {
    target_.resized(2000, false, {.logical_size = 1500, .committed_size = 1200});
    EXPECT_EQ(target_.size(), 2000u);
    EXPECT_EQ(target_.cut_due(), 1500u);
}

TEST_F(TargetTest, a_change_that_only_lengthens_never_cuts) {
    target_.reaches(3000);
    target_.resized(2000, true, {.logical_size = 3000, .committed_size = 3000});
    EXPECT_EQ(target_.size(), 3000u);
    EXPECT_EQ(target_.shown_size(), 2000u);
}

TEST_F(TargetTest, a_failure_leaves_the_size_in_doubt_until_it_is_set) {
    target_.begin_write({1000, 2000}, {});
    target_.end_write({1000, 2000}, false);
    EXPECT_EQ(target_.shown_size(), 1000u);
    EXPECT_TRUE(target_.size_in_doubt());
    target_.resized(2000, true, {.logical_size = 2000, .committed_size = 2000});
    EXPECT_TRUE(target_.size_in_doubt()) << "one byte was written, and nothing was cut off";
    target_.resized(2000, false, {.logical_size = 2000, .committed_size = 2000});
    EXPECT_FALSE(target_.size_in_doubt());
}

TEST_F(TargetTest, the_log_is_told_before_and_after_each_change) {
    listener_.noted_.clear();
    target_.begin_write({0, 100}, {});
    ASSERT_EQ(listener_.noted_.size(), 1u);
    EXPECT_EQ(listener_.noted_.back().in_flight, 1u);
    target_.end_write({0, 100}, true);
    EXPECT_EQ(listener_.noted_.back().in_flight, 0u);
    target_.begin_resize(500);
    EXPECT_EQ(listener_.noted_.back().in_flight, 1u);
    target_.end_resize(true);
    EXPECT_EQ(listener_.noted_.size(), 4u);
    target_.begin_write({7, 7}, {});
    EXPECT_EQ(listener_.noted_.size(), 4u) << "an empty write is none";
}

TEST_F(TargetTest, others_that_extend_the_file_write_it_as_well) {
    target_.note_external_writers();
    EXPECT_TRUE(target_.others_write());
    EXPECT_FALSE(target_.others_extend());
    target_.open(target_.file(), io::TimesKind::kExact, 1000, 0);
    EXPECT_FALSE(target_.others_write());
    target_.note_external_growth();
    EXPECT_TRUE(target_.others_write());
    EXPECT_TRUE(target_.others_extend());
}

}   // namespace
}   // namespace forebay::drain
