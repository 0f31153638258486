#include "cache/trial.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace forebay::cache {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kSlowNs = 5'000'000, kFastNs = 10'000;

class TrialTest : public testing::Test {
  protected:
    // Whether one of the reads shows that caching pays; how many came before.
    bool pays(ByteRange asked, std::uint64_t took_ns = kSlowNs) {
        if (trial_.note(asked, took_ns) == Trial::Verdict::kPays) return true;
        ++reads_;
        return false;
    }
    bool pays_in_order(const std::vector<std::uint64_t>& rows, std::uint64_t row_bytes = kMiB) {
        return std::ranges::any_of(rows,
                                   [&](std::uint64_t row) { return pays({row * row_bytes, (row + 1) * row_bytes}); });
    }
    static std::vector<std::uint64_t> rows(std::uint64_t count) {
        std::vector<std::uint64_t> all(count);
        std::iota(all.begin(), all.end(), std::uint64_t{0});
        return all;
    }
    static std::vector<std::uint64_t> shuffled(std::uint64_t count, unsigned seed) {
        auto all = rows(count);
        std::ranges::shuffle(all, std::mt19937(seed));
        return all;
    }

    static constexpr std::uint64_t kRows = 4096;
    Trial trial_{kRows * kMiB};
    std::uint64_t reads_ = 0;
};

TEST_F(TrialTest, read_once_from_front_to_back_does_not_pay) { EXPECT_FALSE(pays_in_order(rows(kRows))); }

TEST_F(TrialTest, read_once_in_several_streams_with_gaps_does_not_pay) {
    for (std::uint64_t row = 0; row < kRows / 4; row += 2)
        for (std::uint64_t stream = 0; stream < 4; ++stream) {
            const std::uint64_t at = (stream * kRows / 4 + row) * kMiB;
            ASSERT_FALSE(pays({at, at + kMiB})) << row;
        }
}

TEST_F(TrialTest, metadata_between_what_is_read_in_order_does_not_pay) {
    for (std::uint64_t row = 0; row < kRows; ++row) {
        const std::uint64_t node = (row * 977 % kRows) * kMiB;
        ASSERT_FALSE(pays({node, node + 4096})) << row;
        ASSERT_FALSE(pays({row * kMiB, (row + 1) * kMiB})) << row;
    }
}

TEST_F(TrialTest, a_small_sample_does_not_pay) {
    auto sample = shuffled(kRows, 1);
    sample.resize(kRows / 128);
    EXPECT_FALSE(pays_in_order(sample));
}

TEST_F(TrialTest, a_shuffled_epoch_pays_from_its_beginning) {
    EXPECT_TRUE(pays_in_order(shuffled(kRows, 1)));
    EXPECT_LE(reads_, kRows / 32);
}

TEST_F(TrialTest, small_rows_in_shuffled_order_pay_once_they_are_more_than_metadata) {
    EXPECT_TRUE(pays_in_order(shuffled(kRows * 256, 1), 4096));
    EXPECT_LE(reads_, kRows * 256 / 32);
}

TEST_F(TrialTest, what_is_read_in_order_again_pays_soon_in_the_second_epoch) {
    ASSERT_FALSE(pays_in_order(rows(kRows)));
    reads_ = 0;
    EXPECT_TRUE(pays_in_order(rows(kRows)));
    EXPECT_LE(reads_, kRows / 8);
}

TEST_F(TrialTest, what_is_read_in_order_in_small_pieces_again_pays_as_soon) {
    constexpr std::uint64_t kPieces = kRows * 64;
    ASSERT_FALSE(pays_in_order(rows(kPieces), kMiB / 64));
    reads_ = 0;
    EXPECT_TRUE(pays_in_order(rows(kPieces), kMiB / 64));
    EXPECT_LE(reads_, kPieces / 8);
}

TEST_F(TrialTest, a_file_that_is_smaller_than_one_look_at_its_reads_pays_after_some_epochs) {
    trial_ = Trial(8 * kMiB);
    bool pays = false;
    for (int epoch = 0; epoch < 10 && !pays; ++epoch) pays = pays_in_order(rows(8));
    EXPECT_TRUE(pays);
}

TEST_F(TrialTest, a_file_system_that_is_as_fast_as_the_node_never_pays) {
    for (int epoch = 0; epoch < 3; ++epoch)
        for (const std::uint64_t row : shuffled(kRows, 1)) ASSERT_FALSE(pays({row * kMiB, (row + 1) * kMiB}, kFastNs));
    EXPECT_EQ(trial_.note({0, kMiB}, kFastNs), Trial::Verdict::kUndecided);
}

TEST_F(TrialTest, where_speed_does_not_count_a_fast_one_pays) {
    trial_ = Trial(kRows * kMiB, false);
    bool pays = false;
    for (const std::uint64_t row : shuffled(kRows, 1))
        pays = pays || trial_.note({row * kMiB, (row + 1) * kMiB}, kFastNs) == Trial::Verdict::kPays;
    EXPECT_TRUE(pays);
}

}   // namespace
}   // namespace forebay::cache
