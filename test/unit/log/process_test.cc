#include "log/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace forebay::log {
namespace {

TEST(Process, this_one_is_identified_and_alive) {
    const auto self = identify_this_process();
    ASSERT_TRUE(self) << self.status().message();
    EXPECT_EQ(self.value().pid, static_cast<std::uint64_t>(::getpid()));
    EXPECT_GT(self.value().start_ticks, 0u);
    EXPECT_TRUE(is_alive(self.value()));
    EXPECT_EQ(identify_this_process().value(), self.value());
}

TEST(Process, the_boot_id_has_the_systems_text_form) {
    std::string text;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
    EXPECT_EQ(to_text(identify_this_process().value().boot_id), text);
    EXPECT_EQ(to_text(BootId{}), "00000000-0000-0000-0000-000000000000");
}

TEST(Process, another_start_or_another_boot_is_another_process) {
    const ProcessIdentity self = identify_this_process().value();
    ProcessIdentity other = self;
    ++other.start_ticks;
    EXPECT_FALSE(is_alive(other));
    other = self;
    other.boot_id[15] ^= std::byte{1};
    EXPECT_FALSE(is_alive(other));
    other = self;
    other.pid = 0;
    EXPECT_FALSE(is_alive(other));
    other.pid = ~std::uint64_t{0};
    EXPECT_FALSE(is_alive(other));
}

TEST(Process, a_child_is_alive_until_it_ends) {
    int say_who[2], may_end[2];
    ASSERT_EQ(::pipe(say_who), 0);
    ASSERT_EQ(::pipe(may_end), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const auto self = identify_this_process();
        const ProcessIdentity who = self ? self.value() : ProcessIdentity{};
        char end = 0;
        const bool told = ::write(say_who[1], &who, sizeof who) == static_cast<ssize_t>(sizeof who) && ::read(may_end[0], &end, 1) == 1;
        ::_exit(told ? 0 : 1);
    }
    ProcessIdentity who;
    ASSERT_EQ(::read(say_who[0], &who, sizeof who), static_cast<ssize_t>(sizeof who));
    EXPECT_EQ(who.pid, static_cast<std::uint64_t>(child));
    EXPECT_TRUE(is_alive(who));
    ASSERT_EQ(::write(may_end[1], "x", 1), 1);
    siginfo_t ended{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
    EXPECT_FALSE(is_alive(who)) << "it has ended, though nobody has asked how";
    int outcome = -1;
    ASSERT_EQ(::waitpid(child, &outcome, 0), child);
    EXPECT_EQ(outcome, 0);
    EXPECT_FALSE(is_alive(who));
    for (const int descriptor : {say_who[0], say_who[1], may_end[0], may_end[1]}) ::close(descriptor);
}

TEST(OwnerOfDirectory, is_read_from_its_name_and_from_no_other) {
    const auto self = identify_this_process().value();
    const auto owner = owner_of_directory(std::to_string(self.pid) + "-" + std::to_string(self.start_ticks) + "-0");
    ASSERT_TRUE(owner);
    EXPECT_EQ(*owner, self);
    EXPECT_TRUE(is_alive(*owner));
    for (const char* const name : {"", "1", "1-2", "1-2-", "-1-2", "1-2-3-4", "1-2-3x", "a-2-3", "1--3", " 1-2-3", "1-2-99999999999999999999"})
        EXPECT_FALSE(owner_of_directory(name)) << name;
}

}   // namespace
}   // namespace forebay::log
