#include "area/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "io/posix_file.h"

namespace forebay::area {
namespace {

TEST(Process, this_one_is_identified_and_alive) {
    const auto self = identify_this_process();
    ASSERT_TRUE(self) << self.status().message();
    EXPECT_EQ(self.value().pid, static_cast<std::uint64_t>(::getpid()));
    EXPECT_GT(self.value().start_ticks, 0u);
    EXPECT_TRUE(is_seen_running(self.value()));
    EXPECT_EQ(identify_this_process().value(), self.value());
}

TEST(Process, the_boot_id_has_the_systems_text_form) {
    std::string text;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
    EXPECT_EQ(to_text(identify_this_process().value().boot_id), text);
    EXPECT_EQ(to_text(area::BootId{}), "00000000-0000-0000-0000-000000000000");
}

TEST(Process, another_start_or_another_boot_is_another_process) {
    const area::ProcessIdentity self = identify_this_process().value();
    area::ProcessIdentity other = self;
    ++other.start_ticks;
    EXPECT_FALSE(is_seen_running(other));
    other = self;
    other.boot_id[15] ^= std::byte{1};
    EXPECT_FALSE(is_seen_running(other));
    other = self;
    other.pid = 0;
    EXPECT_FALSE(is_seen_running(other));
    other.pid = ~std::uint64_t{0};
    EXPECT_FALSE(is_seen_running(other));
}

// The number of a process can be free again between opening what the system says of it and reading that.
TEST(Process, one_that_ends_while_it_is_looked_at_is_gone) {
    ProcessIdentity who = identify_this_process().value();
    who.start_ticks = 1;   // nobody's: what is looked at is another process, or none
    for (int round = 0; round < 500; ++round) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) ::_exit(0);
        std::jthread reaper([child] { ::waitpid(child, nullptr, 0); });
        who.pid = static_cast<std::uint64_t>(child);
        for (int looks = 0; looks < 20; ++looks) ASSERT_NO_THROW(EXPECT_FALSE(is_seen_running(who)));
    }
}

TEST(Process, a_child_is_alive_until_it_ends) {
    int say_who[2], may_end[2];
    ASSERT_EQ(::pipe(say_who), 0);
    ASSERT_EQ(::pipe(may_end), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const auto self = identify_this_process();
        const area::ProcessIdentity who = self ? self.value() : area::ProcessIdentity{};
        char end = 0;
        const bool told = ::write(say_who[1], &who, sizeof who) == static_cast<ssize_t>(sizeof who) &&
                          ::read(may_end[0], &end, 1) == 1;
        ::_exit(told ? 0 : 1);
    }
    area::ProcessIdentity who;
    ASSERT_EQ(::read(say_who[0], &who, sizeof who), static_cast<ssize_t>(sizeof who));
    EXPECT_EQ(who.pid, static_cast<std::uint64_t>(child));
    EXPECT_TRUE(is_seen_running(who));
    ASSERT_EQ(::write(may_end[1], "x", 1), 1);
    siginfo_t ended{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
    EXPECT_FALSE(is_seen_running(who)) << "it has ended, though nobody has asked how";
    int outcome = -1;
    ASSERT_EQ(::waitpid(child, &outcome, 0), child);
    EXPECT_EQ(outcome, 0);
    EXPECT_FALSE(is_seen_running(who));
    for (const int descriptor : {say_who[0], say_who[1], may_end[0], may_end[1]}) ::close(descriptor);
}

// Two containers have a process of the same number, started at the same time: a child in a new namespace stands for it.
TEST(Process, of_the_same_number_and_start_time_is_another_one) {
    const area::ProcessIdentity self = identify_this_process().value();
    int say[2];
    ASSERT_EQ(::pipe(say), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        const auto mine = identify_this_process();
        const std::uint64_t start = mine ? mine.value().start_ticks : 0;
        ::_exit(::write(say[1], &start, sizeof start) == static_cast<ssize_t>(sizeof start) ? 0 : 1);
    }
    std::uint64_t start = 0;
    ASSERT_EQ(::read(say[0], &start, sizeof start), static_cast<ssize_t>(sizeof start));
    (void)::waitpid(child, nullptr, 0);
    EXPECT_NE(start >> 40, self.start_ticks >> 40) << "what is above the start time is drawn anew";
    EXPECT_LT(start, std::uint64_t{1} << 63);
    for (const int end : say) ::close(end);
}

class LifeTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string made = "/tmp/forebay_life_XXXXXX";
        ASSERT_NE(::mkdtemp(made.data()), nullptr);
        path_ = made;
        directory_ = std::move(io::open_posix_directory(path_)).value();
    }
    void TearDown() override { std::filesystem::remove_all(path_); }

    std::string path_;
    std::unique_ptr<io::Directory> directory_;
};

TEST_F(LifeTest, is_told_by_the_lock_and_not_by_the_number) {
    const area::ProcessIdentity self = identify_this_process().value();
    area::ProcessIdentity other = self;
    ++other.start_ticks;
    EXPECT_EQ(life_in(*directory_), Life::kUntold);
    EXPECT_TRUE(owner_is_alive(self, *directory_)) << "without a lock, what is seen counts";
    EXPECT_FALSE(owner_is_alive(other, path_));
    {
        const auto lock = directory_->hold(std::string(kAliveFile));
        ASSERT_TRUE(lock);
        EXPECT_EQ(life_at(path_), Life::kLives);
        EXPECT_TRUE(owner_is_alive(other, *directory_)) << "in another PID namespace";
    }
    EXPECT_EQ(life_in(*directory_), Life::kEnded);
    EXPECT_FALSE(owner_is_alive(self, *directory_)) << "as after exec";
    EXPECT_FALSE(owner_is_alive(self, path_));
    EXPECT_EQ(life_at(path_ + "/gone"), Life::kEnded);
}

// What a child of this process says of itself.
template <class Says>
bool child_says(const Says& says) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(says() ? 0 : 1);
    int status = 1;
    return child > 0 && ::waitpid(child, &status, 0) == child && status == 0;
}

TEST(ParentOfWorker, a_forked_child_works_for_a_parent_that_shows_itself) {
    EXPECT_FALSE(parent_of_worker()) << "this program was executed";
    const auto parent = static_cast<std::uint64_t>(::getpid());
    EXPECT_TRUE(child_says([] { return !parent_of_worker(); })) << "it would not clean up";
    show_as_parent();
    show_as_parent();
    EXPECT_TRUE(child_says([&] {
        const auto found = parent_of_worker();
        return found && found->pid == parent && is_seen_running(*found) && !is_this_process(*found);
    }));
    EXPECT_FALSE(parent_of_worker());
    EXPECT_TRUE(child_says([] { return child_says([] { return !parent_of_worker(); }); }))
        << "what a child shows is its own";
}

TEST(ParentOfWorker, this_process_is_told_by_its_start) {
    ProcessIdentity process = identify_this_process().value();
    EXPECT_TRUE(is_this_process(process));
    ++process.start_ticks;
    EXPECT_FALSE(is_this_process(process));
}

TEST(ProcessName, is_read_as_it_was_written_and_no_other) {
    const ProcessIdentity self = identify_this_process().value();
    const auto named = process_of_name(process_name(self));
    ASSERT_TRUE(named);
    EXPECT_EQ(named->pid, self.pid);
    EXPECT_TRUE(is_seen_running(*named));
    for (const char* name : {"", "1", "1-", "-1", "1-2-", "1-2-3", "x-2", "1-99999999999999999999"})
        EXPECT_FALSE(process_of_name(name)) << name;
}

TEST(OwnerOfDirectory, is_read_from_its_name_and_from_no_other) {
    const auto self = identify_this_process().value();
    const auto owner = owner_of_directory(std::to_string(self.pid) + "-" + std::to_string(self.start_ticks) + "-0");
    ASSERT_TRUE(owner);
    EXPECT_EQ(*owner, self);
    EXPECT_TRUE(is_seen_running(*owner));
    for (const char* const name :
         {"", "1", "1-2", "1-2-", "-1-2", "1-2-3-4", "1-2-3x", "a-2-3", "1--3", " 1-2-3", "1-2-99999999999999999999"})
        EXPECT_FALSE(owner_of_directory(name)) << name;
}

}   // namespace
}   // namespace forebay::area
