// Option durability for a file that several participants write together: who syncs, whom it holds for, and what
// recovery makes of logs that are durable. The property test of losses of power is
// test/property/file/power_loss_test.cc.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "support/jumping_clock.h"
#include "support/left_threads.h"
#include "support/team_files.h"
#include "support/thread_team.h"

namespace forebay {
namespace {

using recover::Outcome;
using recover::Reason;
using stage::ByteClass;
using test::bytes_of;
using test::Participants;
using test::same;
using testing::HasSubstr;
using testing::IsEmpty;

LoadedOptions options(Durability durability) {
    LoadedOptions loaded = test::small_options();
    loaded.options.durability = durability;
    return loaded;
}

std::uint64_t syncs(const Participants& node) {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < node.count(); ++i) count += node.file(i).counters().syncs;
    return count;
}

TEST(GroupDurability, process_never_syncs_and_node_syncs_every_log_for_a_commit) {
    for (const Durability durability : {Durability::kProcess, Durability::kNode}) {
        Participants node(3, options(durability));
        const bool durable = durability == Durability::kNode;
        EXPECT_EQ(syncs(node), durable ? 4u : 0u) << "the first records, and the first statement";
        for (std::size_t i = 0; i < 3; ++i)
            ASSERT_TRUE(node.write(i, 1000 * i, bytes_of(1000, i), ByteClass::kMetadata));
        const std::uint64_t before = syncs(node);
        ASSERT_TRUE(node.commit());
        for (std::size_t i = 0; i < 3; ++i) {
            EXPECT_EQ(node.file(i).counters().syncs > 1, durable) << i;
        }
        EXPECT_EQ(syncs(node) > before + 3, durable);
        ASSERT_TRUE(node.close());
    }
}

// What the processes leave when they die after two commits' worth of writes.
class DurableLogs : public testing::Test {
  protected:
    DurableLogs() : node_(3, options(Durability::kNode), nullptr, bytes_of(500, 9)) {
        for (std::size_t i = 0; i < 3; ++i) write(i, 1000 * i, 1500, i);
        EXPECT_TRUE(node_.commit());
        committed_ = now_;
        for (std::size_t i = 0; i < 3; ++i) write(i, 500 * i, 900, 10 + i);
        crash_ = std::make_unique<test::Crash>(
            *io::open_posix_directory(node_.scratch().area()).value(), [&] { return node_.target().contents(); },
            node_.target().identity());
        crash_->boot_id = {};   // the machine was started again
    }
    void write(std::size_t who, std::uint64_t offset, std::size_t size, std::uint64_t seed) {
        const auto bytes = bytes_of(size, seed);
        EXPECT_TRUE(node_.write(who, offset, bytes, ByteClass::kMetadata));
        now_.write(offset, bytes);
    }
    recover::FileReport recover_unasked() {
        recover::Request request;
        request.unasked = true;
        auto report = crash_->recover(request);
        EXPECT_TRUE(report) << report.status().message();
        if (!report || report.value().files.size() != 1) return {};
        return report.value().files.front();
    }
    // Turns one byte round, `at` bytes into the newest segment of the log of a process.
    void damage(std::size_t directory, std::uint64_t at) {
        auto log = crash_->file("log", crash_->left().at(directory));
        std::array<std::byte, 1> byte{};
        ASSERT_TRUE(log->read_at(at, byte));
        byte[0] ^= std::byte{0xFF};
        ASSERT_TRUE(log->write_at(at, byte));
    }

    Participants node_;
    test::PlainBytes now_{bytes_of(500, 9)}, committed_;
    std::unique_ptr<test::Crash> crash_;
};

TEST_F(DurableLogs, are_recovered_unasked_after_a_restart) {
    const recover::FileReport file = recover_unasked();
    EXPECT_EQ(file.outcome, Outcome::kRecovered) << file.status.message();
    EXPECT_TRUE(same(crash_->contents(), committed_.content));
    EXPECT_THAT(crash_->left(), IsEmpty());
}

TEST_F(DurableLogs, are_all_needed) {
    for (const std::size_t missing : {0, 1, 2}) {
        test::Crash after(*crash_);
        const auto before = after.contents();   // some of it may have been drained
        const std::string name = after.left().at(missing);
        ASSERT_TRUE(after.area().open_directory(name).value()->remove_file("log"));
        auto report = after.recover();
        ASSERT_TRUE(report);
        ASSERT_EQ(report.value().files.size(), 1u);
        EXPECT_EQ(report.value().files.front().reason, Reason::kIncomplete)
            << recover::reason_name(report.value().files.front().reason);
        EXPECT_TRUE(same(after.contents(), before));
    }
}

TEST_F(DurableLogs, that_are_damaged_in_what_was_promised_are_refused) {
    for (const std::size_t whose : {0, 1, 2}) {
        test::Crash before(*crash_);
        damage(whose, log::kSegmentHeaderBytes + 400);
        const recover::FileReport file = recover_unasked();
        EXPECT_EQ(file.reason, Reason::kDamaged) << recover::reason_name(file.reason) << " " << file.status.message();
        EXPECT_TRUE(same(crash_->contents(), before.contents()));
        crash_ = std::make_unique<test::Crash>(before);
        crash_->boot_id = {};
    }
}

TEST_F(DurableLogs, may_be_damaged_in_what_was_never_promised) {
    for (const std::size_t whose : {0, 1, 2}) damage(whose, log::kSegmentHeaderBytes + 2600);
    const recover::FileReport file = recover_unasked();
    EXPECT_EQ(file.outcome, Outcome::kRecovered) << file.status.message();
    EXPECT_GT(file.unread_bytes, 0u);
    EXPECT_TRUE(same(crash_->contents(), committed_.content));
}

TEST_F(DurableLogs, without_a_statement_are_refused) {
    for (const std::string& name : crash_->left()) {
        auto at = std::move(crash_->area().open_directory(name)).value();
        auto board = at->open_file(group::board_name(1), io::OpenMode::kReadWrite);
        if (!board) continue;
        const std::vector<std::byte> zeros(group::statements_bytes(3));
        ASSERT_TRUE(board.value()->write_at(group::statements_begin(3), zeros));
    }
    const auto before = crash_->contents();
    EXPECT_EQ(recover_unasked().reason, Reason::kDamaged);
    EXPECT_TRUE(same(crash_->contents(), before));
}

TEST_F(DurableLogs, killed_at_any_call_of_recovery_give_the_same_when_it_is_begun_again) {
    std::uint64_t nth = 1;
    for (;; ++nth) {
        SCOPED_TRACE(testing::Message() << "killed at call " << nth);
        test::Crash after(*crash_);
        after.kill_at(nth, 10);
        (void)after.recover();
        if (!after.killed()) break;
        after.live_again();
        const auto report = after.recover();
        ASSERT_TRUE(report) << report.status().message();
        ASSERT_TRUE(report.value().all_well());
        ASSERT_TRUE(same(after.contents(), committed_.content));
        ASSERT_THAT(after.left(), IsEmpty());
    }
    EXPECT_GT(nth, 30u);
}

// Without the device's word nothing is promised any more; what is staged is kept for the death of the processes.
TEST(GroupDurability, a_log_that_cannot_be_synced_fails_every_commit_from_then_on) {
    for (const std::size_t whose : {0, 1}) {
        SCOPED_TRACE(whose);
        auto faults = std::make_shared<io::FaultPlan>();
        std::size_t engine = 0;
        Participants node(2, options(Durability::kNode), nullptr, {}, false,
                          {[&](std::unique_ptr<io::Directory> area) {
                               return engine++ == whose ? io::make_fault_directory(std::move(area), faults)
                                                        : std::move(area);
                           },
                           {}});
        faults->fail(io::Operation::kSync, 1, 1, EIO);
        for (std::size_t i = 0; i < 2; ++i)
            ASSERT_TRUE(node.write(i, 1000 * i, bytes_of(1000, i), ByteClass::kMetadata));
        EXPECT_FALSE(node.commit());
        EXPECT_GT(faults->fired(), 0u);
        ASSERT_TRUE(node.write(0, 0, bytes_of(10, 5)));
        EXPECT_FALSE(node.commit());
        const Status closed = node.close();
        EXPECT_EQ(node.target().contents().size(), 2000u) << "drained all the same";
        EXPECT_EQ(closed.is_ok(), whose == 1)
            << "who drains knows of its own log only; the others' commits have said it";
    }
}

// The log is the only copy of what the target may not have on its device, also once a sync of the log has failed.
TEST(GroupDurability, a_sync_of_the_target_that_is_given_up_releases_nothing) {
    test::left_on_purpose = true;
    const auto of_log = std::make_shared<io::FaultPlan>(), of_target = std::make_shared<io::FaultPlan>();
    LoadedOptions loaded = options(Durability::kNode);
    loaded.options.patience = 10;
    loaded.options.size = 256 << 10;
    std::size_t engine = 0;
    Participants node(2, loaded, of_target, {}, false,
                      {[&](std::unique_ptr<io::Directory> area) {
                           return engine++ == 0 ? io::make_fault_directory(std::move(area), of_log) : std::move(area);
                       },
                       {},
                       std::make_shared<test::JumpingClock>([of_target] { return of_target->hanging(); })});
    const auto bytes = bytes_of(150'000, 1);
    ASSERT_TRUE(node.write(0, 0, bytes));
    ASSERT_TRUE(node.commit());
    ASSERT_TRUE(node.write(0, bytes.size(), bytes_of(100, 3)));
    of_log->fail(io::Operation::kSync, 1, 1, EIO);
    EXPECT_EQ(node.commit().sys_errno(), EIO);
    ASSERT_TRUE(node.drain());
    of_target->hang(io::Operation::kSync);
    Status written;
    for (int i = 0; i < 8 && written; ++i) written = node.write(0, 200'000, bytes_of(60'000, 2), ByteClass::kMetadata);
    EXPECT_TRUE(of_target->hanging());
    test::Crash crash(
        *io::open_posix_directory(node.scratch().area()).value(), [&] { return std::vector<std::byte>(bytes.size()); },
        node.target().identity());
    const auto report = crash.recover();
    ASSERT_TRUE(report) << report.status().message();
    for (const auto& each : report.value().files) EXPECT_TRUE(each.status) << each.status.message();
    auto got = crash.contents();
    got.resize(bytes.size());
    EXPECT_TRUE(same(got, bytes));
    of_target->let_go();
    (void)node.close();
}

// The first statement fails the open of the file. Until the file is closed, other files may still ask it for room.
TEST(GroupDurability, without_a_first_statement_gives_room_and_promises_nothing) {
    const auto faults = std::make_shared<io::FaultPlan>();
    LoadedOptions loaded = test::tiny_options();
    loaded.options.durability = Durability::kNode;
    const auto before = bytes_of(500, 9);
    std::size_t engine = 0;
    Participants node(2, loaded, nullptr, before, false,
                      {[&](std::unique_ptr<io::Directory> area) {
                           return engine++ == 0 ? io::make_fault_directory(std::move(area), faults) : std::move(area);
                       },
                       {}});
    faults->fail(io::Operation::kSync, 1, 1, EIO);
    EXPECT_EQ(node.file(0).membership().begin_statements().sys_errno(), EIO);
    test::PlainBytes now{before};
    for (std::uint64_t i = 0; i < 100; ++i) {
        const auto bytes = bytes_of(4000, i);
        ASSERT_TRUE(node.write(0, 1000 + 4000 * i, bytes)) << i;
        now.write(1000 + 4000 * i, bytes);
    }
    EXPECT_GT(node.group(0).log().released(), 0u);
    EXPECT_TRUE(same(node.recovered(), before)) << "nothing was committed";
    EXPECT_EQ(node.close().sys_errno(), EIO);
    EXPECT_TRUE(same(node.target().contents(), now.content));
}

// The file is complete. But the log may come back after a loss of power, so its board has to stay.
TEST(GroupDurability, a_log_that_one_rank_cannot_give_back_durably_fails_the_close_of_all) {
    test::Scratch scratch;
    const auto faults = std::make_shared<io::FaultPlan>();
    test::ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
        const bool faulty = team->rank() == 1;
        test::TeamMember member(team, scratch,
                                stage::Engine::create(options(Durability::kNode),
                                                      [plain = scratch.opener(), faulty,
                                                       faults]() -> Result<std::unique_ptr<io::Directory>> {
                                                          auto area = plain();
                                                          if (!area || !faulty) return area;
                                                          return io::make_fault_directory(std::move(area).value(),
                                                                                          faults);
                                                      }));
        ASSERT_TRUE(member.opened()) << member.opened().message();
        ASSERT_TRUE(member.write(static_cast<std::uint64_t>(team->rank()) * 1000, bytes_of(1000, 1)));
        ASSERT_TRUE(member.file().commit());
        if (faulty) faults->fail(io::Operation::kSync, 1, UINT64_MAX, EIO);
        const Status closed = member.close();
        EXPECT_EQ(closed.sys_errno(), EIO) << closed.message();
        EXPECT_THAT(closed.message(), HasSubstr("give back the log of " + scratch.target()));
        EXPECT_EQ(closed.message().find("rank 1") != std::string::npos, !faulty) << closed.message();
        ASSERT_TRUE(team->barrier());
        EXPECT_EQ(member.engine().area().directory()->open_file(group::board_name(1), io::OpenMode::kRead).is_ok(),
                  team->rank() == 0);
        ASSERT_TRUE(team->barrier());
    });
    EXPECT_GT(faults->fired(), 0u);
    EXPECT_EQ(scratch.contents().size(), 3000u);
}

TEST(GroupDurability, holds_only_if_all_ranks_of_one_node_want_it_and_rank_0_says_so_once) {
    enum class Case { kAll, kSome, kSeveralNodes };
    for (const Case given : {Case::kAll, Case::kSome, Case::kSeveralNodes}) {
        test::Scratch scratch;
        test::ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
            LoadedOptions loaded = options(given == Case::kSome && team->rank() == 1 ? Durability::kProcess
                                                                                     : Durability::kNode);
            if (given == Case::kSeveralNodes) loaded.options.node = fmt::format("node {}", team->rank() == 0 ? 0 : 1);
            test::TeamMember member(team, scratch, loaded);
            ASSERT_TRUE(member.opened()) << member.opened().message();
            const bool durable = given == Case::kAll;
            if (team->rank() == 0 && !durable) {
                EXPECT_THAT(member.warning(), HasSubstr("durability=node does not hold"));
            } else {
                EXPECT_EQ(member.warning(), "");
            }
            ASSERT_TRUE(member.write(static_cast<std::uint64_t>(team->rank()) * 1000, bytes_of(1000, 1)));
            ASSERT_TRUE(member.file().commit());
            EXPECT_EQ(member.file().staged().state().durable, durable);
            EXPECT_EQ(member.counters().syncs > 0, durable);
            EXPECT_GT(member.counters().staged, 0u);
            ASSERT_TRUE(member.close());
        });
        EXPECT_EQ(scratch.contents().size(), 3000u);
        EXPECT_THAT(scratch.left(), IsEmpty());
    }
}

}   // namespace
}   // namespace forebay
