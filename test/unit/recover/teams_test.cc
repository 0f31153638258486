// Recovery of files of several nodes: what it refuses, who waits for whom, and what is left when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/leftover.h"
#include "support/team_world.h"

namespace forebay::recover {
namespace {

using test::bytes_of;
using test::same;
using test::TeamWorld;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Two nodes with a rank each; rank 0 has overwritten something, after a commit of both.
class SeveralNodes : public testing::Test {
  protected:
    SeveralNodes() {
        write(0, 0, 2000, 2);
        commit();
        committed_ = world_.contents();
        write(0, 100, 200, 3);
        write(1, 1500, 5000, 4);
    }
    void write(std::size_t rank, std::uint64_t at, std::size_t size, std::uint64_t seed) {
        ASSERT_TRUE(world_.file(rank).write_at(at, bytes_of(size, seed)));
    }
    void commit() {
        for (std::size_t rank = 0; rank < 2; ++rank) ASSERT_TRUE(world_.journal(rank).prepare(2000));
        world_.meet();
        for (std::size_t rank = 0; rank < 2; ++rank) ASSERT_TRUE(world_.journal(rank).decide());
    }
    void expect_refusal(std::size_t node, Reason reason, const std::string& words, const Request& request = {}) {
        const auto before = world_.contents();
        for (int i = 0; i < 2; ++i) {
            const FileReport file = world_.recovered(node, request);
            EXPECT_EQ(file.outcome, Outcome::kRefused) << outcome_name(file.outcome);
            EXPECT_EQ(file.reason, reason) << reason_name(file.reason) << ": " << file.status.message();
            EXPECT_THAT(file.status.message(), HasSubstr(words));
            EXPECT_FALSE(advice(file).empty());
        }
        EXPECT_TRUE(same(world_.contents(), before));
        EXPECT_TRUE(world_.left(node));
    }

    std::vector<std::string> beside() {
        return world_.home().open_directory(Gathering::name("run.h5", TeamWorld::kTeam)).value()->list().value();
    }

    TeamWorld world_{{0, 1}, bytes_of(1000, 1)};
    std::vector<std::byte> committed_;
};

TEST_F(SeveralNodes, wait_for_each_other_and_the_last_one_brings_the_file_home) {
    const auto torn = world_.contents();
    const FileReport first = world_.recovered(1);
    EXPECT_EQ(first.outcome, Outcome::kWaiting);
    EXPECT_EQ(first.reason, Reason::kNodesMissing);
    EXPECT_EQ(first.status.message(), "of 2 ranks that wrote it together, 0 have not been recovered yet");
    EXPECT_THAT(advice(first), HasSubstr("on the nodes of those ranks"));
    EXPECT_TRUE(same(world_.contents(), torn));
    EXPECT_THAT(world_.bypasses(), ElementsAre(Gathering::name("run.h5", TeamWorld::kTeam)));
    EXPECT_EQ(world_.recovered(1).outcome, Outcome::kWaiting);

    const FileReport last = world_.recovered(0);
    EXPECT_EQ(last.outcome, Outcome::kRecovered) << last.status.message();
    EXPECT_EQ(last.commit_sequence, 1u);
    EXPECT_GT(last.commit_time_ns, 0u);
    EXPECT_EQ(last.size, 2000u);
    EXPECT_EQ(last.bytes, 700u);
    EXPECT_TRUE(same(world_.contents(), committed_));
    EXPECT_THAT(beside(), ElementsAre("done")) << "the other one learns of it, and the copies are gone";
    EXPECT_FALSE(world_.left(0));
    EXPECT_TRUE(world_.left(1)) << "it looks again";
    EXPECT_EQ(world_.recovered(1).outcome, Outcome::kComplete);
    EXPECT_FALSE(world_.left(1));
    EXPECT_THAT(world_.bypasses(), IsEmpty());
}

TEST_F(SeveralNodes, never_flushed_are_as_they_were_when_they_were_opened) {
    TeamWorld world({0, 1}, bytes_of(1000, 1));
    ASSERT_TRUE(world.file(1).write_at(500, bytes_of(1000, 2)));
    EXPECT_EQ(world.recovered(0).outcome, Outcome::kWaiting);
    EXPECT_EQ(world.recovered(1).outcome, Outcome::kRolledBack);
    EXPECT_TRUE(same(world.contents(), bytes_of(1000, 1)));
}

TEST_F(SeveralNodes, that_lie_in_one_staging_area_are_recovered_at_once) {
    TeamWorld world({0, 0, 0}, bytes_of(1000, 1));
    ASSERT_TRUE(world.file(2).write_at(500, bytes_of(100, 2)));
    EXPECT_EQ(world.recovered(0).outcome, Outcome::kRolledBack);
    EXPECT_TRUE(same(world.contents(), bytes_of(1000, 1)));
    EXPECT_FALSE(world.left(0));
    EXPECT_THAT(world.bypasses(), IsEmpty());
}

TEST_F(SeveralNodes, tell_without_doing_anything_what_they_would_do) {
    Request request;
    request.dry_run = true;
    EXPECT_EQ(world_.recovered(0, request).outcome, Outcome::kWaiting);
    EXPECT_THAT(world_.bypasses(), IsEmpty());
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    const auto torn = world_.contents();
    EXPECT_EQ(world_.recovered(0, request).outcome, Outcome::kWaiting);
    EXPECT_TRUE(same(world_.contents(), torn));
    EXPECT_TRUE(world_.left(0) && world_.left(1));
}

TEST_F(SeveralNodes, are_left_alone_while_a_rank_lives_on_the_node) {
    world_.alive = [](const area::ProcessIdentity& who) { return who.pid == 101; };
    const auto report = world_.recover(1);
    ASSERT_TRUE(report);
    EXPECT_THAT(report.value().files, IsEmpty());
    EXPECT_EQ(report.value().living.size(), 1u);
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting) << "nobody knows of the other one from here";
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
}

TEST_F(SeveralNodes, refuse_a_file_that_was_written_since) {
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    world_.modified_ns = UINT64_MAX / 2;
    EXPECT_EQ(world_.recovered(1).reason, Reason::kChanged);
    EXPECT_TRUE(world_.left(0) && world_.left(1));
    Request request;
    request.although_changed = true;
    EXPECT_EQ(world_.recovered(1, request).outcome, Outcome::kRecovered);
    EXPECT_TRUE(same(world_.contents(), committed_));
}

TEST_F(SeveralNodes, refuse_bytes_of_which_nobody_knows_who_overwrote_them_first) {
    write(1, 150, 10, 9);   // rank 0 has done so in the same phase, and left other bytes there
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    expect_refusal(1, Reason::kDamaged, "ranks 0 and 1 overwrote bytes 150 to 160");
}

TEST_F(SeveralNodes, know_who_was_first_where_all_met_in_between) {
    world_.meet();
    write(1, 150, 10, 9);
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    EXPECT_EQ(world_.recovered(1).outcome, Outcome::kRecovered);
    EXPECT_TRUE(same(world_.contents(), committed_));
}

// Whoever is still on its way into a meeting that the other one has left may have copied after it.
TEST_F(SeveralNodes, do_not_take_a_meeting_for_passed_that_one_of_them_may_still_be_in) {
    world_.journal(0).step();
    write(0, 400, 10, 9);
    world_.journal(0).step();
    world_.journal(1).step();
    world_.journal(1).step();
    write(1, 400, 10, 10);
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    expect_refusal(1, Reason::kDamaged, "overwrote bytes 400 to 410");
}

TEST_F(SeveralNodes, leave_a_directory_with_a_damaged_journal_alone) {
    const auto journal = world_.journal_file(0);
    ASSERT_TRUE(journal->write_at(undo::kUndoFrontBytes + 100, bytes_of(1, 77)));
    const auto report = world_.recover(0);
    ASSERT_TRUE(report);
    ASSERT_EQ(report.value().refused.size(), 1u);
    EXPECT_THAT(report.value().refused.front().status.message(), HasSubstr("undo-1"));
    EXPECT_THAT(world_.bypasses(), IsEmpty());
    EXPECT_TRUE(world_.left(0));
}

TEST_F(SeveralNodes, that_were_closing_wait_for_nobody) {
    commit();
    const auto contents = world_.contents();
    ASSERT_TRUE(world_.journal(0).close());
    EXPECT_EQ(world_.recovered(1).outcome, Outcome::kWaiting) << "for all it knows the other one goes on";
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kComplete);
    EXPECT_FALSE(world_.left(0));
    EXPECT_EQ(world_.recovered(1).outcome, Outcome::kComplete);
    EXPECT_FALSE(world_.left(1));
    EXPECT_THAT(world_.bypasses(), IsEmpty());
    EXPECT_TRUE(same(world_.contents(), contents));
}

TEST_F(SeveralNodes, that_were_closing_leave_word_for_those_who_come_later) {
    commit();
    ASSERT_TRUE(world_.journal(0).close());
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kComplete);
    EXPECT_THAT(beside(), ElementsAre("done"));
    EXPECT_EQ(world_.recovered(1).outcome, Outcome::kComplete);
    EXPECT_FALSE(world_.left(0) || world_.left(1));
    EXPECT_THAT(world_.bypasses(), IsEmpty());
}

// ---- who opens the target, and locks it with that ---------------------------------------------------

TEST_F(SeveralNodes, leave_the_target_alone_until_the_last_of_them_brings_it_home) {
    world_.target_status = {Code::kUnavailable, "another process has it open", EWOULDBLOCK, true};
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    EXPECT_EQ(world_.opened, 0u);
    expect_refusal(1, Reason::kInUse, "another process has it open");
    EXPECT_EQ(world_.opened, 2u);
    world_.target_status = {};
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kRecovered) << "also the first one, if it looks again";
    EXPECT_EQ(world_.opened, 3u);
    world_.target_status = {Code::kUnavailable, "another process has it open", EWOULDBLOCK, true};
    EXPECT_EQ(world_.recovered(1).outcome, Outcome::kComplete);
    EXPECT_EQ(world_.opened, 3u);
    EXPECT_TRUE(same(world_.contents(), committed_));
}

TEST_F(SeveralNodes, hold_the_lock_of_what_they_gather_whenever_they_open_the_target) {
    std::uint64_t opened = 0;
    auto outside = world_.outside();
    const auto open = std::move(outside.open_target);
    outside.open_target = [&](const std::string& path) {
        ++opened;
        auto gathering = world_.home().open_directory(Gathering::name("run.h5", TeamWorld::kTeam));
        EXPECT_TRUE(gathering &&
                    gathering.value()->lock(io::Directory::Patience::kTry).status().code() == Code::kUnavailable);
        return open(path);
    };
    for (const std::size_t node : {1, 0}) {
        io::Directory* const areas[] = {&world_.area(node)};
        ASSERT_TRUE(recover(areas, {}, outside));
    }
    EXPECT_EQ(opened, 1u);
    EXPECT_TRUE(same(world_.contents(), committed_));
}

TEST_F(SeveralNodes, tell_nothing_of_a_file_that_is_gone) {
    world_.target_named = false;
    expect_refusal(0, Reason::kMissing, "run.h5");
    EXPECT_THAT(world_.bypasses(), IsEmpty());
}

TEST_F(SeveralNodes, that_have_told_need_no_file_any_more_once_it_was_brought_home) {
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    EXPECT_EQ(world_.recovered(1).outcome, Outcome::kRecovered);
    world_.target_named = false;   // the file was removed since
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kComplete);
    EXPECT_FALSE(world_.left(0));
    EXPECT_THAT(world_.bypasses(), IsEmpty());
}

// A server that is partly down may show the folder without some of its names. A killed recovery may have left the only
// good journal on this node.
TEST_F(SeveralNodes, keep_their_journals_while_the_directory_of_the_copies_is_not_found) {
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    const auto without_it = io::make_memory_directory("/scratch");
    world_.home_shown = without_it.get();
    expect_refusal(0, Reason::kMissing, Gathering::name("run.h5", TeamWorld::kTeam));
    world_.target_named = false;
    expect_refusal(0, Reason::kMissing, Gathering::name("run.h5", TeamWorld::kTeam));
    world_.target_named = true;
    world_.home_shown = nullptr;
    EXPECT_EQ(world_.recovered(1).outcome, Outcome::kRecovered);
    EXPECT_TRUE(same(world_.contents(), committed_));
    world_.home_shown = without_it.get();
    expect_refusal(0, Reason::kMissing, Gathering::name("run.h5", TeamWorld::kTeam));
    world_.home_shown = nullptr;
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kComplete);
    EXPECT_FALSE(world_.left(0));
}

TEST_F(SeveralNodes, keep_their_journals_while_the_directory_of_the_copies_seems_empty) {
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    const auto emptied = io::make_memory_directory("/scratch");
    ASSERT_TRUE(emptied->create_directory(Gathering::name("run.h5", TeamWorld::kTeam)));
    world_.home_shown = emptied.get();
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    EXPECT_TRUE(world_.left(0));
    world_.home_shown = nullptr;
    EXPECT_EQ(world_.recovered(1).outcome, Outcome::kRecovered);
    EXPECT_TRUE(same(world_.contents(), committed_));
}

TEST_F(SeveralNodes, keep_their_journals_while_their_file_is_not_found) {
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    world_.target_named = false;
    for (const std::size_t node : {0, 1}) {
        const FileReport file = world_.recovered(node);
        EXPECT_EQ(file.outcome, Outcome::kRefused);
        EXPECT_EQ(file.reason, Reason::kMissing);
        EXPECT_TRUE(world_.left(node));
    }
    world_.target_named = true;
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    EXPECT_EQ(world_.recovered(1).outcome, Outcome::kRecovered);
    EXPECT_TRUE(same(world_.contents(), committed_));
}

// ---- killed while it writes --------------------------------------------------------------------------

TEST(SeveralNodesKilled, while_one_writes_are_brought_home_by_another_as_if_nothing_had_changed) {
    std::uint64_t taken_over = 0;
    for (std::uint64_t nth = 1;; ++nth) {
        SCOPED_TRACE(testing::Message() << "killed at call " << nth);
        const auto before = bytes_of(100'000, 1);
        TeamWorld world({0, 1}, before);
        for (std::size_t i = 0; i < 8; ++i) ASSERT_TRUE(world.file(i % 2).write_at(i * 10'000, bytes_of(100, i + 2)));
        const auto torn = world.contents();
        ASSERT_EQ(world.recovered(0).outcome, Outcome::kWaiting);
        (void)world.recover(1, nth);
        if (!world.killed) break;
        if (!same(world.contents(), torn))
            world.modified_ns = UINT64_MAX / 2;   // the clock of the file server, much later
        const auto report = world.recover(0);
        ASSERT_TRUE(report);
        ASSERT_EQ(report.value().files.size(), 1u);
        const FileReport& file = report.value().files.front();
        if (file.outcome == Outcome::kWaiting) {
            ASSERT_TRUE(same(world.contents(), torn)) << "node 1 had not told";
            continue;
        }
        ASSERT_TRUE(file.outcome == Outcome::kRolledBack || file.outcome == Outcome::kComplete)
            << file.status.message();
        ASSERT_TRUE(same(world.contents(), before));
        ASSERT_FALSE(world.left(0));
        // It waits for nobody, wherever it was killed.
        const auto last = world.recover(1);
        ASSERT_TRUE(last);
        for (const FileReport& each : last.value().files)
            ASSERT_EQ(each.outcome, Outcome::kComplete) << each.status.message();
        ASSERT_FALSE(world.left(1));
        ASSERT_THAT(world.bypasses(), IsEmpty());
        ASSERT_TRUE(same(world.contents(), before));
        taken_over += file.outcome == Outcome::kRolledBack && world.modified_ns != 0 ? 1 : 0;
    }
    EXPECT_GE(taken_over, 8u) << "after each of the writes";
}

// ---- other runs ------------------------------------------------------------------------------------

TEST_F(SeveralNodes, do_not_undo_what_another_program_may_have_written_since) {
    {
        test::LeftBehind other(world_.area(0), 200, area::identify_this_process().value().boot_id);
        auto& log = other.open(1, 2000);
        other.write(log, 0, bytes_of(100, 9));
        other.commit(log, 2000);
    }
    const auto before = world_.contents();
    for (int i = 0; i < 2; ++i) {
        const auto report = world_.recover(0);
        ASSERT_TRUE(report);
        ASSERT_EQ(report.value().files.size(), 2u) << "the log, and the journals";
        for (const FileReport& file : report.value().files) {
            EXPECT_EQ(file.outcome, Outcome::kRefused) << outcome_name(file.outcome);
            EXPECT_EQ(file.reason, Reason::kSeveralRuns) << file.status.message();
        }
    }
    EXPECT_THAT(world_.bypasses(), IsEmpty()) << "and nothing is told to the other nodes";
    EXPECT_TRUE(same(world_.contents(), before));
}

TEST_F(SeveralNodes, that_had_closed_the_file_are_no_other_run) {
    commit();
    ASSERT_TRUE(world_.journal(0).close());
    {
        test::LeftBehind other(world_.area(0), 200, area::identify_this_process().value().boot_id);
        auto& log = other.open(1, 2000);
        other.write(log, 0, bytes_of(100, 9));
        other.commit(log, 2000);
    }
    const auto report = world_.recover(0);
    ASSERT_TRUE(report);
    ASSERT_EQ(report.value().files.size(), 2u);
    EXPECT_EQ(report.value().files[0].outcome, Outcome::kRecovered) << report.value().files[0].status.message();
    EXPECT_EQ(report.value().files[1].outcome, Outcome::kComplete) << report.value().files[1].status.message();
    EXPECT_FALSE(world_.left(0));
}

TEST_F(SeveralNodes, tell_how_much_nobody_has_kept) {
    TeamWorld world({0, 1}, bytes_of(1000, 1), 100);
    ASSERT_TRUE(world.file(0).write_at(0, bytes_of(500, 2)));
    EXPECT_EQ(world.given_up, 500u);
    (void)world.recovered(0);
    EXPECT_EQ(world.recovered(1).uncommitted_bytes, 500u);
}

TEST_F(SeveralNodes, give_up_what_they_hold_when_asked_and_nothing_of_it_comes_back) {
    EXPECT_EQ(world_.recovered(0).outcome, Outcome::kWaiting);
    const auto torn = world_.contents();
    Discarded request;
    request.files = {{{7, 1}, "/scratch/run.h5"}};
    for (const std::size_t node : {0, 1}) {
        io::Directory* const areas[] = {&world_.area(node)};
        const auto report = discard(areas, request, world_.outside());
        ASSERT_TRUE(report);
        ASSERT_EQ(report.value().files.size(), 1u);
        EXPECT_EQ(report.value().files.front().outcome, Outcome::kDiscarded);
        EXPECT_FALSE(world_.left(node));
    }
    EXPECT_THAT(world_.bypasses(), IsEmpty());
    EXPECT_TRUE(same(world_.contents(), torn));
}

TEST_F(SeveralNodes, do_not_use_a_directory_beside_the_file_that_is_not_theirs) {
    ASSERT_TRUE(world_.home().open_file(Gathering::name("run.h5", TeamWorld::kTeam), io::OpenMode::kCreateNew));
    const FileReport file = world_.recovered(0);
    EXPECT_EQ(file.outcome, Outcome::kRefused);
    EXPECT_THAT(file.status.message(), HasSubstr("is not a directory of this user alone"));
    EXPECT_TRUE(world_.left(0));
}

}   // namespace
}   // namespace forebay::recover
