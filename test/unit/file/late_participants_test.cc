// A target that reports a lost write at a later call, which may be that of a participant that does not drain.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <utility>

#include "io/fault_file.h"
#include "support/late_target.h"
#include "support/team_files.h"
#include "support/thread_team.h"

namespace forebay {
namespace {

using io::FaultPlan;
using io::Operation;
using test::bytes_of;
using test::LateClient;
using test::LateFile;
using test::Participants;
using test::same;

LoadedOptions late_options(OnError on_error) {
    LoadedOptions loaded = test::small_options();
    loaded.options.on_error = on_error;
    loaded.options.segment = 16 << 10;
    loaded.options.size = 256 << 10;
    return loaded;
}

// Two participants of one node with on_error=through. The drainer has written 9000 bytes, and then a write of it has
// failed, so both bypass the log.
class LateParticipants : public testing::Test {
  protected:
    LateParticipants() {
        drain(0);
        EXPECT_EQ(node_.file(0).counters().drained, 9000u);
        plan_->fail(Operation::kWrite, 1, 1, EIO);
        drain(9000);
        EXPECT_TRUE(node_.group(0).target().bypasses_log());
    }
    void write(std::size_t who, std::uint64_t offset, std::size_t size) {
        const auto bytes = bytes_of(size, ++seed_);
        ASSERT_TRUE(node_.write(who, offset, bytes));
        now_.write(offset, bytes);
    }
    void drain(std::uint64_t offset) {
        write(0, offset, 9000);
        const Status committed = node_.commit();
        EXPECT_EQ(committed && node_.drain(), offset == 0);
    }
    test::AroundParticipants around() {
        return {.target = [this, drainer = true](std::unique_ptr<io::File> file) mutable -> std::unique_ptr<io::File> {
            auto late = std::make_unique<LateFile>(std::move(file), client_);
            if (std::exchange(drainer, false)) return io::make_fault_file(std::move(late), plan_);
            return late;
        }};
    }

    const std::shared_ptr<LateClient> client_ = std::make_shared<LateClient>();
    const std::shared_ptr<FaultPlan> plan_ = std::make_shared<FaultPlan>();
    Participants node_{2, late_options(OnError::kThrough), nullptr, {}, false, around()};
    test::PlainBytes now_;
    std::uint64_t seed_ = 0;
};

// The drainer has no unconfirmed bytes while others bypass the log: its failure has made all of them ready again.
TEST_F(LateParticipants, lose_no_bytes_of_the_drainer_if_another_write_gets_the_report) {
    client_->lose();
    ASSERT_EQ(client_->losses(), 1u) << "bytes that the target had taken";
    EXPECT_FALSE(node_.write(1, 30000, bytes_of(1000, 77))) << "it gets the report";
    const Status closed = node_.close();
    EXPECT_FALSE(closed) << "an earlier call failed";
    EXPECT_TRUE(same(node_.recovered(), now_.content));
}

TEST_F(LateParticipants, fail_each_flush_after_the_loss_of_bytes_that_bypassed_the_log) {
    write(1, 30000, 1000);
    client_->lose();
    for (int i = 0; i < 2; ++i) {
        const Status committed = node_.commit();
        EXPECT_FALSE(committed && node_.drain());
    }
    EXPECT_FALSE(node_.close());
}

// The bytes that each rank stages and commits first.
enum class First : bool { kNothing, kStagedBytes };

// Rank 0 is alone on its node. Rank 1 drains for the other node, and rank 2 writes there, too.
void with_two_nodes(const std::shared_ptr<FaultPlan>& plan_of_rank_0,
                    const std::function<void(test::TeamMember& member, int rank, LateClient& client)>& body,
                    First first = First::kStagedBytes) {
    const std::shared_ptr<LateClient> clients[] = {std::make_shared<LateClient>(), std::make_shared<LateClient>()};
    test::Scratch scratch;
    test::ThreadTeam::run(3, [&](std::shared_ptr<file::Team> team) {
        const int rank = team->rank();
        const std::size_t node = rank == 0 ? 0 : 1;
        LoadedOptions loaded = late_options(OnError::kFail);
        loaded.options.node = fmt::format("node {}", node);
        test::TeamMember member(team, scratch, stage::Engine::create(std::move(loaded), scratch.opener()), O_RDWR,
                                [&](std::unique_ptr<io::File> file) -> std::unique_ptr<io::File> {
                                    auto late = std::make_unique<LateFile>(std::move(file), clients[node]);
                                    if (rank != 0) return late;
                                    return io::make_fault_file(std::move(late), plan_of_rank_0);
                                });
        ASSERT_TRUE(member.opened()) << member.opened().message();
        if (first == First::kStagedBytes) {
            ASSERT_TRUE(member.write(static_cast<std::uint64_t>(rank) * 9000, bytes_of(9000, 1)));
        }
        ASSERT_TRUE(member.file().commit());
        body(member, rank, *clients[node]);
    });
}

void expect_failures(test::TeamMember& member) {
    EXPECT_FALSE(member.file().commit());
    EXPECT_FALSE(member.file().commit()) << "the bytes are never written again";
    EXPECT_FALSE(member.close());
}

TEST(LateNodes, fail_each_flush_after_a_bypassing_write_of_any_rank_has_got_the_report) {
    with_two_nodes(std::make_shared<FaultPlan>(), [](test::TeamMember& member, int rank, LateClient& client) {
        if (rank == 2) {
            ASSERT_TRUE(member.write(20000, bytes_of(9000, 2)));
            ASSERT_TRUE(member.file().await_drained());
            client.lose();
            ASSERT_EQ(client.losses(), 1u) << "bytes of the drainer";
            const auto bytes = bytes_of(1000, 77);
            const stage::StagedFile::Part part{40000, bytes};
            EXPECT_FALSE(member.file().write_together({&part, 1}, stage::ByteClass::kRaw)) << "it gets the report";
        }
        expect_failures(member);
    });
}

// Natively MPI_File_sync does that. Else other nodes read older bytes after a flush.
TEST(LateNodes, send_all_that_they_wrote_to_the_servers_at_a_flush) {
    with_two_nodes(std::make_shared<FaultPlan>(), [](test::TeamMember& member, int rank, LateClient& client) {
        const auto at = static_cast<std::uint64_t>(rank) * 20000 + 60000;
        ASSERT_TRUE(member.write(at, bytes_of(9000, 2)));
        const auto bytes = bytes_of(1000, 77);
        const stage::StagedFile::Part part{at + 9000, bytes};
        ASSERT_TRUE(member.file().write_together({&part, 1}, stage::ByteClass::kRaw));
        ASSERT_TRUE(member.file().commit());
        client.lose();
        EXPECT_EQ(client.losses(), 0u) << "the client keeps no byte";
        EXPECT_TRUE(member.close());
    });
}

// Writes beside the log, and loses the bytes.
void write_and_lose(test::TeamMember& member, LateClient& client) {
    const auto bytes = bytes_of(1000, 77);
    const stage::StagedFile::Part part{40000, bytes};
    ASSERT_TRUE(member.file().write_together({&part, 1}, stage::ByteClass::kRaw));
    client.lose();
    ASSERT_EQ(client.losses(), 1u);
}

TEST(LateNodes, ask_at_the_close_whether_bytes_were_lost) {
    with_two_nodes(std::make_shared<FaultPlan>(), [](test::TeamMember& member, int rank, LateClient& client) {
        if (rank == 2) write_and_lose(member, client);
        EXPECT_FALSE(member.close());
    });
}

// The drainer has written nothing, so it has nothing to ask about.
TEST(LateNodes, ask_at_the_close_whether_bytes_were_lost_that_a_rank_wrote_beside_the_drainer) {
    with_two_nodes(
        std::make_shared<FaultPlan>(),
        [](test::TeamMember& member, int rank, LateClient& client) {
            if (rank == 2) write_and_lose(member, client);
            const Status closed = member.close();
            EXPECT_EQ(closed.sys_errno(), EIO) << closed.message();
            EXPECT_EQ(client.syncs(), rank == 0 ? 0u : 1u) << "only the rank that wrote asks";
        },
        First::kNothing);
}

// The end of a process that never closed the file, and a close behind the program, meet no other rank.
TEST(LateNodes, ask_whether_bytes_were_lost_when_a_rank_finishes_by_itself) {
    const auto client = std::make_shared<LateClient>();
    Participants node(2, late_options(OnError::kFail), nullptr, {}, true,
                      {.target = [&](std::unique_ptr<io::File> file) {
                          return std::make_unique<LateFile>(std::move(file), client);
                      }});
    const auto bytes = bytes_of(1000, 77);
    const stage::StagedFile::Part part{40000, bytes};
    ASSERT_TRUE(node.file(1).write_bypassing({&part, 1}));
    client->lose();
    ASSERT_EQ(client->losses(), 1u);
    ASSERT_TRUE(node.engine(0).detach(node.file(0).shared_from_this(), true));
    node.group(0).ending().finished();
    const Status finished = node.file(1).membership().finish_followed(Status::ok());
    EXPECT_EQ(finished.sys_errno(), EIO) << finished.message();
    EXPECT_FALSE(node.file(1).lifecycle().leaves_log()) << "the log has no byte that could be written again";
    EXPECT_EQ(node.engine(1).detach(node.file(1).shared_from_this(), true).sys_errno(), EIO);
}

TEST(LateNodes, fail_each_flush_after_a_change_of_size_has_got_the_report) {
    const auto plan = std::make_shared<FaultPlan>();
    with_two_nodes(plan, [&plan](test::TeamMember& member, int rank, LateClient&) {
        if (rank == 0) plan->fail(Operation::kResize, 1, 1, EIO);
        EXPECT_FALSE(member.file().truncate(50000));
        expect_failures(member);
    });
}

}   // namespace
}   // namespace forebay
