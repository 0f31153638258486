// Members of a team that are processes, and die.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "support/forked_team.h"
#include "support/team_files.h"

namespace forebay {
namespace {

using stage::ByteClass;
using test::bytes_of;
using test::ForkedTeam;
using test::same;
using test::Scratch;
using test::TeamMember;

class Death : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!test::kForkedTeams) GTEST_SKIP() << "this sanitizer does not allow threads after a fork";
    }
    [[noreturn]] static void die() {
        (void)::raise(SIGKILL);
        ::_exit(2);
    }
    static bool killed(int end) { return WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL; }

    Scratch scratch_;
    ForkedTeam team_;
};

TEST_F(Death, none_processes_share_what_they_stage) {
    const auto ends = team_.run(4, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        TeamMember member(team, scratch_, test::tiny_options());
        ASSERT_TRUE(member.opened()) << member.opened().message();
        for (std::uint64_t round = 0; round < 6; ++round) {
            const std::uint64_t place = (rank + round) % 4;
            ASSERT_TRUE(member.write(place * 5000, bytes_of(5000, 10 * round + place)));
            ASSERT_TRUE(member.file().meet());
            for (std::uint64_t i = 0; i < 4; ++i)
                ASSERT_TRUE(same(member.read(i * 5000, 5000), bytes_of(5000, 10 * round + i))) << "round " << round;
            ASSERT_TRUE(member.file().meet());
        }
        ASSERT_TRUE(member.file().truncate(19000));
        ASSERT_TRUE(member.file().commit());
        ASSERT_TRUE(member.close());
        EXPECT_EQ(member.counters().staged, 30000u);
    });
    EXPECT_EQ(ends, std::vector<int>(4, 0));
    EXPECT_EQ(scratch_.contents().size(), 19000u);
    EXPECT_TRUE(scratch_.left().empty());
}

TEST_F(Death, of_a_member_that_does_not_drain_loses_nothing_that_it_had_written) {
    const auto ends = team_.run(3, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        TeamMember member(team, scratch_, test::small_options());
        ASSERT_TRUE(member.opened());
        ASSERT_TRUE(member.write(rank * 10000, bytes_of(10000, rank)));
        ASSERT_TRUE(member.file().meet());
        if (rank == 2) die();
        team_.await_end();
        EXPECT_TRUE(same(member.read(20000, 10000), bytes_of(10000, 2)));
        if (rank == 0) {
            EXPECT_TRUE(member.file().staged().drain());
            const auto contents = scratch_.contents();
            ASSERT_EQ(contents.size(), 30000u);
            EXPECT_TRUE(same({contents.begin() + 20000, contents.end()}, bytes_of(10000, 2)));
        }
        EXPECT_EQ(member.close().code(), Code::kUnavailable);
    });
    EXPECT_EQ(ends[0], 0);
    EXPECT_EQ(ends[1], 0);
    EXPECT_TRUE(killed(ends[2]));
}

TEST_F(Death, of_the_drainer_is_told_to_whoever_waits_for_room) {
    const auto ends = team_.run(2, [&](std::shared_ptr<file::Team> team) {
        TeamMember member(team, scratch_, test::tiny_options());
        ASSERT_TRUE(member.opened());
        ASSERT_TRUE(member.file().meet());
        if (team->rank() == 0) die();
        Status written;   // what is written before the drainer is gone, it may still bring home
        for (std::uint64_t i = 0; written; ++i) written = member.write(i % 100 * 3000, bytes_of(3000, i));
        EXPECT_EQ(written.code(), Code::kUnavailable) << written.message();
        EXPECT_THAT(written.message(), testing::HasSubstr("has died"));
        EXPECT_EQ(member.close().code(), Code::kUnavailable);
    });
    EXPECT_TRUE(killed(ends[0]));
    EXPECT_EQ(ends[1], 0);
    EXPECT_EQ(scratch_.left().size(), 2u) << "what was staged stays in the logs";
}

TEST_F(Death, of_the_drainer_is_told_to_whoever_commits_or_closes) {
    const auto ends = team_.run(3, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        TeamMember member(team, scratch_, test::small_options());
        ASSERT_TRUE(member.opened());
        ASSERT_TRUE(member.write(rank * 1000, bytes_of(1000, rank)));
        ASSERT_TRUE(member.file().meet());
        if (rank == 0) die();
        EXPECT_EQ(member.file().commit().code(), Code::kUnavailable);
        EXPECT_EQ(member.close().code(), Code::kUnavailable);
    });
    EXPECT_TRUE(killed(ends[0]));
    EXPECT_EQ(ends[1], 0);
    EXPECT_EQ(ends[2], 0);
}

// The failed write may have been one of HDF5's own metadata, without which the newer state cannot be read.
TEST_F(Death, without_a_close_leaves_the_last_commit_after_a_failed_write_of_metadata_on_any_rank) {
    const auto older = bytes_of(3000, 1), newer = bytes_of(3000, 2);
    for (const int whose : {-1, 0, 1}) {
        SCOPED_TRACE(whose);
        const Scratch scratch;
        ForkedTeam processes;
        const auto ends = processes.run(3, [&](std::shared_ptr<file::Team> team) {
            const auto at = static_cast<std::uint64_t>(team->rank()) * 1000;
            // Not destroyed, as at the end of a program.
            auto& member = *new TeamMember(team, scratch, test::small_options());
            ASSERT_TRUE(member.opened()) << member.opened().message();
            ASSERT_TRUE(member.write(at, io::Bytes(older).subspan(at, 1000), ByteClass::kMetadata));
            ASSERT_TRUE(member.file().commit());
            ASSERT_TRUE(member.write(at, io::Bytes(newer).subspan(at, 1000), ByteClass::kMetadata));
            if (team->rank() == whose) member.file().withhold(Status::from_errno(EIO, "write the metadata"));
            ASSERT_TRUE(member.file().meet());
            member.file().finish_unclosed();
            const auto left = member.engine().end_of_process();
            EXPECT_EQ(left.size(), whose < 0 ? 0u : 1u) << testing::PrintToString(left);
        });
        EXPECT_EQ(ends, std::vector<int>(3, 0));
        EXPECT_TRUE(same(scratch.contents(), whose < 0 ? newer : older));
        EXPECT_EQ(scratch.left().empty(), whose < 0) << "the logs";
        if (whose < 0) continue;
        EXPECT_TRUE(same(scratch.recovered(), older));
    }
}

}   // namespace
}   // namespace forebay
