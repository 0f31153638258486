// An index that gets no memory: its accounts agree with what it holds, and what changes one range is made
// whole or not at all.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "index/extent_index.h"
#include "support/failing_allocations.h"

namespace forebay::index {
namespace {

constexpr std::uint64_t kCommitted = 100, kSize = 6000;
constexpr std::uint64_t kCrowd = 200;

// What a reader would find: where its bytes are, by record; 0 is the target, zeros have no segment.
struct Piece {
    std::uint64_t begin, end, sequence;
    bool zeros;
    friend bool operator==(const Piece&, const Piece&) = default;
};
using Pieces = std::vector<Piece>;

class ExtentIndexOutOfMemory : public ::testing::Test {
  protected:
    // A committed extent that is ready, held ones over its middle and beside it, and one beyond the committed end.
    // Far behind them a crowd of both kinds, so large that there is always something to allocate.
    void prepare() {
        segment_.emplace(0, nullptr);
        index_.emplace();
        insert({0, 60}, 1, 0);
        insert({10, 20}, 2, kOffsetMax);
        insert({70, 90}, 3, kOffsetMax);
        insert({100, 200}, 4, kCommitted);
        for (std::uint64_t i = 0; i < kCrowd; ++i) insert_in_crowd(4 * i);
        insert_in_crowd(2);   // into the first leaf of either kind, which is full: takes what was reserved
        if (committed_) index_->commit(kSize);   // which leaves nothing reserved
    }
    void insert_in_crowd(std::uint64_t place) {
        insert({2000 + place, 2001 + place}, 5, kOffsetMax);
        insert({4000 + place, 4001 + place}, 5, 0);
    }
    void insert(ByteRange range, std::uint64_t sequence, std::uint64_t hold_below) {
        index_->insert(range, staged(range, sequence), hold_below, kCommitted);
    }
    StagedPlace staged(ByteRange range, std::uint64_t sequence) { return {&*segment_, range.begin, sequence, 0}; }

    Pieces newest() const {
        Pieces pieces;
        pieces.reserve(32);
        index_->for_each_newest(
            {0, 1000},
            [&](ByteRange range, const StagedPlace& bytes) {
                pieces.push_back({range.begin, range.end, bytes.sequence, bytes.segment == nullptr});
            },
            [&](ByteRange range) { pieces.push_back({range.begin, range.end, 0, false}); });
        return pieces;
    }

    // Pending, held and zero bytes are what the maps hold; the segment's share is all of it.
    void expect_accounts_agree() {
        std::uint64_t held = 0, ready = 0, held_zeros = 0, ready_zeros = 0;
        for (const auto& extent : index_->held().in(&*segment_)) held += extent.range.size();
        for (const auto& extent : index_->held().in(nullptr)) held_zeros += extent.range.size();
        index_->ready().map().walk_from(0, [&](ByteRange range, const StagedPlace& bytes) {
            (bytes.segment == nullptr ? ready_zeros : ready) += range.size();
            return true;
        });
        EXPECT_EQ(index_->held().bytes(), held);
        EXPECT_EQ(index_->ready().bytes(), ready);
        EXPECT_EQ(index_->zero_bytes(), held_zeros + ready_zeros);
        EXPECT_EQ(segment_->live_bytes, held + ready);
    }

    // `change()` with each of its allocations failing in turn.
    template <class Change, class Check>
    long fail_each_allocation(Change&& change, Check&& check) {
        const long failures = test::fail_each_allocation([&] { prepare(); }, change,
                                                         [&] {
                                                             expect_accounts_agree();
                                                             check();
                                                         });
        expect_accounts_agree();
        return failures;
    }
    // The same, where a failure leaves everything as it was.
    template <class Change>
    long fail_each_allocation(Change&& change) {
        prepare();
        const Pieces before = newest();
        const std::uint64_t superseded = index_->superseded_bytes();
        return fail_each_allocation(change, [&] {
            EXPECT_EQ(newest(), before);
            EXPECT_EQ(index_->superseded_bytes(), superseded);
        });
    }

    std::optional<log::Segment> segment_;
    std::optional<ExtentIndex> index_;
    bool committed_ = false;
};

TEST_F(ExtentIndexOutOfMemory, an_insertion_across_the_committed_end_is_made_or_not) {
    EXPECT_GT(fail_each_allocation([&] { insert({75, 150}, 9, kCommitted); }), 0);
    EXPECT_EQ(newest(), (Pieces{{0, 10, 1, false},
                                {10, 20, 2, false},
                                {20, 60, 1, false},
                                {60, 70, 0, false},
                                {70, 75, 3, false},
                                {75, 100, 9, false},
                                {100, 150, 9, false},
                                {150, 200, 4, false},
                                {200, 1000, 0, false}}));
}

TEST_F(ExtentIndexOutOfMemory, an_insertion_into_the_middle_of_extents_of_both_kinds_is_made_or_not) {
    EXPECT_GT(fail_each_allocation([&] { insert({12, 14}, 9, 0); }), 0);
    EXPECT_EQ(newest(), (Pieces{{0, 10, 1, false},
                                {10, 12, 2, false},
                                {12, 14, 9, false},
                                {14, 20, 2, false},
                                {20, 60, 1, false},
                                {60, 70, 0, false},
                                {70, 90, 3, false},
                                {90, 100, 0, false},
                                {100, 200, 4, false},
                                {200, 1000, 0, false}}));
}

TEST_F(ExtentIndexOutOfMemory, a_truncation_is_made_or_not) {
    committed_ = true;
    EXPECT_GT(fail_each_allocation([&] { index_->truncate(15, 200, kCommitted); }), 0);
    EXPECT_EQ(newest(), (Pieces{{0, 10, 1, false}, {10, 15, 2, false}, {15, 200, 0, true}, {200, 1000, 0, false}}));
}

TEST_F(ExtentIndexOutOfMemory, forgetting_a_range_is_done_or_not) {
    committed_ = true;
    EXPECT_GT(fail_each_allocation([&] { index_->drop({12, 14}); }), 0);
    EXPECT_EQ(newest()[2], (Piece{12, 14, 0, false}));
}

TEST_F(ExtentIndexOutOfMemory, forgetting_what_was_drained_is_done_or_not) {
    committed_ = true;
    EXPECT_GT(fail_each_allocation([&] {
                  EXPECT_EQ(index_->erase_drained({{120, 130}, {{{120, 130}, nullptr, 4, plan::Keeper::kNone}}}), 10u);
              }),
              0);
}

TEST_F(ExtentIndexOutOfMemory, a_commit_that_failed_half_way_shows_the_same_bytes_and_can_be_made_again) {
    prepare();
    const Pieces before = newest();
    EXPECT_GT(fail_each_allocation([&] { index_->commit(kSize); },
                                   [&] {
                                       EXPECT_EQ(newest(), before);
                                       index_->commit(kSize);
                                       expect_accounts_agree();
                                       EXPECT_TRUE(index_->held().empty());
                                       EXPECT_EQ(newest(), before);
                                   }),
              0);
    EXPECT_TRUE(index_->held().empty());
}

TEST_F(ExtentIndexOutOfMemory, bytes_that_move_to_another_place_are_never_lost) {
    prepare();
    const Pieces before = newest();
    const auto relocate = [&] { index_->relocate_held({70, 90}, {&*segment_, 5000, 3, 0}); };
    EXPECT_GT(fail_each_allocation(relocate, [&] { EXPECT_EQ(newest(), before); }), 0);
    EXPECT_EQ(newest(), before);
}

TEST_F(ExtentIndexOutOfMemory, records_of_several_logs_that_came_half_way_can_be_taken_in_again) {
    const auto follow = [&] { index_->insert_unless_newer({0, 110}, staged({0, 110}, 2), kOffsetMax, kCommitted); };
    const auto content = [&] {   // adjacent pieces of one record as one
        Pieces joined;
        for (const Piece& piece : newest())
            if (!joined.empty() && joined.back().sequence == piece.sequence) joined.back().end = piece.end;
            else joined.push_back(piece);
        return joined;
    };
    const Pieces joined{
        {0, 70, 2, false}, {70, 90, 3, false}, {90, 100, 2, false}, {100, 200, 4, false}, {200, 1000, 0, false}};
    EXPECT_GT(fail_each_allocation(follow,
                                   [&] {
                                       follow();
                                       expect_accounts_agree();
                                       EXPECT_EQ(content(), joined);
                                   }),
              0);
    EXPECT_EQ(content(), joined);
}

}   // namespace
}   // namespace forebay::index
