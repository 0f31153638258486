// What `forebay torture --server` allows a file to hold after clients, of which some did not end well, and what it
// calls lost or wrong.
#include "torture/lineage.h"

#include <gtest/gtest.h>

#include "base/checksum.h"

namespace forebay::torture {
namespace {

using Verdict = Judgement::Verdict;
using Content = std::vector<std::byte>;

constexpr std::uint64_t kSeed = 11, kOperations = 200;

// After so many commits of the workload of `seed` on top of `base`.
Content after(const Content& base, std::uint64_t seed, std::uint64_t commits) {
    return Oracle(base, seed).after(commits);
}
Content after_all(Content bytes, std::uint64_t seed, std::uint64_t operations) {
    Workload workload(seed);
    for (std::uint64_t i = 0; i < operations; ++i) apply_operation(workload.next(), bytes);
    return bytes;
}
Told told_of(const Content& found, std::uint64_t good_commits) {
    return {.commits = good_commits, .good_commits = good_commits, .seen = {checksum(found)}};
}
Told closed(const Content& found) {
    Told told = told_of(found, 2);
    told.closed = told.closed_well = true;
    return told;
}

class LineageTest : public testing::Test {
  protected:
    const Content initial_ = Workload::initial(kSeed);
    Lineage lineage_{initial_};
};

TEST_F(LineageTest, a_client_that_dies_leaves_its_last_flush_or_the_next_one) {
    ASSERT_EQ(lineage_.end({kSeed, kOperations}, told_of(initial_, 3), false).verdict, Verdict::kRecovered);
    EXPECT_EQ(lineage_.judge(after(initial_, kSeed, 3)).verdict, Verdict::kRecovered);
    EXPECT_EQ(lineage_.judge(after(initial_, kSeed, 4)).verdict, Verdict::kRecovered);
    EXPECT_EQ(lineage_.judge(after(initial_, kSeed, 2)).verdict, Verdict::kLost);
    EXPECT_EQ(lineage_.judge(initial_).verdict, Verdict::kLost);
    EXPECT_EQ(lineage_.judge(after_all(initial_, kSeed, 1)).verdict, Verdict::kWrong) << "torn";
}

TEST_F(LineageTest, a_close_that_succeeded_leaves_everything) {
    ASSERT_EQ(lineage_.end({kSeed, kOperations}, closed(initial_), false).verdict, Verdict::kRecovered);
    EXPECT_EQ(lineage_.judge(after_all(initial_, kSeed, kOperations)).verdict, Verdict::kRecovered);
    EXPECT_EQ(lineage_.judge(after(initial_, kSeed, 2)).verdict, Verdict::kLost);
    EXPECT_GT(lineage_.committed_bytes(), 0U);
}

TEST_F(LineageTest, a_next_client_that_finds_an_older_or_a_torn_state_is_noticed) {
    ASSERT_EQ(lineage_.end({kSeed, kOperations}, told_of(initial_, 3), false).verdict, Verdict::kRecovered);
    Lineage older = lineage_, torn = lineage_;
    EXPECT_EQ(older.end({kSeed + 1, 1}, told_of(after(initial_, kSeed, 2), 0), false).verdict, Verdict::kLost);
    EXPECT_EQ(torn.end({kSeed + 1, 1}, told_of(after_all(initial_, kSeed, 1), 0), false).verdict, Verdict::kWrong);
}

TEST_F(LineageTest, once_a_next_client_has_seen_one_state_no_other_is_right) {
    ASSERT_EQ(lineage_.end({kSeed, kOperations}, told_of(initial_, 3), false).verdict, Verdict::kRecovered);
    const Content third = after(initial_, kSeed, 3);
    ASSERT_EQ(lineage_.end({kSeed + 1, kOperations}, told_of(third, 1), false).verdict, Verdict::kRecovered);
    EXPECT_EQ(lineage_.judge(after(third, kSeed + 1, 1)).verdict, Verdict::kRecovered);
    EXPECT_NE(lineage_.judge(after(initial_, kSeed, 4)).verdict, Verdict::kRecovered) << "a late write";
    EXPECT_EQ(lineage_.judge(third).verdict, Verdict::kLost);
}

TEST_F(LineageTest, a_client_that_could_not_open_the_file_changes_nothing) {
    ASSERT_EQ(lineage_.end({kSeed, kOperations}, closed(initial_), false).verdict, Verdict::kRecovered);
    ASSERT_EQ(lineage_.end({kSeed + 1, kOperations}, {.refused = true}, false).verdict, Verdict::kRecovered);
    EXPECT_EQ(lineage_.judge(after_all(initial_, kSeed, kOperations)).verdict, Verdict::kRecovered);
    EXPECT_EQ(lineage_.judge({}).verdict, Verdict::kWrong);
}

TEST_F(LineageTest, a_client_that_dies_while_it_empties_the_file_leaves_all_or_nothing) {
    ASSERT_EQ(lineage_.end({kSeed, kOperations, true}, {}, false).verdict, Verdict::kRecovered);
    EXPECT_EQ(lineage_.judge(initial_).verdict, Verdict::kRecovered);
    EXPECT_EQ(lineage_.judge({}).verdict, Verdict::kRecovered);
}

TEST_F(LineageTest, a_reader_sees_no_flush_older_than_the_last_one_before_it_began) {
    ASSERT_EQ(lineage_.end({kSeed, kOperations}, told_of(initial_, 3), false).verdict, Verdict::kRecovered);
    const auto read = [&](const Content& content, std::uint64_t good_commits) {
        return lineage_.read(checksum(content), good_commits).verdict;
    };
    EXPECT_EQ(read(after(initial_, kSeed, 2), 2), Verdict::kRecovered);
    EXPECT_EQ(read(after(initial_, kSeed, 3), 2), Verdict::kRecovered);
    EXPECT_EQ(read(after(initial_, kSeed, 1), 2), Verdict::kLost);
    EXPECT_EQ(read(initial_, 0), Verdict::kRecovered);
    EXPECT_EQ(read(after_all(initial_, kSeed, 1), 0), Verdict::kWrong);
}

TEST_F(LineageTest, after_writing_without_a_server_only_what_was_left_alone_is_compared) {
    ASSERT_EQ(lineage_.end({kSeed, kOperations}, told_of(initial_, 3), true).verdict, Verdict::kRecovered);
    Content partly = after(initial_, kSeed, 3);
    Workload workload(kSeed);
    for (std::uint64_t commits = 0; commits < 3;) commits += workload.next().kind == Operation::Kind::kCommit;
    apply_operation(workload.next(), partly);
    EXPECT_EQ(lineage_.judge(partly).verdict, Verdict::kRecovered);
    EXPECT_NE(lineage_.judge(initial_).verdict, Verdict::kRecovered);
}

TEST(Told, what_was_cut_off_in_the_middle_of_a_number_does_not_count) {
    EXPECT_EQ(understand("s12;ccs3").seen, std::vector<std::uint64_t>{12});
    EXPECT_EQ(understand("s12;ccs3").commits, 2U);
    EXPECT_TRUE(understand("r").refused);
}

}   // namespace
}   // namespace forebay::torture
