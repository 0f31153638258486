// What all members do together, and that they stay in step when one of them has no memory. Includes the operators that
// fail through memory_fault_test.cc of the same program.
#include "file/team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <string>

#include "support/thread_team.h"

namespace forebay::test {
extern std::atomic<long> allocations_until_failure;
extern std::atomic<bool> failing_for_ever;
}   // namespace forebay::test

namespace forebay::file {
namespace {

constexpr int kMembers = 3;
// Longer than the pieces in which it is told.
const std::string kText(5000, 'x');

using Bytes = std::array<std::byte, 3000>;

Bytes bytes_of(int rank) {
    Bytes bytes;
    bytes.fill(static_cast<std::byte>('a' + rank));
    return bytes;
}

// What `rank` gives: as many bytes more as it is higher. With 1000 they are more than there is memory for ahead.
std::span<const std::byte> given_by(int rank, const Bytes& bytes, std::size_t more) {
    return std::span(bytes).first(more * static_cast<std::size_t>(rank));
}

TEST(Team, members_gather_what_each_of_them_gives) {
    for (const std::size_t more : {0, 100, 1000})
        test::ThreadTeam::run(kMembers, [=](const std::shared_ptr<Team>& team) {
            const auto mine = bytes_of(team->rank());
            const auto all = team->gather(Status::ok(), given_by(team->rank(), mine, more));
            ASSERT_TRUE(all);
            ASSERT_EQ(all.value().size(), static_cast<std::size_t>(kMembers));
            for (int rank = 0; rank < kMembers; ++rank) {
                const auto expected = bytes_of(rank);
                EXPECT_TRUE(std::ranges::equal(all.value()[static_cast<std::size_t>(rank)],
                                               given_by(rank, expected, more)))
                    << rank;
            }
        });
}

TEST(Team, members_that_all_are_well_hear_each_others_words) {
    test::ThreadTeam::run(kMembers, [](const std::shared_ptr<Team>& team) {
        constexpr std::uint64_t kLargest = INT64_MAX;
        const auto words = team->agree(Status::ok(), kLargest - static_cast<std::uint64_t>(team->rank()));
        ASSERT_TRUE(words);
        for (int rank = 0; rank < kMembers; ++rank)
            EXPECT_EQ(words.value()[static_cast<std::size_t>(rank)], kLargest - static_cast<std::uint64_t>(rank));
    });
}

TEST(Team, nobody_hears_or_gathers_anything_if_one_has_failed) {
    test::ThreadTeam::run(kMembers, [](const std::shared_ptr<Team>& team) {
        const Status mine = team->rank() == 1 ? Status(Code::kNoSpace, kText, ENOSPC) : Status::ok();
        EXPECT_EQ(team->agree(mine, 7).status().sys_errno(), ENOSPC);
        const auto bytes = bytes_of(team->rank());
        const auto all = team->gather(mine, given_by(team->rank(), bytes, 1000));
        EXPECT_EQ(all.status().sys_errno(), ENOSPC);
        EXPECT_EQ(all.status().message(), team->rank() == 1 ? kText : "rank 1: " + kText);
    });
}

TEST(Team, a_failure_of_the_lowest_rank_reaches_all_with_its_whole_text) {
    test::ThreadTeam::run(kMembers, [](const std::shared_ptr<Team>& team) {
        const int rank = team->rank();
        const Status agreed = team->agree(rank == 0 ? Status::ok()
                                                    : Status(Code::kNoSpace, kText + std::to_string(rank), ENOSPC));
        EXPECT_EQ(agreed.code(), Code::kNoSpace);
        EXPECT_EQ(agreed.sys_errno(), ENOSPC);
        EXPECT_EQ(agreed.message(), rank == 1 ? kText + "1" : "rank 1: " + kText + "1");
        EXPECT_TRUE(team->agree(Status::ok()));
    });
}

class TeamWithoutMemory : public testing::TestWithParam<bool> {};

TEST_P(TeamWithoutMemory, all_members_take_part_in_everything) {
    long failures = 0;
    bool hit = true;
    for (long nth = 1; hit && nth < 1000; ++nth) {
        SCOPED_TRACE(testing::Message() << "allocation " << nth);
        std::atomic<int> told{0}, gathered{0}, came{0};
        test::ThreadTeam::run(kMembers, [&](const std::shared_ptr<Team>& team) {
            const int rank = team->rank();
            const Status failure(Code::kNoSpace, kText, ENOSPC), fine;
            const auto mine = bytes_of(rank);
            ASSERT_TRUE(team->barrier());
            if (rank == 0) {
                test::failing_for_ever = GetParam();
                test::allocations_until_failure = nth;
            }
            bool in_step = team->barrier().is_ok();
            {
                const Status agreed = team->agree(rank == 1 ? failure : fine);
                told += agreed.code() == Code::kNoSpace && agreed.sys_errno() == ENOSPC;
                const auto all = team->gather(fine, given_by(rank, mine, 1000));
                gathered += all.is_ok();
                in_step = in_step && team->agree(fine).is_ok();
            }
            in_step = in_step && team->barrier().is_ok();
            if (rank == 0) {
                hit = test::allocations_until_failure.exchange(std::numeric_limits<long>::max()) <= 0;
                test::failing_for_ever = false;
            }
            came += in_step && team->barrier().is_ok();
        });
        EXPECT_EQ(came, kMembers);
        EXPECT_EQ(told, kMembers);
        EXPECT_TRUE(gathered == 0 || gathered == kMembers) << gathered;
        failures += hit;
    }
    EXPECT_GT(failures, 5);
}

INSTANTIATE_TEST_SUITE_P(Failing, TeamWithoutMemory, testing::Bool(),
                         [](const auto& parameter) { return parameter.param ? "for_ever" : "once"; });

}   // namespace
}   // namespace forebay::file
