#include "extent/stripe.h"

#include <gtest/gtest.h>

namespace forebay {
namespace {

TEST(ByteRange, an_inverted_or_equal_pair_is_empty) {
    EXPECT_TRUE((ByteRange{5, 5}.empty()));
    EXPECT_TRUE((ByteRange{6, 5}.empty()));
    EXPECT_FALSE((ByteRange{5, 6}.empty()));
}

TEST(ByteRange, ranges_that_touch_do_not_overlap) {
    EXPECT_FALSE((ByteRange{0, 5}.overlaps({5, 9})));
    EXPECT_FALSE((ByteRange{5, 9}.overlaps({0, 5})));
    EXPECT_TRUE((ByteRange{0, 6}.overlaps({5, 9})));
    EXPECT_TRUE((ByteRange{0, 9}.overlaps({3, 4})));
}

TEST(ByteRange, the_common_part_of_disjoint_ranges_is_empty_and_not_inverted) {
    const ByteRange common = ByteRange{0, 5}.intersect({7, 9});
    EXPECT_TRUE(common.empty());
    EXPECT_EQ(common.size(), 0u);
    EXPECT_EQ((ByteRange{7, 9}.intersect({0, 5}).size()), 0u);
    EXPECT_EQ((ByteRange{2, 8}.intersect({5, 9})), (ByteRange{5, 8}));
    EXPECT_EQ((ByteRange{2, 8}.intersect({3, 4})), (ByteRange{3, 4}));
}

TEST(ByteRange, a_range_contains_itself_and_what_lies_within) {
    EXPECT_TRUE((ByteRange{2, 8}.contains({2, 8})));
    EXPECT_TRUE((ByteRange{2, 8}.contains({3, 4})));
    EXPECT_FALSE((ByteRange{2, 8}.contains({1, 4})));
    EXPECT_FALSE((ByteRange{2, 8}.contains({3, 9})));
}

TEST(Stripe, alignment_keeps_boundaries_and_moves_everything_else) {
    EXPECT_EQ(align_down(0, 10), 0u);
    EXPECT_EQ(align_down(9, 10), 0u);
    EXPECT_EQ(align_down(10, 10), 10u);
    EXPECT_EQ(align_up(0, 10), 0u);
    EXPECT_EQ(align_up(1, 10), 10u);
    EXPECT_EQ(align_up(10, 10), 10u);
    EXPECT_EQ(align_up(7, 1), 7u);
    EXPECT_EQ(align_down(7, 1), 7u);
}

TEST(Stripe, alignment_beyond_the_last_offset_saturates) {
    EXPECT_EQ(align_up(kOffsetMax, 4096), kOffsetMax);
    EXPECT_EQ(align_up(kOffsetMax - 4094, 4096), kOffsetMax);
    EXPECT_EQ(align_up(kOffsetMax - 4095, 4096), kOffsetMax - 4095);   // a boundary itself
    EXPECT_EQ(align_up(1, kOffsetMax), kOffsetMax);                    // just representable
    EXPECT_EQ(align_down(kOffsetMax, 4096), kOffsetMax - 4095);
}

TEST(Stripe, a_range_that_fits_is_not_cut) {
    EXPECT_EQ(cut({3, 13}, 4, 10), 13u);
    EXPECT_EQ(cut({3, 3}, 4, 10), 3u);
}

TEST(Stripe, a_longer_range_is_cut_at_the_last_boundary_within_reach) {
    EXPECT_EQ(cut({3, 100}, 4, 10), 12u);
    EXPECT_EQ(cut({4, 100}, 4, 8), 12u);
    EXPECT_EQ(cut({0, 100}, 16, 50), 48u);
}

TEST(Stripe, without_a_boundary_within_reach_the_cut_is_by_size) {
    EXPECT_EQ(cut({3, 100}, 64, 10), 13u);
    EXPECT_EQ(cut({64, 200}, 64, 10), 74u);   // the boundary it starts on does not count
    EXPECT_EQ(cut({5, 7}, 1000, 1), 6u);
}

TEST(Stripe, a_cut_next_to_the_last_offset_does_not_overflow) {
    EXPECT_EQ(cut({kOffsetMax - 10, kOffsetMax}, 4096, 100), kOffsetMax);
    EXPECT_EQ(cut({kOffsetMax - 10, kOffsetMax}, 4096, 3), kOffsetMax - 7);
    EXPECT_EQ(cut({0, kOffsetMax}, 1, kOffsetMax - 1), kOffsetMax - 1);
}

}   // namespace
}   // namespace forebay
