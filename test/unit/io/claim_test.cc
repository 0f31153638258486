#include "io/claim.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <functional>
#include <string>

namespace forebay::io {
namespace {

class ClaimTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string made = (std::filesystem::temp_directory_path() / "forebay_claim_XXXXXX").string();
        ASSERT_NE(::mkdtemp(made.data()), nullptr);
        parent_ = made;
    }
    void TearDown() override { std::filesystem::remove_all(parent_); }

    [[nodiscard]] std::string folder() const { return parent_ + "/claims"; }
    [[nodiscard]] std::size_t files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder()), {}));
    }
    // What another process makes of it: 0 it has it, else the error. It ends at once, without giving anything up.
    [[nodiscard]] int tried_elsewhere(const std::string& name) const {
        return elsewhere([&] {
            auto claim = Claim::make(folder(), name);
            const int outcome = claim ? 0 : claim.status().sys_errno();
            if (claim) (void)claim.value().release();
            return outcome;
        });
    }
    static int elsewhere(const std::function<int()>& act) {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(act());
        int end = 0;
        EXPECT_EQ(::waitpid(child, &end, 0), child);
        return WIFEXITED(end) ? WEXITSTATUS(end) : -1;
    }

    std::string parent_;
};

TEST_F(ClaimTest, one_process_has_it_and_the_others_hear_who) {
    auto claim = Claim::make(folder(), "file");
    ASSERT_TRUE(claim) << claim.status().message();
    EXPECT_EQ(tried_elsewhere("file"), EBUSY);
    EXPECT_EQ(tried_elsewhere("other"), 0);
    EXPECT_EQ(elsewhere([&] {
                  const auto second = Claim::make(folder(), "file");
                  return second.status().message() == "process " + std::to_string(::getppid()) ? 0 : 1;
              }),
              0);
}

TEST_F(ClaimTest, what_is_given_up_can_be_had_again_and_leaves_nothing) {
    for (int round = 0; round < 3; ++round) {
        auto claim = Claim::make(folder(), "file");
        ASSERT_TRUE(claim);
        EXPECT_EQ(files(), 1u);
        claim.value().reset();
        EXPECT_EQ(files(), 0u);
    }
    EXPECT_EQ(tried_elsewhere("file"), 0);
}

TEST_F(ClaimTest, others_can_ask_whether_somebody_has_it) {
    const auto is_held_elsewhere = [&] {
        return elsewhere([&] { return Claim::is_held(folder(), "file").value() ? 1 : 0; }) == 1;
    };
    EXPECT_FALSE(is_held_elsewhere());
    auto claim = Claim::make(folder(), "file");
    ASSERT_TRUE(claim);
    EXPECT_TRUE(is_held_elsewhere());
    // A child that gives up what it has of its parent's gives up nothing.
    EXPECT_EQ(elsewhere([&] {
                  claim.value().reset();
                  return 0;
              }),
              0);
    EXPECT_TRUE(is_held_elsewhere());
    claim.value().reset();
    EXPECT_FALSE(is_held_elsewhere());
    EXPECT_EQ(tried_elsewhere("file"), 0);
    EXPECT_FALSE(Claim::is_held(folder(), "file").value()) << "its file has stayed, unlocked";
}

TEST_F(ClaimTest, a_child_that_lives_on_does_not_keep_it) {
    int ready[2], go[2];
    ASSERT_EQ(::pipe(ready), 0);
    ASSERT_EQ(::pipe(go), 0);
    char byte = 0;
    // The grandchild outlives the process that had the claim when it was forked.
    const int end = elsewhere([&] {
        auto claim = Claim::make(folder(), "file");
        if (!claim) return 1;
        (void)claim.value().release();
        if (::fork() == 0) {
            (void)!::write(ready[1], "r", 1);
            (void)!::read(go[0], &byte, 1);
            ::_exit(0);
        }
        return 0;
    });
    ASSERT_EQ(end, 0);
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    EXPECT_TRUE(Claim::make(folder(), "file"));
    EXPECT_EQ(::write(go[1], "g", 1), 1);
    for (const int each : {ready[0], ready[1], go[0], go[1]}) ::close(each);
}

TEST_F(ClaimTest, what_the_dead_have_left_is_removed_and_nothing_else) {
    auto claim = Claim::make(folder(), "mine");
    ASSERT_TRUE(claim);
    EXPECT_EQ(tried_elsewhere("theirs"), 0);
    EXPECT_EQ(files(), 2u);
    EXPECT_EQ(elsewhere([&] {
                  Claim::remove_leftovers(folder());
                  return 0;
              }),
              0);
    EXPECT_EQ(files(), 1u);
    EXPECT_EQ(tried_elsewhere("mine"), EBUSY);
}

TEST_F(ClaimTest, of_many_that_try_at_once_one_at_a_time_has_it) {
    const std::string inside = parent_ + "/inside";
    constexpr int kProcesses = 6, kRounds = 200;
    for (int i = 0; i < kProcesses; ++i) {
        if (::fork() != 0) continue;
        for (int round = 0; round < kRounds; ++round) {
            const auto claim = Claim::make(folder(), "file");
            if (!claim && claim.status().sys_errno() != EBUSY) ::_exit(2);
            if (!claim) continue;
            if (!std::filesystem::create_directory(inside)) ::_exit(1);   // somebody else is inside
            std::filesystem::remove(inside);
        }
        ::_exit(0);
    }
    for (int i = 0; i < kProcesses; ++i) {
        int end = 0;
        ASSERT_GT(::wait(&end), 0);
        EXPECT_EQ(end, 0);
    }
    EXPECT_EQ(files(), 0u);
}

TEST_F(ClaimTest, a_folder_that_cannot_be_made_is_an_error) {
    const auto claim = Claim::make(parent_ + "/nowhere/claims", "file");
    EXPECT_EQ(claim.status().sys_errno(), ENOENT);
}

}   // namespace
}   // namespace forebay::io
