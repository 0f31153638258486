// The staging device of one rank tells that it has lost bytes of that rank's log, which another rank drains. All ranks
// hear of it in each commit, step aside and close from then on; and all step aside together, or none does.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/fault_file.h"
#include "support/forked_team.h"
#include "support/losing_log.h"
#include "support/team_files.h"
#include "support/thread_team.h"

namespace forebay {
namespace {

using io::FaultPlan;
using io::Operation;
using stage::ByteClass;
using test::bytes_of;
using test::LogLoss;
using test::same;
using test::ThreadTeam;

// Whose log loses bytes, on how many nodes the four ranks run, and what they ask for.
struct Given {
    int loser;
    int nodes;
    Durability durability = Durability::kProcess;
    SeveralNodes several = SeveralNodes::kFast;
};
constexpr int kRanks = 4;

class LogLossOfARank : public testing::TestWithParam<Given> {
  protected:
    LoadedOptions options(int rank) const {
        LoadedOptions loaded = test::small_options();
        loaded.options.durability = GetParam().durability;
        loaded.options.nodes = GetParam().several;
        loaded.options.node = rank < kRanks / GetParam().nodes ? "one" : "other";
        return loaded;
    }
    // Each rank writes, then the log of one loses bytes, and `then` is called on all.
    void each(const std::function<void(file::Team&, test::TeamMember&)>& then) {
        ThreadTeam::run(kRanks, [&](std::shared_ptr<file::Team> team) {
            const auto loss = std::make_shared<LogLoss>();
            const auto rank = static_cast<std::uint64_t>(team->rank());
            test::TeamMember member(
                team, scratch_, stage::Engine::create(options(team->rank()), test::losing(scratch_.opener(), loss)));
            ASSERT_TRUE(member.opened()) << member.opened().message();
            ASSERT_TRUE(member.file().staged().staged());
            ASSERT_TRUE(member.write(rank * 5000, bytes_of(5000, rank)));
            ASSERT_TRUE(member.file().commit());
            ASSERT_TRUE(member.write(rank * 5000, bytes_of(5000, 10 + rank)));
            if (team->rank() == GetParam().loser) loss->lose();
            ASSERT_TRUE(member.file().meet());
            then(*team, member);
        });
    }
    static void expect_no_success(test::TeamMember& member) {
        for (int i = 0; i < 2; ++i) EXPECT_EQ(member.file().commit().sys_errno(), EIO);
        EXPECT_EQ(member.close().sys_errno(), EIO);
    }

    test::Scratch scratch_;
};

TEST_P(LogLossOfARank, fails_each_later_flush_and_the_close_on_all) {
    each([](file::Team&, test::TeamMember& member) { expect_no_success(member); });
}

TEST_P(LogLossOfARank, keeps_all_from_stepping_aside) {
    each([](file::Team& team, test::TeamMember& member) {
        for (int i = 0; i < 2; ++i) {
            EXPECT_EQ(member.file().step_aside(ledger::AsideReason::kAtomicity).sys_errno(), EIO);
            EXPECT_TRUE(member.file().staged().staged()) << "rank " << team.rank();
        }
        // All are still one group: what one writes, the others find.
        const auto rank = static_cast<std::uint64_t>(team.rank());
        ASSERT_TRUE(member.write(30'000 + rank * 1000, bytes_of(1000, 20 + rank)));
        ASSERT_TRUE(member.file().meet());
        for (std::uint64_t i = 0; i < kRanks; ++i)
            EXPECT_TRUE(same(member.read(30'000 + i * 1000, 1000), bytes_of(1000, 20 + i)));
        ASSERT_TRUE(member.file().meet());
        expect_no_success(member);
    });
}

INSTANTIATE_TEST_SUITE_P(Every, LogLossOfARank,
                         testing::Values(Given{0, 1}, Given{2, 1}, Given{0, 1, Durability::kNode},
                                         Given{2, 1, Durability::kNode}, Given{0, 2}, Given{1, 2}, Given{2, 2},
                                         Given{3, 2}, Given{2, 2, Durability::kProcess, SeveralNodes::kConsistent},
                                         Given{3, 2, Durability::kProcess, SeveralNodes::kConsistent}),
                         [](const auto& given) {
                             const Given& one = given.param;
                             return "rank_" + std::to_string(one.loser) + "_of_" + std::to_string(one.nodes) +
                                    (one.nodes == 1 ? "_node" : "_nodes") +
                                    (one.durability == Durability::kNode ? "_durable" : "") +
                                    (one.several == SeveralNodes::kConsistent ? "_consistent" : "");
                         });

// The drainer of one node cannot set the target's size, which is its last step. The other drainer could step aside.
TEST(SteppingAside, that_fails_on_one_node_leaves_all_ranks_staging) {
    test::Scratch scratch;
    const auto plan = std::make_shared<FaultPlan>();
    ThreadTeam::run(kRanks, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        LoadedOptions options = test::small_options();
        options.options.node = rank < 2 ? "one" : "other";
        test::TeamMember member(team, scratch, stage::Engine::create(options, scratch.opener()), O_RDWR,
                                [&](std::unique_ptr<io::File> file) {
                                    return rank == 2 ? io::make_fault_file(std::move(file), plan) : std::move(file);
                                });
        ASSERT_TRUE(member.opened()) << member.opened().message();
        ASSERT_TRUE(member.write(rank * 5000, bytes_of(5000, rank)));
        ASSERT_TRUE(member.file().settle());
        if (rank == 2) {
            // As if only the log had an extension. It is made by a write, as other nodes may extend the file, too.
            auto& state = member.file().staged().state();
            const LockGuard lock(state.mutex());
            state.sizes.logical = 25'000;
            plan->fail(Operation::kWrite, 1, 1, ENOSPC);
        }
        ASSERT_TRUE(member.file().meet());
        const Status stepped = member.file().step_aside(ledger::AsideReason::kAtomicity);
        EXPECT_EQ(stepped.sys_errno(), ENOSPC) << stepped.message();
        EXPECT_TRUE(member.file().staged().staged()) << "rank " << rank;
        // All still are one group.
        ASSERT_TRUE(member.write(rank * 5000, bytes_of(5000, 10 + rank)));
        EXPECT_TRUE(member.file().commit());
        for (std::uint64_t i = 0; i < kRanks; ++i)
            EXPECT_TRUE(same(member.read(i * 5000, 5000), bytes_of(5000, 10 + i)));
        ASSERT_TRUE(member.file().meet());
        EXPECT_TRUE(member.file().step_aside(ledger::AsideReason::kAtomicity));
        EXPECT_FALSE(member.file().staged().staged());
        EXPECT_TRUE(member.close());
    });
    EXPECT_EQ(plan->fired(), 1u);
    EXPECT_EQ(scratch.contents().size(), 25'000u);
    EXPECT_TRUE(scratch.left().empty());
}

// One member alone must not step aside.
TEST(SteppingAside, of_one_member_alone_is_refused) {
    test::Participants node(2, test::small_options());
    for (std::size_t who = 0; who < 2; ++who) {
        stage::StagedFile& file = node.file(who);
        EXPECT_EQ(file.lifecycle().step_aside(ledger::AsideReason::kSwmr).code(), Code::kUnsupported);
        EXPECT_TRUE(file.staged());
    }
    ASSERT_TRUE(node.write(1, 0, bytes_of(5000, 1)));
    EXPECT_TRUE(node.close());
    EXPECT_TRUE(same(node.target().contents(), bytes_of(5000, 1)));
}

// ---- closes that do not wait ---------------------------------------------------------------------------

// Three members close with close=deferred; the target's writes hang until all have returned. `loses_before`: the log of
// rank 1 loses bytes before the close, else afterwards.
void close_with_a_loss(bool loses_before) {
    test::Scratch scratch;
    const auto plan = std::make_shared<FaultPlan>();
    plan->hang(Operation::kWrite);
    ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        const auto loss = std::make_shared<LogLoss>();
        LoadedOptions options = test::small_options();
        options.options.close = OnClose::kDeferred;
        const std::shared_ptr<stage::Engine> engine = stage::Engine::create(options,
                                                                            test::losing(scratch.opener(), loss));
        test::TeamMember member(team, scratch, engine, O_RDWR, [&](std::unique_ptr<io::File> file) {
            return io::make_fault_file(std::move(file), plan);
        });
        ASSERT_TRUE(member.opened()) << member.opened().message();
        ASSERT_TRUE(member.write(rank * 50'000, bytes_of(50'000, rank)));
        ASSERT_TRUE(member.file().meet());
        if (loses_before && rank == 1) loss->lose();
        if (loses_before) plan->let_go();
        const auto closed = member.file().close([](stage::Ended) { return Status::ok(); });
        EXPECT_EQ(closed.deferred, !loses_before);
        EXPECT_EQ(closed.outcome.sys_errno(), loses_before ? EIO : 0) << closed.outcome.message();
        ASSERT_TRUE(team->barrier());
        if (!loses_before && rank == 1) loss->lose();
        ASSERT_TRUE(team->barrier());
        plan->let_go();
        const Status ended = engine->closes().await_all();
        EXPECT_EQ(ended.sys_errno(), !loses_before && rank == 1 ? EIO : 0) << "rank " << rank << ended.message();
        ASSERT_TRUE(team->barrier());
    });
}

TEST(LogLossOfADeferredClose, before_it_is_an_error_of_the_close_on_all) { close_with_a_loss(true); }
TEST(LogLossOfADeferredClose, after_it_is_told_by_the_rank_whose_log_it_is) { close_with_a_loss(false); }

// ---- a process that ends without a close ---------------------------------------------------------------

// A rank writes and ends without a close. Returns how many files its process names at its end.
std::uint64_t end_without_close(const std::shared_ptr<file::Team>& team, const test::Scratch& scratch, bool loses,
                                bool on_several_nodes) {
    const auto rank = static_cast<std::uint64_t>(team->rank());
    const auto loss = std::make_shared<LogLoss>();
    LoadedOptions options = test::small_options();
    options.options.node = on_several_nodes && rank == 1 ? "other" : "one";
    const std::shared_ptr<stage::Engine> engine = stage::Engine::create(options, test::losing(scratch.opener(), loss));
    test::TeamMember member(team, scratch, engine);
    EXPECT_TRUE(member.opened()) << member.opened().message();
    if (!member.opened()) return UINT64_MAX;
    EXPECT_TRUE(member.write(rank * 5000, bytes_of(5000, rank)));
    EXPECT_TRUE(member.file().meet());
    if (loses) loss->lose();
    member.file().finish_unclosed();
    return engine->end_of_process({}).size();
}

TEST(LogLossOfAnUnclosedFile, is_told_at_the_end_of_the_process) {
    if (!test::kForkedTeams) GTEST_SKIP() << "this sanitizer does not allow threads after a fork";
    for (const std::uint64_t loser : {0, 1}) {
        SCOPED_TRACE(testing::Message() << "rank " << loser);
        const test::Scratch scratch;
        test::ForkedTeam processes;
        const auto ends = processes.run(2, [&](const std::shared_ptr<file::Team>& team) {
            const auto rank = static_cast<std::uint64_t>(team->rank());
            processes.words()[rank] = end_without_close(team, scratch, rank == loser, false);
        });
        EXPECT_EQ(ends, (std::vector<int>{0, 0}));
        // Nothing of a follower's log is drained, so its drainer has an incomplete file to tell of.
        EXPECT_EQ(processes.words()[1], 1u) << "its own log, or its drainer's";
        EXPECT_EQ(processes.words()[0], 1u) << "its own log, or its follower's";
    }
}

TEST(LogLossOfAnUnclosedFile, is_told_at_the_end_of_a_process_that_drains_for_one_of_several_nodes) {
    const test::Scratch scratch;
    ThreadTeam::run(2, [&](const std::shared_ptr<file::Team>& team) {
        const bool loses = team->rank() == 1;
        EXPECT_EQ(end_without_close(team, scratch, loses, true), loses ? 1u : 0u);
    });
}

}   // namespace
}   // namespace forebay
