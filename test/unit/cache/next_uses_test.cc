// Which stored unit a known order uses last.
#include "cache/next_uses.h"

#include <gtest/gtest.h>

namespace forebay::cache {
namespace {

constexpr std::uint64_t kAll = ~std::uint64_t{0};

constexpr ByteRange unit(std::uint64_t number) { return {number * kUnitBytes, (number + 1) * kUnitBytes}; }
constexpr ByteRange blocks(std::uint64_t number, std::uint64_t first, std::uint64_t end) {
    return {number * kUnitBytes + first * kBlockBytes, number * kUnitBytes + end * kBlockBytes};
}

class NextUsesTest : public testing::Test {
  protected:
    void expect_farthest(std::uint64_t unit, std::uint64_t next) const {
        const auto farthest = uses_.farthest();
        ASSERT_TRUE(farthest);
        EXPECT_EQ(farthest->unit, unit);
        EXPECT_EQ(farthest->next, next);
    }
    NextUses uses_;
};

TEST_F(NextUsesTest, the_stored_unit_that_is_used_last_is_found) {
    EXPECT_FALSE(uses_.farthest());
    for (const std::uint64_t number : {1, 2, 3, 1, 2}) uses_.add(unit(number));
    for (const std::uint64_t number : {1, 2, 3}) uses_.note_stored(number, kAll);
    expect_farthest(3, 2);
    uses_.note_read(unit(1));
    expect_farthest(1, 3);
    uses_.note_read(unit(2));
    expect_farthest(2, 4);
    uses_.note_read(unit(3));
    expect_farthest(3, NextUses::kNever);
    uses_.note_gone(3);
    expect_farthest(2, 4);
    uses_.add(unit(3));
    EXPECT_EQ(uses_.next(3, kAll), 5U);
    expect_farthest(2, 4);
}

TEST_F(NextUsesTest, a_use_counts_for_the_blocks_that_it_has) {
    uses_.add(blocks(0, 0, 8));
    uses_.add(blocks(0, 8, 16));
    uses_.add(blocks(0, 0, 8));
    uses_.note_stored(0, block_mask(8, 16));
    expect_farthest(0, 1);
    EXPECT_EQ(uses_.next(0, block_mask(0, 8)), 0U);
    EXPECT_TRUE(uses_.is_reused(0, block_mask(0, 8)));
    EXPECT_FALSE(uses_.is_reused(0, block_mask(8, 16)));
    uses_.note_read(blocks(0, 0, 8));
    EXPECT_EQ(uses_.next(0, block_mask(0, 8)), 2U);
    EXPECT_FALSE(uses_.is_reused(0, block_mask(0, 8)));
    uses_.note_stored(0, block_mask(0, 8));
    uses_.note_read(blocks(0, 8, 16));
    expect_farthest(0, 2);
    uses_.note_read(blocks(0, 0, 4));
    EXPECT_EQ(uses_.next(0, block_mask(0, 8)), 2U) << "half of it is still to be read";
    uses_.note_read(blocks(0, 4, 8));
    expect_farthest(0, NextUses::kNever);
}

TEST_F(NextUsesTest, a_range_over_several_units_is_a_use_of_each) {
    uses_.add({kUnitBytes - 1, 2 * kUnitBytes + 1});
    EXPECT_EQ(uses_.next(0, block_mask(63, 64)), 0U);
    EXPECT_EQ(uses_.next(0, block_mask(0, 63)), NextUses::kNever);
    EXPECT_EQ(uses_.next(1, kAll), 0U);
    EXPECT_EQ(uses_.next(2, block_mask(0, 1)), 0U);
}

TEST_F(NextUsesTest, uses_that_the_program_skips_are_forgotten) {
    uses_.add(unit(0));
    for (std::uint64_t i = 0; i < 2 * NextUses::kFar; ++i) uses_.add(unit(1 + i % 2));
    uses_.note_stored(0, kAll);
    uses_.note_stored(1, kAll);
    for (std::uint64_t i = 0; i < NextUses::kFar; ++i) uses_.note_read(unit(1 + i % 2));
    expect_farthest(1, 1 + NextUses::kFar);
    for (std::uint64_t i = 0; i < 4; ++i) uses_.note_read(unit(1 + i % 2));
    expect_farthest(0, NextUses::kNever);
}

TEST_F(NextUsesTest, a_read_of_another_order_leaves_far_uses_alone) {
    for (std::uint64_t i = 0; i < NextUses::kFar + 10; ++i) uses_.add(unit(i));
    uses_.note_read(unit(NextUses::kFar + 5));
    EXPECT_EQ(uses_.next(NextUses::kFar + 5, kAll), NextUses::kFar + 5);
    EXPECT_EQ(uses_.next(0, kAll), 0U);
}

}   // namespace
}   // namespace forebay::cache
