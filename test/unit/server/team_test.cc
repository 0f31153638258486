// Clients that write one file together through a staging server, each in a session of its own (docs/protocol.md,
// "Teams").
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "support/seeds.h"
#include "support/server_fixture.h"

namespace forebay::server {
namespace {

constexpr wire::Open::Team kTeam{77, 3}, kJoining{77, 3, true};

class Team : public StagingServer {
  protected:
    using Members = std::vector<std::unique_ptr<wire::RemoteFile>>;

    Members open_together(const std::string& path, wire::Open::Team team = kTeam) {
        Members members;
        for (std::uint32_t i = 0; i < team.members; ++i) {
            team.joins = i > 0;
            auto member = open(path, false, team);
            EXPECT_TRUE(member) << member.status().message();
            if (!member) break;
            members.push_back(std::move(member).value());
        }
        return members;
    }
};

// By whichever member, one call after the other: each sees what all others have done before.
TEST_F(Team, a_file_written_by_any_of_its_members_equals_a_byte_array) {
    start();
    for (const auto seed : test::seeds("server.team", 4)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 random(seed);
        const std::string path = make_file("file" + std::to_string(seed));
        Content model;
        const Members members = open_together(path);
        ASSERT_EQ(members.size(), 3u);
        for (int turn = 0; turn < 300; ++turn) {
            wire::RemoteFile& file = *members[random() % 3];
            const std::size_t offset = random() % 100'000;
            switch (random() % 12) {
                case 0: {
                    const std::size_t size = random() % 100'000;
                    ASSERT_TRUE(file.resize(size));
                    model.resize(size);
                    break;
                }
                case 1: ASSERT_TRUE(file.commit()); break;
                case 2: ASSERT_TRUE(file.drain()); break;
                case 3:
                case 4:
                case 5: {
                    Content got(random() % 20'000);
                    ASSERT_TRUE(file.read_at(offset, got));
                    Content expected = model;
                    expected.resize(std::max(model.size(), offset + got.size()));
                    ASSERT_TRUE(std::equal(got.begin(), got.end(),
                                           expected.begin() + static_cast<std::ptrdiff_t>(offset)));
                    break;
                }
                default: {
                    // Some parts in one call.
                    for (std::uint64_t part = random() % 3 + 1, at = offset; part > 0; --part) {
                        const Content bytes = random_bytes(random, 1 + random() % 5000);
                        ASSERT_TRUE(random() % 2 ? file.write_at(at, bytes) : file.write_metadata_at(at, bytes));
                        if (model.size() < at + bytes.size()) model.resize(at + bytes.size());
                        std::copy(bytes.begin(), bytes.end(), model.begin() + static_cast<std::ptrdiff_t>(at));
                        at += random() % 8000;
                    }
                    ASSERT_TRUE(file.end_call());
                }
            }
        }
        for (const auto& member : members) ASSERT_TRUE(member->close());
        ASSERT_TRUE(content(path) == model);
    }
    stop();
    EXPECT_THAT(left(), testing::IsEmpty());
}

// All at a time: each its own interleaved pieces.
TEST_F(Team, members_write_at_the_same_time) {
    constexpr std::size_t kPiece = 1000, kPieces = 600;
    start();
    const std::string path = make_file("file");
    const Members members = open_together(path);
    ASSERT_EQ(members.size(), 3u);
    const auto value = [](std::size_t piece) { return std::byte(piece * 7 + 1); };
    {
        std::vector<std::jthread> threads;
        for (std::size_t rank = 0; rank < 3; ++rank)
            threads.push_back(start_background_thread([&, rank] {
                for (std::size_t piece = rank; piece < kPieces; piece += 3) {
                    EXPECT_TRUE(members[rank]->write_at(piece * kPiece, Content(kPiece, value(piece))));
                    EXPECT_TRUE(members[rank]->end_call());
                }
            }));
    }
    ASSERT_TRUE(members[0]->commit());
    const auto reader = open_to_read(path);
    ASSERT_TRUE(reader) << reader.status().message();
    const Content committed = all_of(*reader.value());
    {
        std::vector<std::jthread> threads;
        for (const auto& member : members)
            threads.push_back(start_background_thread([&member] { EXPECT_TRUE(member->close()); }));
    }
    const Content got = content(path);
    ASSERT_EQ(got.size(), kPiece * kPieces);
    for (std::size_t at = 0; at < got.size(); ++at) ASSERT_EQ(got[at], value(at / kPiece)) << at;
    EXPECT_TRUE(committed == got);
}

TEST_F(Team, a_member_that_goes_leaves_the_last_commit_and_the_others_are_told) {
    start();
    for (std::size_t goes = 0; goes < 3; ++goes) {
        const std::string path = make_file("file" + std::to_string(goes));
        Members members = open_together(path);
        ASSERT_EQ(members.size(), 3u);
        const Content before(10'000, std::byte{1}), after(10'000, std::byte{2});
        ASSERT_TRUE(members[1]->write_at(0, before));
        ASSERT_TRUE(members[1]->end_call());
        ASSERT_TRUE(members[0]->commit());
        ASSERT_TRUE(members[2]->write_at(5'000, after));
        ASSERT_TRUE(members[2]->end_call());
        members[goes].reset();
        // Its session ends at some time after this.
        const std::size_t other = (goes + 1) % 3;
        Status told;
        do {
            told = members[other]->write_at(0, after);
            if (told) told = members[other]->end_call();
        } while (told);
        EXPECT_THAT(told.message(), testing::HasSubstr("ended without closing it"));
        EXPECT_FALSE(members[(goes + 2) % 3]->commit());
        for (auto& member : members)
            if (member != nullptr) {
                EXPECT_FALSE(member->close());
            }
        members.clear();
        auto next = open(path);   // waits for the end of those before
        ASSERT_TRUE(next) << next.status().message();
        EXPECT_TRUE(content(path) == before);
        EXPECT_TRUE(next.value()->close());
    }
    stop();
    EXPECT_THAT(left(), testing::IsEmpty());
}

TEST_F(Team, those_of_another_team_and_one_too_many_are_refused) {
    start(64 << 20, 6);
    const std::string path = make_file("file");
    const Members members = open_together(path);
    ASSERT_EQ(members.size(), 3u);
    EXPECT_EQ(open(path, false, kJoining).status().code(), Code::kInvalidArgument);
    impatient_ = true;
    EXPECT_EQ(open(path, false, {78, 3}).status().sys_errno(), EBUSY);
    EXPECT_EQ(open(path).status().sys_errno(), EBUSY);
    impatient_ = false;
    // Three clients are there, and three more may come.
    const std::string other = make_file("other");
    const Status refused = open(other, false, {79, 4}).status();
    EXPECT_EQ(refused.code(), Code::kUnsupported);
    EXPECT_THAT(refused.message(), testing::HasSubstr("--clients-max"));
    EXPECT_EQ(open_together(other, {80, 3}).size(), 3u);
    // Whoever joins a team finds it here, or the first member has another server.
    EXPECT_THAT(open(make_file("third"), false, {81, 3, true}).status().message(),
                testing::HasSubstr("the same server for all ranks"));
    for (const auto& member : members) EXPECT_TRUE(member->close());
}

TEST_F(Team, readers_of_one_team_see_one_commit) {
    start();
    const std::string path = make_file("file");
    auto writer = open(path);
    ASSERT_TRUE(writer);
    const Content first(1000, std::byte{1}), second(2000, std::byte{2});
    ASSERT_TRUE(writer.value()->write_at(0, first));
    ASSERT_TRUE(writer.value()->commit());
    auto one = open_to_read(path, kTeam);
    ASSERT_TRUE(one) << one.status().message();
    ASSERT_TRUE(writer.value()->write_at(0, second));
    ASSERT_TRUE(writer.value()->commit());
    auto other = open_to_read(path, kJoining);
    ASSERT_TRUE(other) << other.status().message();
    EXPECT_TRUE(all_of(*one.value()) == first);
    EXPECT_TRUE(all_of(*other.value()) == first);
    auto alone = open_to_read(path);
    ASSERT_TRUE(alone);
    EXPECT_TRUE(all_of(*alone.value()) == second);
    EXPECT_EQ(open_to_read(path, {78, 3, true}).status().code(), Code::kUnavailable);
    EXPECT_TRUE(writer.value()->close());
}

}   // namespace
}   // namespace forebay::server
