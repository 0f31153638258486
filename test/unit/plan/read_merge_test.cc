#include "plan/read_merge.h"

#include <gtest/gtest.h>

namespace forebay::plan {
namespace {

constexpr ReadPolicy kPolicy{.gap_max = 100, .hull_max = 1000, .straight_min = 500};

std::vector<ReadRequest> merged(std::initializer_list<ByteRange> ranges) {
    std::vector<ReadPiece> pieces;
    for (const ByteRange& range : ranges) pieces.push_back({range, nullptr});
    return merge_reads(pieces, kPolicy);
}

TEST(ReadMerge, neighbours_and_small_gaps_become_one_request) {
    EXPECT_EQ(merged({{0, 50}, {50, 80}, {100, 150}}), (std::vector<ReadRequest>{{{0, 150}, 0, 3}}));
}

TEST(ReadMerge, a_large_gap_begins_another_request) {
    EXPECT_EQ(merged({{0, 50}, {151, 200}}), (std::vector<ReadRequest>{{{0, 50}, 0, 1}, {{151, 200}, 1, 2}}));
}

TEST(ReadMerge, a_large_piece_is_a_request_of_its_own) {
    EXPECT_EQ(merged({{0, 50}, {50, 600}, {600, 650}}),
              (std::vector<ReadRequest>{{{0, 50}, 0, 1}, {{50, 600}, 1, 2}, {{600, 650}, 2, 3}}));
}

TEST(ReadMerge, a_request_does_not_grow_beyond_its_limit) {
    EXPECT_EQ(merged({{0, 400}, {400, 800}, {800, 1001}}),
              (std::vector<ReadRequest>{{{0, 800}, 0, 2}, {{800, 1001}, 2, 3}}));
}

TEST(ReadMerge, not_much_more_is_read_than_is_wanted) {
    // Five bytes in every hundred: the third piece would make 205 of 15 wanted, and one gap is allowed on top of four
    // times those.
    EXPECT_EQ(merged({{0, 5}, {100, 105}, {200, 205}}),
              (std::vector<ReadRequest>{{{0, 105}, 0, 2}, {{200, 205}, 2, 3}}));
}

TEST(ReadMerge, pieces_may_overlap) {
    EXPECT_EQ(merged({{0, 100}, {10, 20}, {50, 120}}), (std::vector<ReadRequest>{{{0, 120}, 0, 3}}));
}

TEST(ReadMerge, nothing_is_no_request) { EXPECT_TRUE(merged({}).empty()); }

}   // namespace
}   // namespace forebay::plan
