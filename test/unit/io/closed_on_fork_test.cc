#include "io/closed_on_fork.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>

namespace forebay::io {
namespace {

std::uint64_t inode_of(int number) {
    struct stat facts{};
    return ::fstat(number, &facts) == 0 ? facts.st_ino : 0;
}

bool is_open(int number) { return ::fcntl(number, F_GETFD) >= 0; }

// What a forked child says to a question.
bool in_child(const std::function<bool()>& question) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(question() ? 0 : 1);
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class ClosedOnForkTest : public testing::Test {
  protected:
    ClosedOnForkTest() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair_.data()), 0); }
    ~ClosedOnForkTest() override {
        for (const int number : pair_) ::close(number);
    }
    std::array<int, 2> pair_{};
};

TEST_F(ClosedOnForkTest, a_child_has_what_is_not_named_and_the_parent_has_both) {
    ClosedOnFork named;
    named.name(pair_[0], inode_of(pair_[0]));
    EXPECT_TRUE(in_child([&] { return !is_open(pair_[0]) && is_open(pair_[1]); }));
    EXPECT_TRUE(is_open(pair_[0]) && is_open(pair_[1]));
}

// The end of the parent's socket is seen at once, whatever its children are at.
TEST_F(ClosedOnForkTest, the_other_side_sees_the_end_while_a_child_lives) {
    auto named = std::make_unique<ClosedOnFork>();
    named->name(pair_[0], inode_of(pair_[0]));
    std::array<int, 2> lives{};
    ASSERT_EQ(::pipe(lives.data()), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        ::close(lives[1]);
        char byte;
        (void)!::read(lives[0], &byte, 1);
        ::_exit(0);
    }
    ::close(pair_[0]);
    char byte;
    EXPECT_EQ(::read(pair_[1], &byte, 1), 0);
    EXPECT_EQ(::waitpid(child, nullptr, WNOHANG), 0);   // it lives
    ::close(lives[1]);
    EXPECT_EQ(::waitpid(child, nullptr, 0), child);
    ::close(lives[0]);
    pair_[0] = ::dup(pair_[1]);
}

TEST_F(ClosedOnForkTest, a_number_that_stands_for_something_else_is_left_alone) {
    ClosedOnFork named;
    named.name(pair_[0], inode_of(pair_[0]));
    ASSERT_EQ(::dup2(pair_[1], pair_[0]), pair_[0]);   // as a program does that closes what it does not know
    EXPECT_TRUE(in_child([&] { return is_open(pair_[0]); }));
}

TEST_F(ClosedOnForkTest, what_is_named_no_more_stays_open) {
    for (int times = 0; times < 3; ++times) {   // its place is used again
        ClosedOnFork named;
        named.name(pair_[0], inode_of(pair_[0]));
    }
    EXPECT_TRUE(in_child([&] { return is_open(pair_[0]); }));
}

}   // namespace
}   // namespace forebay::io
