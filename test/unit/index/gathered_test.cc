// Merging records of scattered pieces, and what a run tells its segments.
#include "index/gathered.h"
#include "index/extent_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <utility>

#include "io/memory_file.h"

namespace forebay::index {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kSegment = 64 << 10;

class GatheredTest : public ::testing::Test {
  protected:
    GatheredTest() : file_(io::make_memory_file("log")) {
        for (std::uint64_t i = 0; i < 3; ++i) {
            segments_.emplace_back(i, std::move(file_->map(i * kSegment, kSegment)).value());
            for (std::uint64_t at = 0; at < kSegment; ++at) *segments_.back().at(at) = std::byte(i * 89 + at * 7 % 251);
        }
    }

    // `count` pieces of `size` bytes from `begin` on, `stride` apart; bytes from `payload` on.
    Gatherer::Record record(std::size_t segment, std::uint64_t sequence, std::uint64_t begin, std::size_t count,
                            std::uint64_t size, std::uint64_t stride, std::uint64_t payload = 64) {
        auto& extents = extents_.emplace_back();
        for (std::size_t i = 0; i < count; ++i) extents.push_back({begin + i * stride, begin + i * stride + size});
        return {extents, &segments_[segment], payload, sequence};
    }
    static std::vector<std::byte> content(const Gathered& run) { return {run.at(0), run.at(run.range().size())}; }
    // What these records make of the range.
    std::vector<std::byte> expected(ByteRange range, const std::vector<Gatherer::Record>& records) {
        std::vector<std::byte> bytes(range.size());
        for (const auto& one : records) {
            std::uint64_t from = one.payload;
            for (const ByteRange& extent : one.extents) {
                for (std::uint64_t at = extent.begin; at < extent.end; ++at, ++from)
                    if (at >= range.begin && at < range.end) bytes[at - range.begin] = *one.segment->at(from);
            }
        }
        return bytes;
    }

    std::unique_ptr<io::File> file_;
    std::deque<log::Segment> segments_;
    std::deque<std::vector<ByteRange>> extents_;
    Gatherer gatherer_;
};

TEST_F(GatheredTest, records_that_complete_each_other_are_one_run) {
    const std::vector records{record(0, 5, 1000, 100, 8, 24), record(1, 3, 1008, 100, 16, 24)};
    const auto runs = gatherer_.gather(records, 1 << 20);
    ASSERT_TRUE(runs);
    EXPECT_THAT(runs->loose, IsEmpty());
    ASSERT_THAT(runs->gathered, SizeIs(1));
    const Gathered& run = *runs->gathered.front();
    EXPECT_EQ(run.range(), (ByteRange{1000, 3400}));
    EXPECT_EQ(run.oldest(), 3u);
    EXPECT_EQ(run.newest(), 5u);
    EXPECT_EQ(content(run), expected(run.range(), records));
}

TEST_F(GatheredTest, records_of_one_writer_follow_each_other) {
    const std::vector records{record(0, 1, 0, 70, 4, 8), record(0, 2, 560, 70, 4, 8, 5000), record(1, 4, 4, 140, 4, 8)};
    const auto runs = gatherer_.gather(records, 1 << 20);
    ASSERT_TRUE(runs);
    ASSERT_THAT(runs->gathered, SizeIs(1));
    EXPECT_EQ(runs->gathered.front()->range(), (ByteRange{0, 1120}));
    EXPECT_EQ(content(*runs->gathered.front()), expected({0, 1120}, records));
}

TEST_F(GatheredTest, gaps_and_multiples_of_the_cut_end_a_run) {
    const std::vector records{record(0, 1, 0, 100, 10, 10), record(1, 2, 1500, 100, 10, 10)};
    const auto runs = gatherer_.gather(records, 600);
    ASSERT_TRUE(runs);
    std::vector<ByteRange> ranges;
    for (const auto& run : runs->gathered) ranges.push_back(run->range());
    EXPECT_EQ(ranges, (std::vector<ByteRange>{{0, 600}, {600, 1000}, {1500, 1800}, {1800, 2400}, {2400, 2500}}));
    for (const auto& run : runs->gathered) EXPECT_EQ(content(*run), expected(run->range(), records));
}

TEST_F(GatheredTest, a_run_of_very_many_pieces_goes_on_in_the_next) {
    constexpr std::uint64_t kPieces = 20'000;   // of each record
    const std::vector records{record(0, 1, 0, kPieces, 1, 2), record(1, 2, 1, kPieces, 1, 2)};
    const auto runs = gatherer_.gather(records, 1 << 20);
    ASSERT_TRUE(runs);
    ASSERT_GT(runs->gathered.size(), 1u);
    std::uint64_t end = 0;
    for (const auto& run : runs->gathered) {
        EXPECT_EQ(run->range().begin, std::exchange(end, run->range().end));
        EXPECT_EQ(content(*run), expected(run->range(), records));
    }
    EXPECT_EQ(end, 2 * kPieces);
    EXPECT_THAT(runs->loose, IsEmpty());
}

TEST_F(GatheredTest, pieces_without_neighbours_are_named_with_the_place_of_their_bytes) {
    const std::vector records{record(0, 1, 0, 3, 10, 100), record(1, 2, 1000, 8, 10, 10)};
    const auto runs = gatherer_.gather(records, 1 << 20);
    ASSERT_TRUE(runs);
    EXPECT_THAT(runs->gathered, SizeIs(1));
    ASSERT_THAT(runs->loose, SizeIs(3));
    EXPECT_EQ(runs->loose[2].range, (ByteRange{200, 210}));
    EXPECT_EQ(runs->loose[2].record, 0u);
    EXPECT_EQ(runs->loose[2].payload, 64u + 20);
}

TEST_F(GatheredTest, pieces_that_overlap_or_come_in_no_order_are_left_alone) {
    EXPECT_FALSE(gatherer_.gather(std::vector{record(0, 1, 0, 100, 8, 16), record(1, 2, 7, 100, 8, 16)}, 1 << 20));
    auto& extents = extents_.emplace_back();
    extents = {{100, 110}, {90, 100}};
    EXPECT_FALSE(gatherer_.gather(std::vector{Gatherer::Record{extents, &segments_[0], 64, 1}}, 1 << 20));
    EXPECT_TRUE(gatherer_.gather(std::vector{record(0, 1, 0, 100, 8, 8)}, 1 << 20)) << "and it goes on after that";
}

TEST_F(GatheredTest, a_run_counts_in_its_segments_until_all_of_it_is_lost) {
    auto runs = gatherer_.gather(std::vector{record(0, 5, 0, 50, 10, 30), record(1, 9, 10, 50, 20, 30)}, 1 << 20);
    ASSERT_TRUE(runs);
    Gathered* const run = runs->gathered.front().get();
    const plan::Keeper keeper = StagedPlace{nullptr, 0, 0, 0, log::DataClass::kRaw, run}.keeper();
    ExtentIndex index;
    index.insert(std::move(runs->gathered.front()));
    EXPECT_EQ(segments_[0].live_bytes, 500u);
    EXPECT_EQ(segments_[1].live_bytes, 1000u);
    EXPECT_EQ(segments_[0].order.needed(500).raw, 5u);
    EXPECT_EQ(segments_[1].order.last, 9u);
    index.drop({25, 65});   // 5 of the second record, 10 of the first, 20, 5 of the first
    EXPECT_EQ(segments_[0].live_bytes, 485u);
    EXPECT_EQ(segments_[1].live_bytes, 975u);
    index.keepers().pin(keeper);
    index.drop({0, 25});
    index.drop({65, 1500});
    EXPECT_EQ(segments_[0].live_bytes, 0u);
    EXPECT_EQ(segments_[1].live_bytes, 0u);
    EXPECT_EQ(*run->at(0), *segments_[0].at(64)) << "pinned";
    index.keepers().unpin(keeper);
}

TEST_F(GatheredTest, its_pieces_are_told_with_their_numbers_cut_to_the_range) {
    auto runs = gatherer_.gather(std::vector{record(0, 5, 100, 50, 10, 30), record(1, 9, 110, 50, 20, 30)}, 1 << 20);
    ASSERT_TRUE(runs);
    std::vector<std::pair<ByteRange, std::uint64_t>> told;
    runs->gathered.front()->for_each({105, 145}, [&](ByteRange piece, std::uint64_t sequence) {
        told.emplace_back(piece, sequence);
    });
    EXPECT_EQ(told, (std::vector<std::pair<ByteRange, std::uint64_t>>{
                        {{105, 110}, 5}, {{110, 130}, 9}, {{130, 140}, 5}, {{140, 145}, 9}}));
}

TEST_F(GatheredTest, few_or_large_pieces_are_not_worth_it) {
    EXPECT_TRUE(Gatherer::wants(1000, 16000));
    EXPECT_FALSE(Gatherer::wants(10, 160));
    EXPECT_FALSE(Gatherer::wants(1000, 4096000));
}

}   // namespace
}   // namespace forebay::index
