// An extent map that gets no memory stays as it was, and has told nobody of a loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "extent/extent_map.h"
#include "support/failing_allocations.h"

namespace forebay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Origin {
    std::uint64_t at = 0;
    [[nodiscard]] Origin advanced(std::uint64_t bytes) const noexcept { return {at + bytes}; }
};

struct Piece {
    std::uint64_t begin, end, at;
    friend bool operator==(const Piece&, const Piece&) = default;
};

using Map = ExtentMap<Origin, 4>;   // small leaves: they split and join often

constexpr auto kIgnore = [](ByteRange, const Origin&) {};
const std::vector<Piece> kBefore{{10, 20, 100}, {20, 30, 200}, {40, 50, 300}, {80, 90, 400}};   // a full leaf

std::vector<Piece> content(const Map& map) {
    std::vector<Piece> pieces;
    map.for_each({0, kOffsetMax},
                 [&](ByteRange range, const Origin& value) { pieces.push_back({range.begin, range.end, value.at}); });
    return pieces;
}

class ExtentMapOutOfMemory : public ::testing::Test {
  protected:
    // `change(map, displaced)` on a map that holds kBefore, with each of its allocations failing in turn.
    template <class Change>
    long fail_each_allocation(Change&& change) {
        return test::fail_each_allocation(
            [&] {
                map_.emplace();
                for (const Piece& piece : kBefore) map_->insert({piece.begin, piece.end}, {piece.at}, kIgnore);
                lost_.clear();
                lost_.reserve(10);
            },
            [&] {
                change(*map_, [&](ByteRange range, const Origin& value) {
                    lost_.push_back({range.begin, range.end, value.at});
                });
            },
            [&] {
                EXPECT_EQ(content(*map_), kBefore);
                EXPECT_EQ(map_->size(), kBefore.size());
                EXPECT_THAT(lost_, IsEmpty());
            });
    }

    std::optional<Map> map_;
    std::vector<Piece> lost_;
};

TEST_F(ExtentMapOutOfMemory, an_insertion_behind_the_last_extent_is_made_or_not) {
    EXPECT_GT(fail_each_allocation([](Map& map, auto displaced) { map.insert({100, 110}, {900}, displaced); }), 0);
    EXPECT_THAT(content(*map_), ElementsAre(Piece{10, 20, 100}, Piece{20, 30, 200}, Piece{40, 50, 300},
                                            Piece{80, 90, 400}, Piece{100, 110, 900}));
    EXPECT_THAT(lost_, IsEmpty());
}

TEST_F(ExtentMapOutOfMemory, an_insertion_into_the_middle_of_an_extent_is_made_or_not) {
    EXPECT_GT(fail_each_allocation([](Map& map, auto displaced) { map.insert({43, 46}, {900}, displaced); }), 0);
    EXPECT_THAT(content(*map_), ElementsAre(Piece{10, 20, 100}, Piece{20, 30, 200}, Piece{40, 43, 300},
                                            Piece{43, 46, 900}, Piece{46, 50, 306}, Piece{80, 90, 400}));
    EXPECT_THAT(lost_, ElementsAre(Piece{43, 46, 303}));
}

TEST_F(ExtentMapOutOfMemory, an_insertion_over_several_extents_is_made_or_not) {
    EXPECT_GT(fail_each_allocation([](Map& map, auto displaced) { map.insert({15, 45}, {900}, displaced); }), 0);
    EXPECT_THAT(content(*map_),
                ElementsAre(Piece{10, 15, 100}, Piece{15, 45, 900}, Piece{45, 50, 305}, Piece{80, 90, 400}));
    EXPECT_THAT(lost_, ElementsAre(Piece{15, 20, 105}, Piece{20, 30, 200}, Piece{40, 45, 300}));
}

TEST_F(ExtentMapOutOfMemory, a_removal_from_the_middle_of_an_extent_is_made_or_not) {
    EXPECT_GT(fail_each_allocation([](Map& map, auto displaced) { map.erase({43, 46}, displaced); }), 0);
    EXPECT_THAT(content(*map_), ElementsAre(Piece{10, 20, 100}, Piece{20, 30, 200}, Piece{40, 43, 300},
                                            Piece{46, 50, 306}, Piece{80, 90, 400}));
    EXPECT_THAT(lost_, ElementsAre(Piece{43, 46, 303}));
}

TEST_F(ExtentMapOutOfMemory, a_removal_that_splits_nothing_needs_no_memory) {
    EXPECT_EQ(fail_each_allocation([](Map& map, auto displaced) { map.erase({15, 45}, displaced); }), 0);
    EXPECT_THAT(content(*map_), ElementsAre(Piece{10, 15, 100}, Piece{45, 50, 305}, Piece{80, 90, 400}));
    EXPECT_THAT(lost_, ElementsAre(Piece{15, 20, 105}, Piece{20, 30, 200}, Piece{40, 45, 300}));
}

TEST_F(ExtentMapOutOfMemory, what_was_reserved_is_enough_for_a_splitting_insertion_and_a_splitting_removal) {
    const auto change = [](Map& map, auto displaced) {
        map.insert({43, 46}, {900}, displaced);
        map.erase({12, 13}, displaced);
    };
    EXPECT_GT(fail_each_allocation([&](Map& map, auto displaced) {
                  map.reserve(Map::kInsertNodes + Map::kEraseNodes);
                  change(map, displaced);
              }),
              0);
    EXPECT_EQ(content(*map_).size(), 7u);
}

}   // namespace
}   // namespace forebay
