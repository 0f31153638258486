#include "extent/extent_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace forebay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Where an extent's bytes begin in a store of bytes numbered from 0.
struct Origin {
    std::uint64_t at = 0;
    [[nodiscard]] Origin advanced(std::uint64_t bytes) const noexcept { return {at + bytes}; }
    friend bool operator==(const Origin&, const Origin&) = default;
};

struct Piece {
    std::uint64_t begin, end, at;
    friend bool operator==(const Piece&, const Piece&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Piece& piece) {
        return out << '[' << piece.begin << ',' << piece.end << ")@" << piece.at;
    }
};
constexpr std::uint64_t kGap = ~std::uint64_t{0};

// Adds what a map reports to `pieces`.
auto into(std::vector<Piece>& pieces) {
    return [&pieces](ByteRange range, const Origin& value) { pieces.push_back({range.begin, range.end, value.at}); };
}

class ExtentMapTest : public ::testing::Test {
  protected:
    std::vector<Piece> insert(std::uint64_t begin, std::uint64_t end, std::uint64_t at) {
        std::vector<Piece> lost;
        map_.insert({begin, end}, Origin{at}, into(lost));
        return lost;
    }
    std::vector<Piece> erase(std::uint64_t begin, std::uint64_t end) {
        std::vector<Piece> lost;
        map_.erase({begin, end}, into(lost));
        return lost;
    }
    std::vector<Piece> content(ByteRange range = {0, kOffsetMax}) const {
        std::vector<Piece> pieces;
        map_.for_each(range, into(pieces));
        return pieces;
    }
    std::vector<Piece> content_and_gaps(ByteRange range) const {
        std::vector<Piece> pieces;
        map_.for_each_and_gap(range, into(pieces),
                              [&](ByteRange gap) { pieces.push_back({gap.begin, gap.end, kGap}); });
        return pieces;
    }
    std::vector<Piece> walk(std::uint64_t offset, std::size_t visits_max = 100) const {
        std::vector<Piece> pieces;
        map_.walk_from(offset, [&](ByteRange range, const Origin& value) {
            pieces.push_back({range.begin, range.end, value.at});
            return pieces.size() < visits_max;
        });
        return pieces;
    }

    ExtentMap<Origin> map_;
};

TEST_F(ExtentMapTest, an_empty_map_has_nothing_anywhere) {
    EXPECT_TRUE(map_.empty());
    EXPECT_THAT(content(), IsEmpty());
    EXPECT_THAT(walk(0), IsEmpty());
    EXPECT_FALSE(map_.overlaps({0, kOffsetMax}));
    EXPECT_THAT(content_and_gaps({3, 9}), ElementsAre(Piece{3, 9, kGap}));
    EXPECT_THAT(erase(0, kOffsetMax), IsEmpty());
}

TEST_F(ExtentMapTest, inserting_nothing_changes_nothing) {
    insert(10, 20, 100);
    EXPECT_THAT(insert(15, 15, 500), IsEmpty());
    EXPECT_THAT(erase(15, 15), IsEmpty());
    EXPECT_THAT(content(), ElementsAre(Piece{10, 20, 100}));
}

TEST_F(ExtentMapTest, an_insertion_over_the_front_trims_the_older_extent) {
    insert(10, 20, 100);
    EXPECT_THAT(insert(5, 13, 200), ElementsAre(Piece{10, 13, 100}));
    EXPECT_THAT(content(), ElementsAre(Piece{5, 13, 200}, Piece{13, 20, 103}));
}

TEST_F(ExtentMapTest, an_insertion_from_the_very_beginning_trims_the_older_extent) {
    insert(10, 20, 100);
    EXPECT_THAT(insert(10, 13, 200), ElementsAre(Piece{10, 13, 100}));
    EXPECT_THAT(content(), ElementsAre(Piece{10, 13, 200}, Piece{13, 20, 103}));
}

TEST_F(ExtentMapTest, an_insertion_into_the_middle_splits_the_older_extent) {
    insert(10, 20, 100);
    EXPECT_THAT(insert(13, 16, 200), ElementsAre(Piece{13, 16, 103}));
    EXPECT_THAT(content(), ElementsAre(Piece{10, 13, 100}, Piece{13, 16, 200}, Piece{16, 20, 106}));
}

TEST_F(ExtentMapTest, an_insertion_over_the_end_trims_the_older_extent) {
    insert(10, 20, 100);
    EXPECT_THAT(insert(16, 25, 200), ElementsAre(Piece{16, 20, 106}));
    EXPECT_THAT(content(), ElementsAre(Piece{10, 16, 100}, Piece{16, 25, 200}));
}

TEST_F(ExtentMapTest, an_insertion_up_to_the_very_end_trims_the_older_extent) {
    insert(10, 20, 100);
    EXPECT_THAT(insert(16, 20, 200), ElementsAre(Piece{16, 20, 106}));
    EXPECT_THAT(content(), ElementsAre(Piece{10, 16, 100}, Piece{16, 20, 200}));
}

TEST_F(ExtentMapTest, an_insertion_of_the_same_range_replaces_the_older_extent) {
    insert(10, 20, 100);
    EXPECT_THAT(insert(10, 20, 200), ElementsAre(Piece{10, 20, 100}));
    EXPECT_THAT(content(), ElementsAre(Piece{10, 20, 200}));
    EXPECT_EQ(map_.size(), 1u);
}

TEST_F(ExtentMapTest, an_insertion_over_several_removes_the_inner_ones_and_trims_the_outer_ones) {
    insert(10, 20, 100);
    insert(20, 30, 200);
    insert(40, 50, 300);
    insert(60, 70, 400);
    EXPECT_THAT(insert(15, 65, 900),
                ElementsAre(Piece{15, 20, 105}, Piece{20, 30, 200}, Piece{40, 50, 300}, Piece{60, 65, 400}));
    EXPECT_THAT(content(), ElementsAre(Piece{10, 15, 100}, Piece{15, 65, 900}, Piece{65, 70, 405}));
}

TEST_F(ExtentMapTest, adjacent_extents_stay_apart_and_lose_nothing) {
    insert(10, 20, 100);
    EXPECT_THAT(insert(20, 30, 110), IsEmpty());
    EXPECT_THAT(insert(5, 10, 95), IsEmpty());
    EXPECT_THAT(content(), ElementsAre(Piece{5, 10, 95}, Piece{10, 20, 100}, Piece{20, 30, 110}));
}

TEST_F(ExtentMapTest, an_insertion_between_two_extents_loses_nothing) {
    insert(10, 20, 100);
    insert(40, 50, 200);
    EXPECT_THAT(insert(20, 40, 300), IsEmpty());
    EXPECT_THAT(content(), ElementsAre(Piece{10, 20, 100}, Piece{20, 40, 300}, Piece{40, 50, 200}));
}

TEST_F(ExtentMapTest, extents_reach_to_the_last_offset) {
    insert(kOffsetMax - 4, kOffsetMax, 100);
    EXPECT_THAT(insert(kOffsetMax - 2, kOffsetMax, 200), ElementsAre(Piece{kOffsetMax - 2, kOffsetMax, 102}));
    EXPECT_THAT(erase(0, kOffsetMax),
                ElementsAre(Piece{kOffsetMax - 4, kOffsetMax - 2, 100}, Piece{kOffsetMax - 2, kOffsetMax, 200}));
    EXPECT_TRUE(map_.empty());
}

TEST_F(ExtentMapTest, erasing_from_the_middle_leaves_both_ends) {
    insert(10, 20, 100);
    EXPECT_THAT(erase(12, 15), ElementsAre(Piece{12, 15, 102}));
    EXPECT_THAT(content(), ElementsAre(Piece{10, 12, 100}, Piece{15, 20, 105}));
}

TEST_F(ExtentMapTest, erasing_what_is_not_there_reports_nothing) {
    insert(10, 20, 100);
    EXPECT_THAT(erase(0, 10), IsEmpty());
    EXPECT_THAT(erase(20, 30), IsEmpty());
    EXPECT_THAT(content(), ElementsAre(Piece{10, 20, 100}));
}

TEST_F(ExtentMapTest, pieces_are_cut_to_the_range_that_is_asked_for) {
    insert(10, 20, 100);
    insert(20, 30, 200);
    EXPECT_THAT(content({12, 25}), ElementsAre(Piece{12, 20, 102}, Piece{20, 25, 200}));
    EXPECT_THAT(content({12, 15}), ElementsAre(Piece{12, 15, 102}));
    EXPECT_THAT(content({12, 12}), IsEmpty());
    EXPECT_THAT(content({30, 40}), IsEmpty());
}

TEST_F(ExtentMapTest, extents_and_gaps_alternate_without_a_hole) {
    insert(10, 20, 100);
    insert(20, 30, 200);
    insert(40, 50, 300);
    EXPECT_THAT(content_and_gaps({5, 60}), ElementsAre(Piece{5, 10, kGap}, Piece{10, 20, 100}, Piece{20, 30, 200},
                                                       Piece{30, 40, kGap}, Piece{40, 50, 300}, Piece{50, 60, kGap}));
    EXPECT_THAT(content_and_gaps({12, 35}), ElementsAre(Piece{12, 20, 102}, Piece{20, 30, 200}, Piece{30, 35, kGap}));
    EXPECT_THAT(content_and_gaps({32, 38}), ElementsAre(Piece{32, 38, kGap}));
    EXPECT_THAT(content_and_gaps({14, 16}), ElementsAre(Piece{14, 16, 104}));
    EXPECT_THAT(content_and_gaps({14, 14}), IsEmpty());
}

TEST_F(ExtentMapTest, overlap_means_at_least_one_common_byte) {
    insert(10, 20, 100);
    EXPECT_TRUE(map_.overlaps({0, 11}));
    EXPECT_TRUE(map_.overlaps({19, 30}));
    EXPECT_TRUE(map_.overlaps({12, 13}));
    EXPECT_TRUE(map_.overlaps({0, 30}));
    EXPECT_FALSE(map_.overlaps({0, 10}));
    EXPECT_FALSE(map_.overlaps({20, 30}));
    EXPECT_FALSE(map_.overlaps({15, 15}));
}

TEST_F(ExtentMapTest, a_walk_begins_with_the_extent_that_ends_beyond_the_offset_and_shows_it_whole) {
    insert(10, 20, 100);
    insert(20, 30, 200);
    insert(40, 50, 300);
    EXPECT_THAT(walk(0), ElementsAre(Piece{10, 20, 100}, Piece{20, 30, 200}, Piece{40, 50, 300}));
    EXPECT_THAT(walk(19), ElementsAre(Piece{10, 20, 100}, Piece{20, 30, 200}, Piece{40, 50, 300}));
    EXPECT_THAT(walk(20), ElementsAre(Piece{20, 30, 200}, Piece{40, 50, 300}));
    EXPECT_THAT(walk(30), ElementsAre(Piece{40, 50, 300}));
    EXPECT_THAT(walk(50), IsEmpty());
}

TEST_F(ExtentMapTest, a_walk_stops_when_told) {
    insert(10, 20, 100);
    insert(20, 30, 200);
    EXPECT_THAT(walk(0, 1), ElementsAre(Piece{10, 20, 100}));
}

TEST_F(ExtentMapTest, clearing_leaves_nothing) {
    insert(10, 20, 100);
    map_.clear();
    EXPECT_TRUE(map_.empty());
    EXPECT_THAT(insert(12, 14, 200), IsEmpty());
}

TEST_F(ExtentMapTest, moves_with_all_that_it_holds_and_leaves_an_empty_map) {
    for (std::uint64_t i = 0; i < 1000; ++i) insert(10 * i, 10 * i + 5, i);
    ExtentMap<Origin> moved = std::move(map_);
    map_ = ExtentMap<Origin>();
    EXPECT_TRUE(map_.empty());
    EXPECT_EQ(moved.size(), 1000u);
    EXPECT_TRUE(moved.overlaps({5003, 5004}));
    EXPECT_FALSE(moved.overlaps({5005, 5010}));
    EXPECT_THAT(content(), IsEmpty());
    insert(1, 2, 3);
    EXPECT_THAT(content(), ElementsAre(Piece{1, 2, 3}));
}

}   // namespace
}   // namespace forebay
