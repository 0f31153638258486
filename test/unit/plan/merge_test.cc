#include "plan/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace forebay::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The planner only passes segments on; any two addresses serve.
std::array<std::byte, 1000> store{};

Piece piece(std::uint64_t begin, std::uint64_t end, std::size_t at, std::uint64_t sequence = 1,
            std::uintptr_t kept_by = 1) {
    return {{begin, end}, store.data() + at, sequence, Keeper{kept_by}};
}

std::vector<ByteRange> ranges(const std::vector<TargetWrite>& writes) {
    std::vector<ByteRange> ranges;
    for (const TargetWrite& write : writes) ranges.push_back(write.range);
    return ranges;
}

Policy roomy() {
    Policy policy;
    policy.stripe = 100;
    policy.write_max = 1000;
    return policy;
}

TEST(Merge, nothing_in_nothing_out) { EXPECT_THAT(merge({}, roomy()), IsEmpty()); }

TEST(Merge, adjoining_extents_become_one_write_however_they_lie_in_the_log) {
    const std::array pieces{piece(10, 20, 500, 7, 1), piece(20, 25, 3, 2, 2), piece(25, 40, 200, 9, 1)};
    const auto writes = merge(pieces, roomy());
    ASSERT_THAT(ranges(writes), ElementsAre(ByteRange{10, 40}));
    ASSERT_EQ(writes[0].pieces.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(writes[0].pieces[i].range, pieces[i].range);
        EXPECT_EQ(writes[0].pieces[i].bytes, pieces[i].bytes);
        EXPECT_EQ(writes[0].pieces[i].sequence, pieces[i].sequence);
        EXPECT_EQ(writes[0].pieces[i].keeper, pieces[i].keeper);
    }
}

TEST(Merge, a_gap_of_one_byte_separates_writes) {
    const std::array pieces{piece(10, 20, 0), piece(21, 30, 50)};
    EXPECT_THAT(ranges(merge(pieces, roomy())), ElementsAre(ByteRange{10, 20}, ByteRange{21, 30}));
}

TEST(Merge, a_long_run_is_cut_at_stripe_boundaries) {
    Policy policy = roomy();
    policy.write_max = 250;
    const std::array pieces{piece(30, 630, 0)};
    EXPECT_THAT(ranges(merge(pieces, policy)),
                ElementsAre(ByteRange{30, 200}, ByteRange{200, 400}, ByteRange{400, 630}));
}

TEST(Merge, a_piece_that_is_cut_goes_on_where_it_was_left) {
    Policy policy = roomy();
    policy.write_max = 100;
    const std::array pieces{piece(50, 120, 0, 1, 1), piece(120, 260, 500, 2, 2)};
    const auto writes = merge(pieces, policy);
    ASSERT_THAT(ranges(writes), ElementsAre(ByteRange{50, 100}, ByteRange{100, 200}, ByteRange{200, 260}));
    ASSERT_EQ(writes[1].pieces.size(), 2u);
    EXPECT_EQ(writes[1].pieces[0].range, (ByteRange{100, 120}));
    EXPECT_EQ(writes[1].pieces[0].bytes, store.data() + 50);
    EXPECT_EQ(writes[1].pieces[1].range, (ByteRange{120, 200}));
    EXPECT_EQ(writes[1].pieces[1].bytes, store.data() + 500);
    ASSERT_EQ(writes[2].pieces.size(), 1u);
    EXPECT_EQ(writes[2].pieces[0].bytes, store.data() + 580);
    EXPECT_EQ(writes[2].pieces[0].sequence, 2u);
}

TEST(Merge, without_a_boundary_within_reach_writes_are_cut_by_size) {
    Policy policy = roomy();
    policy.stripe = 1000;
    policy.write_max = 40;
    const std::array pieces{piece(10, 100, 0)};
    EXPECT_THAT(ranges(merge(pieces, policy)), ElementsAre(ByteRange{10, 50}, ByteRange{50, 90}, ByteRange{90, 100}));
}

TEST(Merge, a_write_has_no_more_pieces_than_allowed) {
    Policy policy = roomy();
    policy.pieces_max = 2;
    const std::array pieces{piece(0, 1, 0), piece(1, 2, 10), piece(2, 3, 20), piece(3, 4, 30), piece(4, 5, 40)};
    const auto writes = merge(pieces, policy);
    EXPECT_THAT(ranges(writes), ElementsAre(ByteRange{0, 2}, ByteRange{2, 4}, ByteRange{4, 5}));
    policy.pieces_max = 5;
    EXPECT_THAT(ranges(merge(pieces, policy)), ElementsAre(ByteRange{0, 5}));
    policy.pieces_max = 1;
    EXPECT_EQ(merge(pieces, policy).size(), 5u);
}

TEST(Merge, a_growing_end_leaves_its_last_stripe_for_later) {
    Policy policy = roomy();
    policy.growing_at = 350;
    const std::array pieces{piece(120, 200, 0), piece(200, 350, 100)};
    EXPECT_THAT(ranges(merge(pieces, policy)), ElementsAre(ByteRange{120, 300}));
}

TEST(Merge, a_growing_end_on_a_boundary_leaves_nothing) {
    Policy policy = roomy();
    policy.growing_at = 300;
    const std::array pieces{piece(120, 300, 0)};
    EXPECT_THAT(ranges(merge(pieces, policy)), ElementsAre(ByteRange{120, 300}));
}

TEST(Merge, a_growing_run_within_one_stripe_is_left_altogether) {
    Policy policy = roomy();
    policy.growing_at = 180;
    const std::array pieces{piece(10, 60, 0), piece(120, 180, 100)};
    EXPECT_THAT(ranges(merge(pieces, policy)), ElementsAre(ByteRange{10, 60}));
}

TEST(Merge, only_the_run_that_ends_where_the_file_grows_is_shortened) {
    Policy policy = roomy();
    policy.growing_at = 500;
    const std::array pieces{piece(10, 150, 0), piece(160, 250, 200)};
    EXPECT_THAT(ranges(merge(pieces, policy)), ElementsAre(ByteRange{10, 150}, ByteRange{160, 250}));
}

TEST(Merge, a_run_shorter_than_wanted_is_left_for_later) {
    Policy policy = roomy();
    policy.run_min = 20;
    const std::array pieces{piece(0, 19, 0), piece(30, 40, 100), piece(40, 50, 200), piece(60, 65, 300)};
    EXPECT_THAT(ranges(merge(pieces, policy)), ElementsAre(ByteRange{30, 50}));
}

TEST(Merge, as_little_behind_the_last_boundary_of_a_longer_run_is_left_too) {
    Policy policy = roomy();
    policy.run_min = 50;
    const std::array pieces{piece(0, 249, 0), piece(300, 450, 300), piece(530, 640, 500)};
    EXPECT_THAT(ranges(merge(pieces, policy)),
                ElementsAre(ByteRange{0, 200}, ByteRange{300, 450}, ByteRange{530, 600}));
}

TEST(Merge, what_a_growing_end_leaves_of_a_run_is_left_too_if_it_is_short) {
    Policy policy = roomy();
    policy.run_min = 20;
    policy.growing_at = 150;
    const std::array pieces{piece(90, 150, 0)};
    EXPECT_THAT(ranges(merge(pieces, policy)), IsEmpty());
    policy.run_min = 10;
    EXPECT_THAT(ranges(merge(pieces, policy)), ElementsAre(ByteRange{90, 100}));
}

TEST(Merge, zeros_stay_zeros_when_they_are_cut) {
    Policy policy = roomy();
    policy.write_max = 100;
    const std::array pieces{piece(0, 50, 10), Piece{{50, 150}, nullptr, 4, Keeper::kNone}, piece(150, 200, 60)};
    const auto writes = merge(pieces, policy);
    ASSERT_THAT(ranges(writes), ElementsAre(ByteRange{0, 100}, ByteRange{100, 200}));
    EXPECT_EQ(writes[0].pieces[1].range, (ByteRange{50, 100}));
    EXPECT_EQ(writes[0].pieces[1].bytes, nullptr);
    EXPECT_EQ(writes[1].pieces[0].range, (ByteRange{100, 150}));
    EXPECT_EQ(writes[1].pieces[0].bytes, nullptr);
    EXPECT_EQ(writes[1].pieces[1].bytes, store.data() + 60);
}

}   // namespace
}   // namespace forebay::plan
