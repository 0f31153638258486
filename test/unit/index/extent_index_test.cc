// Held and drainable extents, and records that come from several logs in no order.
#include "index/extent_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "io/memory_file.h"

namespace forebay::index {
namespace {

using ::testing::ElementsAre;

// What a reader finds: which record, and the byte of its segment where the piece begins.
struct Piece {
    std::uint64_t begin, end, sequence, at;
    friend bool operator==(const Piece&, const Piece&) = default;
    friend std::ostream& operator<<(std::ostream& out, const Piece& piece) {
        return out << '[' << piece.begin << ',' << piece.end << ") of " << piece.sequence << " at " << piece.at;
    }
};

class ExtentIndexTest : public ::testing::Test {
  protected:
    ExtentIndexTest()
        : file_(io::make_memory_file("log")),
          one_(0, std::move(file_->map(0, 4096)).value()),
          other_(1, std::move(file_->map(4096, 4096)).value()) {}

    std::vector<Piece> newest(ByteRange range = {0, 4096}) const {
        std::vector<Piece> pieces;
        index_.for_each_newest(
            range,
            [&](ByteRange piece, const StagedPlace& bytes) {
                pieces.push_back({piece.begin, piece.end, bytes.sequence, bytes.offset});
            },
            [](ByteRange) {});
        return pieces;
    }
    void found(log::Segment& segment, ByteRange range, std::uint64_t sequence, std::uint64_t hold_below = 0) {
        index_.insert_unless_newer(range, {&segment, range.begin, sequence, 0}, hold_below, 0);
    }

    std::unique_ptr<io::File> file_;
    log::Segment one_, other_;
    ExtentIndex index_;
};

// Figure 8 and table I of the Compactor paper, byte ranges as there.
constexpr ByteRange kWriteI[] = {{0, 32}, {48, 96}, {96, 128}, {160, 256}};
constexpr ByteRange kWriteII[] = {{16, 64}, {80, 96}, {112, 160}, {176, 208}};
const std::vector<Piece> kMerged = {{0, 16, 1, 0},      {16, 64, 2, 16},    {64, 80, 1, 64},
                                    {80, 96, 2, 80},    {96, 112, 1, 96},   {112, 160, 2, 112},
                                    {160, 176, 1, 160}, {176, 208, 2, 176}, {208, 256, 1, 208}};

TEST_F(ExtentIndexTest, table_i_write_morphing_takes_every_byte_from_the_latest_write) {
    for (const ByteRange& range : kWriteI) index_.insert(range, {&one_, range.begin, 1, 0}, 0, 0);
    for (const ByteRange& range : kWriteII) index_.insert(range, {&other_, range.begin, 2, 0}, 0, 0);
    EXPECT_EQ(newest(), kMerged);
    EXPECT_EQ(index_.superseded_bytes(), 96u);
    EXPECT_EQ(one_.live_bytes, 112u);
    EXPECT_EQ(other_.live_bytes, 144u);
}

// The paper cannot morph the writes of two clients, as it does not know their order; sequence numbers tell it.
TEST_F(ExtentIndexTest, table_i_write_morphing_of_two_clients_does_not_depend_on_which_is_found_first) {
    for (const ByteRange& range : kWriteII) found(other_, range, 2);
    for (const ByteRange& range : kWriteI) found(one_, range, 1);
    EXPECT_EQ(newest(), kMerged);
    EXPECT_EQ(index_.superseded_bytes(), 96u);
    EXPECT_EQ(one_.live_bytes, 112u);
    EXPECT_EQ(other_.live_bytes, 144u);
}

TEST_F(ExtentIndexTest, an_older_record_that_is_found_late_fills_gaps_only) {
    found(other_, {100, 200}, 5);
    found(one_, {50, 300}, 3);
    EXPECT_THAT(newest(), ElementsAre(Piece{50, 100, 3, 50}, Piece{100, 200, 5, 100}, Piece{200, 300, 3, 200}));
    EXPECT_EQ(one_.live_bytes, 150u);
    found(one_, {0, 1000}, 4);
    EXPECT_THAT(newest(), ElementsAre(Piece{0, 100, 4, 0}, Piece{100, 200, 5, 100}, Piece{200, 1000, 4, 200}));
    EXPECT_EQ(index_.pending_bytes(), 1000u);
}

TEST_F(ExtentIndexTest, an_older_record_that_is_found_late_stays_below_newer_held_bytes) {
    found(other_, {100, 200}, 5, kOffsetMax);
    found(one_, {100, 200}, 3);
    EXPECT_THAT(newest(), ElementsAre(Piece{100, 200, 5, 100}));
    EXPECT_TRUE(index_.ready().empty());
    EXPECT_EQ(one_.live_bytes, 0u);
    EXPECT_EQ(index_.superseded_bytes(), 100u);
}

TEST_F(ExtentIndexTest, a_copy_of_the_same_record_replaces_it) {
    found(one_, {100, 200}, 5);
    found(other_, {100, 200}, 5);
    EXPECT_THAT(newest(), ElementsAre(Piece{100, 200, 5, 100}));
    EXPECT_EQ(one_.live_bytes, 0u);
    EXPECT_EQ(other_.live_bytes, 100u);
}

TEST_F(ExtentIndexTest, a_record_found_late_is_split_at_the_committed_end_as_any_other) {
    found(one_, {0, 300}, 3, 200);
    EXPECT_EQ(index_.held().bytes(), 200u);
    EXPECT_EQ(index_.ready().bytes(), 100u);
}

TEST_F(ExtentIndexTest, zeros_of_a_cut_give_way_to_any_record_and_are_counted_apart) {
    index_.truncate(100, 500, 500);
    EXPECT_EQ(index_.zero_bytes(), 400u);
    EXPECT_EQ(index_.pending_bytes(), 0u);
    found(one_, {200, 300}, 1, kOffsetMax);
    EXPECT_EQ(index_.zero_bytes(), 300u);
    EXPECT_EQ(index_.held().bytes(), 100u);
}

TEST_F(ExtentIndexTest, what_was_drained_is_forgotten_where_nothing_newer_came_meanwhile) {
    found(one_, {0, 100}, 1);
    found(one_, {100, 200}, 2);
    const plan::Keeper kept_by_one = StagedPlace{&one_}.keeper();
    const plan::TargetWrite write{{0, 200},
                                  {{{0, 100}, one_.at(0), 1, kept_by_one}, {{100, 200}, one_.at(100), 2, kept_by_one}}};
    found(other_, {50, 120}, 3);
    EXPECT_EQ(index_.erase_drained(write), 130u);
    EXPECT_THAT(newest({0, 200}), ElementsAre(Piece{50, 120, 3, 50}));
    EXPECT_EQ(one_.live_bytes, 0u);
    EXPECT_EQ(other_.live_bytes, 70u);
}

TEST_F(ExtentIndexTest, zeros_that_came_while_zeros_and_data_were_drained_stay_where_there_was_data) {
    const plan::Keeper kept_by_one = StagedPlace{&one_}.keeper();
    const plan::TargetWrite write{
        {0, 200}, {{{0, 100}, nullptr, 0, plan::Keeper::kNone}, {{100, 200}, one_.at(100), 2, kept_by_one}}};
    index_.truncate(0, 200, 200);
    EXPECT_EQ(index_.make_held_ready(), 200u);
    EXPECT_EQ(index_.erase_drained(write), 0u);
    EXPECT_EQ(index_.zero_bytes(), 100u);
    EXPECT_THAT(newest({0, 200}), ElementsAre(Piece{100, 200, 0, 100}));
}

TEST_F(ExtentIndexTest, promoting_makes_zeros_drainable_too) {
    index_.truncate(100, 500, 500);
    EXPECT_EQ(index_.make_held_ready(), 400u);
    EXPECT_TRUE(index_.held().empty());
    EXPECT_FALSE(index_.ready().empty());
    EXPECT_EQ(index_.zero_bytes(), 400u);
    EXPECT_EQ(index_.make_held_ready(), 0u);
}

// A write of [0, 200) from one segment, by records 1 and 2, and the index after the target has taken it.
class SentBytes : public ExtentIndexTest {
  protected:
    SentBytes() {
        found(one_, {0, 100}, 1);
        found(one_, {100, 200}, 2);
    }
    std::uint64_t send() {
        const plan::Keeper kept_by_one = StagedPlace{&one_}.keeper();
        return index_.send_drained(
            {{0, 200}, {{{0, 100}, one_.at(0), 1, kept_by_one}, {{100, 200}, one_.at(100), 2, kept_by_one}}});
    }
};

TEST_F(SentBytes, stay_in_their_segments_until_the_target_confirms_them) {
    EXPECT_EQ(send(), 200u);
    EXPECT_TRUE(index_.empty());
    EXPECT_TRUE(index_.sent().any());
    EXPECT_EQ(index_.sent().bytes(), 200u);
    EXPECT_EQ(one_.live_bytes, 200u);
    ASSERT_TRUE(index_.sent().begin_confirm());
    EXPECT_FALSE(index_.sent().begin_confirm());
    EXPECT_EQ(one_.live_bytes, 200u);
    index_.sent().end_confirm(true);
    EXPECT_FALSE(index_.sent().any());
    EXPECT_EQ(index_.sent().bytes(), 0u);
    EXPECT_EQ(one_.live_bytes, 0u);
    EXPECT_EQ(index_.superseded_bytes(), 0u);
}

TEST_F(SentBytes, are_ready_again_after_a_failure_where_nothing_newer_is_ready) {
    EXPECT_EQ(send(), 200u);
    found(other_, {50, 120}, 3);
    found(other_, {150, 160}, 4, kOffsetMax);   // held: the committed bytes below must drain
    index_.resend();
    EXPECT_FALSE(index_.sent().any());
    EXPECT_EQ(index_.sent().bytes(), 0u);
    EXPECT_EQ(index_.ready().bytes(), 200u);
    EXPECT_EQ(one_.live_bytes, 130u);
    EXPECT_EQ(other_.live_bytes, 80u);
    EXPECT_THAT(newest({0, 200}), ElementsAre(Piece{0, 50, 1, 0}, Piece{50, 120, 3, 50}, Piece{120, 150, 2, 120},
                                              Piece{150, 160, 4, 150}, Piece{160, 200, 2, 160}));
}

TEST_F(SentBytes, that_were_sent_during_a_sync_are_not_confirmed_by_it) {
    EXPECT_EQ(send(), 200u);
    ASSERT_TRUE(index_.sent().begin_confirm());
    found(other_, {50, 120}, 3);
    EXPECT_EQ(index_.send_drained({{50, 120}, {{{50, 120}, other_.at(50), 3, StagedPlace{&other_}.keeper()}}}), 70u);
    index_.sent().end_confirm(true);
    EXPECT_EQ(one_.live_bytes, 0u);
    EXPECT_EQ(index_.sent().bytes(), 70u);
    index_.resend();
    EXPECT_THAT(newest({0, 200}), ElementsAre(Piece{50, 120, 3, 50}));
}

TEST_F(SentBytes, sent_during_a_sync_that_fails_replace_older_ones) {
    EXPECT_EQ(send(), 200u);
    ASSERT_TRUE(index_.sent().begin_confirm());
    found(other_, {50, 120}, 3);
    EXPECT_EQ(index_.send_drained({{50, 120}, {{{50, 120}, other_.at(50), 3, StagedPlace{&other_}.keeper()}}}), 70u);
    index_.sent().end_confirm(false);
    index_.resend();
    EXPECT_THAT(newest({0, 200}), ElementsAre(Piece{0, 50, 1, 0}, Piece{50, 120, 3, 50}, Piece{120, 200, 2, 120}));
    EXPECT_EQ(one_.live_bytes, 130u);
    EXPECT_EQ(index_.ready().bytes(), 200u);
}

TEST_F(SentBytes, beyond_a_committed_cut_are_forgotten) {
    EXPECT_EQ(send(), 200u);
    index_.truncate(80, 200, 200);
    EXPECT_EQ(index_.sent().bytes(), 200u) << "the last commit has them";
    index_.commit(80);
    EXPECT_EQ(index_.sent().bytes(), 80u);
    index_.drop({0, 30});
    index_.drop_older({0, 60}, 2);
    index_.resend();
    EXPECT_THAT(newest({0, 200}), ElementsAre(Piece{60, 80, 1, 60}));
    EXPECT_EQ(one_.live_bytes, 20u);
}

TEST_F(SentBytes, are_zeros_too) {
    index_.truncate(300, 500, 500);
    EXPECT_EQ(index_.make_held_ready(), 200u);
    EXPECT_EQ(index_.send_drained({{300, 500}, {{{300, 500}, nullptr, 0, plan::Keeper::kNone}}}), 0u);
    EXPECT_TRUE(index_.sent().any());
    EXPECT_EQ(index_.zero_bytes(), 200u);
    index_.resend();
    EXPECT_EQ(index_.zero_bytes(), 200u);
    EXPECT_EQ(index_.send_drained({{300, 500}, {{{300, 500}, nullptr, 0, plan::Keeper::kNone}}}), 0u);
    ASSERT_TRUE(index_.sent().begin_confirm());
    index_.sent().end_confirm(true);
    EXPECT_EQ(index_.zero_bytes(), 0u);
}

}   // namespace
}   // namespace forebay::index
