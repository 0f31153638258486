#include "cache/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace forebay::cache {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(ReadAheadTest, a_program_that_reads_a_sample_is_left_alone) {
    ReadAhead ahead(1000 * kMiB);
    std::uint64_t ahead_bytes = 0;
    for (std::uint64_t i = 0; i < 50; ++i)
        ahead_bytes += ahead.after_miss({i * 19 * kMiB, i * 19 * kMiB + kMiB}).size();
    EXPECT_EQ(ahead_bytes, 0u) << "5 % of the file";
}

TEST(ReadAheadTest, a_program_that_shuffles_the_file_gets_the_rest_of_it_in_order) {
    ReadAhead ahead(100 * kMiB);
    std::uint64_t asked = 0;
    for (std::uint64_t i = 0; ahead.swept_to() < 100 * kMiB; ++i) {
        ASSERT_LT(i, 1000u);
        const std::uint64_t at = i * 37 % 100 * kMiB;
        const std::uint64_t before = ahead.swept_to();
        const ByteRange next = ahead.after_miss({at, at + kMiB / 4});
        asked += kMiB / 4;
        EXPECT_TRUE(next.empty() || next.begin == before);
    }
    EXPECT_LT(asked, 40 * kMiB) << "after less than half of the file was asked for";
}

TEST(ReadAheadTest, reading_in_order_gets_a_window_that_doubles) {
    ReadAhead ahead(1000 * kMiB);
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < 12; ++i) {
        const ByteRange next = ahead.after_miss({i * 65536, (i + 1) * 65536});
        if (i < 3) {
            EXPECT_TRUE(next.empty()) << i;
            continue;
        }
        EXPECT_EQ(next.begin, (i + 1) * 65536);
        EXPECT_GE(next.size(), last);
        EXPECT_LE(next.size(), 8 * kMiB);
        last = next.size();
    }
    EXPECT_EQ(last, 8 * kMiB);
    EXPECT_TRUE(ahead.after_miss({500 * kMiB, 501 * kMiB}).empty()) << "no longer in order";
}

// Rows of 64 KiB from byte 2048 on. Blocks that were stored are not asked for again: a program in order goes on behind
// the block in which its last request ended, and behind what was read ahead.
TEST(ReadAheadTest, hits_in_between_do_not_end_the_order) {
    constexpr std::uint64_t kBlock = 4096, kRow = 65536;
    ReadAhead ahead(1000 * kMiB);
    std::uint64_t at = 2048, present_to = 0, misses = 0;
    ByteRange window;
    while (at < 900 * kMiB) {
        const std::uint64_t end = at + kRow;
        if (end > present_to) {
            ++misses;
            window = ahead.after_miss({std::max(at, present_to), end});
            present_to = (std::max(end, window.end) + kBlock - 1) / kBlock * kBlock;
        }
        at = end;
    }
    EXPECT_EQ(window.size(), 8 * kMiB);
    EXPECT_LT(misses, 130u);
}

TEST(ReadAheadTest, nothing_beyond_the_end_is_fetched) {
    ReadAhead ahead(10 * 65536);
    for (std::uint64_t i = 0; i < 10; ++i) EXPECT_LE(ahead.after_miss({i * 65536, (i + 1) * 65536}).end, 10u * 65536);
}

}   // namespace
}   // namespace forebay::cache
