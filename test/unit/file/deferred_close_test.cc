// Closes of a shared file that do not wait: all members return at the commit, and what is left is done without the
// team. The target's writes hang until a test lets them go, so nothing has drained before.
#include <gtest/gtest.h>

#include <mutex>

#include "io/fault_file.h"
#include "support/team_files.h"
#include "support/thread_team.h"

namespace forebay {
namespace {

using io::FaultPlan;
using io::Operation;
using stage::ByteClass;
using test::bytes_of;
using test::same;
using test::Scratch;
using test::ThreadTeam;

constexpr int kMembers = 3;
constexpr std::size_t kPart = 50'000;

LoadedOptions options(OnClose close = OnClose::kDeferred) {
    LoadedOptions loaded = test::small_options();
    loaded.options.close = close;
    return loaded;
}

std::vector<std::byte> expected(std::uint64_t seed) {
    std::vector<std::byte> all;
    for (int rank = 0; rank < kMembers; ++rank) {
        const auto part = bytes_of(kPart, seed + static_cast<std::uint64_t>(rank));
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

// One member with an engine that outlives its files, as that of a process does.
struct Member {
    Member(std::shared_ptr<file::Team> of, const Scratch& place, std::shared_ptr<FaultPlan> faults,
           LoadedOptions with = options())
        : team(std::move(of)),
          scratch(place),
          plan(std::move(faults)),
          engine(stage::Engine::create(std::move(with), scratch.opener())) {}

    std::shared_ptr<file::SharedFile> open() {
        const int descriptor = ::open(scratch.target().c_str(), O_RDWR | O_CLOEXEC);
        EXPECT_GE(descriptor, 0);
        stage::OpenTarget target{io::make_fault_file(io::adopt_posix_file(descriptor, scratch.target()), plan), true};
        auto opened = file::SharedFile::open(engine, std::move(target), team);
        EXPECT_TRUE(opened) << opened.status().message();
        return opened ? opened.value().file : nullptr;
    }
    Status write(file::SharedFile& file, std::uint64_t seed) const {
        const auto rank = static_cast<std::uint64_t>(team->rank());
        const auto bytes = bytes_of(kPart, seed + rank);
        const stage::StagedFile::Part part{rank * kPart, bytes};
        return file.write({&part, 1}, ByteClass::kRaw);
    }
    stage::Engine::Detached close(file::SharedFile& file) {
        return file.close([this](stage::Ended how) {
            const std::lock_guard lock(mutex);
            ++ended;
            left = left || how.left;
            return Status::ok();
        });
    }

    const std::shared_ptr<file::Team> team;
    const Scratch& scratch;
    const std::shared_ptr<FaultPlan> plan;
    const std::shared_ptr<stage::Engine> engine;
    std::mutex mutex;
    int ended = 0;
    bool left = false;
};

TEST(DeferredClose, members_return_before_anything_drains_and_the_file_is_whole_afterwards) {
    Scratch scratch;
    const auto plan = std::make_shared<FaultPlan>();
    plan->hang(Operation::kWrite);
    ThreadTeam::run(kMembers, [&](std::shared_ptr<file::Team> team) {
        Member member(team, scratch, plan);
        auto file = member.open();
        ASSERT_TRUE(file);
        ASSERT_TRUE(member.write(*file, 1));
        const auto closed = member.close(*file);
        EXPECT_TRUE(closed.outcome) << closed.outcome.message();
        EXPECT_TRUE(closed.deferred);
        file.reset();   // and with it the team
        ASSERT_TRUE(team->barrier());
        if (team->rank() == 0) {
            EXPECT_TRUE(scratch.contents().empty());
            EXPECT_TRUE(same(scratch.recovered(), expected(1)));   // if all died now
        }
        ASSERT_TRUE(team->barrier());
        plan->let_go();
        EXPECT_TRUE(member.engine->closes().await_all());
        EXPECT_EQ(member.ended, 1);
        EXPECT_FALSE(member.left);
        EXPECT_NE(member.engine->statistics().find(R"("deferred_closes":1,"waited_closes":{})"), std::string::npos)
            << member.engine->statistics();
    });
    EXPECT_TRUE(same(scratch.contents(), expected(1)));
    EXPECT_TRUE(scratch.left().empty());
}

TEST(DeferredClose, several_files_end_in_the_order_of_their_closes_and_can_be_opened_again) {
    Scratch scratch;
    const auto plan = std::make_shared<FaultPlan>();
    ThreadTeam::run(kMembers, [&](std::shared_ptr<file::Team> team) {
        Member member(team, scratch, plan);
        for (std::uint64_t round = 0; round < 6; ++round) {
            EXPECT_TRUE(member.engine->closes().await(io::identify(scratch.target()).value()));
            auto file = member.open();
            ASSERT_TRUE(file);
            std::vector<std::byte> read(kPart);
            const stage::StagedFile::ReadPart part{0, read};
            ASSERT_TRUE(file->read({&part, 1}));
            EXPECT_TRUE(round == 0 || same(read, bytes_of(kPart, 10 * (round - 1))));
            ASSERT_TRUE(file->meet());
            ASSERT_TRUE(member.write(*file, 10 * round));
            EXPECT_TRUE(member.close(*file).outcome);
        }
        EXPECT_TRUE(member.engine->closes().await_all());
    });
    EXPECT_TRUE(same(scratch.contents(), expected(50)));
    EXPECT_TRUE(scratch.left().empty());
}

TEST(DeferredClose, one_member_that_waits_has_all_wait) {
    Scratch scratch;
    const auto plan = std::make_shared<FaultPlan>();
    ThreadTeam::run(kMembers, [&](std::shared_ptr<file::Team> team) {
        Member member(team, scratch, plan, options(team->rank() == 1 ? OnClose::kWait : OnClose::kDeferred));
        auto file = member.open();
        ASSERT_TRUE(file);
        ASSERT_TRUE(member.write(*file, 2));
        const auto closed = member.close(*file);
        EXPECT_TRUE(closed.outcome);
        EXPECT_FALSE(closed.deferred);
        EXPECT_TRUE(same(scratch.contents(), expected(2)));
        const bool counted = member.engine->statistics().find(R"("waited_closes":{"shared":1})") != std::string::npos;
        EXPECT_EQ(counted, team->rank() != 1) << member.engine->statistics();
    });
    EXPECT_TRUE(scratch.left().empty());
}

TEST(DeferredClose, what_fails_afterwards_is_told_on_all_members_by_their_next_close_and_stays_in_the_logs) {
    Scratch scratch;
    const auto plan = std::make_shared<FaultPlan>();
    plan->hang(Operation::kWrite);
    ThreadTeam::run(kMembers, [&](std::shared_ptr<file::Team> team) {
        Member member(team, scratch, plan);
        auto file = member.open();
        ASSERT_TRUE(file);
        ASSERT_TRUE(member.write(*file, 3));
        const auto closed = member.close(*file);
        EXPECT_TRUE(closed.outcome && closed.deferred);
        ASSERT_TRUE(team->barrier());
        plan->fail(Operation::kWrite, 1, ~std::uint64_t{0} >> 1, ENOSPC);
        plan->let_go();
        const Status failed = member.engine->closes().await_all();
        EXPECT_FALSE(failed);
        EXPECT_NE(failed.message().find("did not wait for the drain"), std::string::npos) << failed.message();
        EXPECT_TRUE(member.left);
        ASSERT_TRUE(team->barrier());
    });
    EXPECT_FALSE(scratch.left().empty());
    EXPECT_TRUE(same(scratch.recovered(), expected(3)));
}

TEST(DeferredClose, a_full_log_waits_for_files_that_were_closed) {
    Scratch scratch;
    const auto plan = std::make_shared<FaultPlan>();
    ThreadTeam::run(kMembers, [&](std::shared_ptr<file::Team> team) {
        LoadedOptions with = options();
        with.options.size = 192 << 10;
        with.options.segment = 32 << 10;
        Member member(team, scratch, plan, with);
        for (std::uint64_t round = 0; round < 8; ++round) {
            EXPECT_TRUE(member.engine->closes().await(io::identify(scratch.target()).value()));
            auto file = member.open();
            ASSERT_TRUE(file);
            ASSERT_TRUE(member.write(*file, round));
            EXPECT_TRUE(member.close(*file).outcome);
        }
        EXPECT_TRUE(member.engine->closes().await_all());
    });
    EXPECT_TRUE(same(scratch.contents(), expected(7)));
    EXPECT_TRUE(scratch.left().empty());
}

}   // namespace
}   // namespace forebay
