// The drainer cannot listen to the others: no thread can be had.
#include <gtest/gtest.h>

#include "support/failing_threads.h"
#include "support/team_files.h"
#include "support/thread_team.h"

namespace forebay {
namespace {

TEST(ListenerFault, opening_fails_on_all_ranks_and_succeeds_once_there_are_threads) {
    if (FOREBAY_THREADS_ALWAYS_START) GTEST_SKIP() << "a sanitizer starts the threads";
    test::Scratch scratch;
    test::ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
        EXPECT_TRUE(team->barrier());   // all of the team run
        {
            std::unique_ptr<test::NoThreads> none;
            if (team->rank() == 0) none = std::make_unique<test::NoThreads>();
            EXPECT_TRUE(team->barrier());
            const test::TeamMember member(team, scratch, test::small_options());
            EXPECT_EQ(member.opened().code(), Code::kUnavailable) << member.opened().message();
            EXPECT_TRUE(team->barrier());
        }
        EXPECT_TRUE(team->barrier());
        test::TeamMember member(team, scratch, test::small_options());
        ASSERT_TRUE(member.opened()) << member.opened().message();
        ASSERT_TRUE(member.write(static_cast<std::uint64_t>(team->rank()) * 1000, test::bytes_of(1000, 1)));
        ASSERT_TRUE(member.close());
    });
    EXPECT_EQ(scratch.contents().size(), 3000u);
}

}   // namespace
}   // namespace forebay
