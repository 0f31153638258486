// Many dead processes' directories are read once on a node, and from one file after that. No look misses a file.
#include "recover/known_dead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "io/fault_file.h"
#include "io/memory_file.h"
#include "recover/leftovers.h"
#include "support/leftover.h"

namespace forebay::recover {
namespace {

class KnownDeadTest : public testing::Test {
  protected:
    static constexpr std::uint64_t kDead = 20;
    // Far fewer than a call for each directory would be.
    static constexpr std::uint64_t kCallsMax = 12;

    void SetUp() override { (void)root_->create_directory("area"); }
    [[nodiscard]] std::unique_ptr<io::Directory> area() const {
        return std::move(root_->open_directory("area")).value();
    }
    static io::Identity file(std::uint64_t pid) { return {7, pid}; }
    static std::string path(std::uint64_t pid) { return "/scratch/" + std::to_string(pid) + ".h5"; }
    static std::string name(std::uint64_t pid) { return std::to_string(pid) + "-5-0"; }
    static const area::BootId& boot() {
        static const area::BootId id = area::identify_this_process().value().boot_id;
        return id;
    }
    // The process's directory names one file. With `locked` it has the lock of a process that has ended.
    void leave(std::uint64_t pid, bool locked = true) const {
        const auto area = this->area();
        test::LeftBehind dead(*area, pid, boot());
        auto& log = dead.open(file(pid), path(pid), 0, {}, {pid, 0});
        dead.write(log, 0, test::bytes_of(100, pid));
        if (locked) {
            ASSERT_TRUE(area->open_directory(dead.name).value()->hold(std::string(area::kAliveFile)));
        }
    }
    void leave_all() const {
        for (std::uint64_t pid = 1; pid <= kDead; ++pid) leave(pid);
    }
    // As another process of the node would look.
    [[nodiscard]] Leftovers look(const std::shared_ptr<io::FaultPlan>& faults = nullptr) const {
        return {[this, faults]() -> Result<std::unique_ptr<io::Directory>> {
                    return faults ? io::make_fault_directory(area(), faults) : area();
                },
                [] { return std::vector<std::unique_ptr<io::Directory>>(); }, io::Directory::Patience::kTry};
    }
    static void expect_all(Leftovers&& looks) {
        for (std::uint64_t pid = 1; pid <= kDead; ++pid)
            EXPECT_TRUE(looks.concern(file(pid), ::geteuid(), {pid, 0}).value()) << pid;
        EXPECT_FALSE(looks.concern(file(kDead + 1), ::geteuid()).value());
    }
    [[nodiscard]] bool is_looked_for_within(std::uint64_t calls, const io::Identity& identity) const {
        const auto faults = std::make_shared<io::FaultPlan>();
        faults->fail_any(calls + 1, 1, EIO);
        (void)look(faults).concern(identity, ::geteuid());
        return faults->fired() == 0;
    }

    std::unique_ptr<io::Directory> root_ = io::make_memory_directory("/nls");
};

TEST_F(KnownDeadTest, many_directories_are_read_once_on_a_node) {
    leave_all();
    EXPECT_FALSE(is_looked_for_within(5 * kDead, file(99))) << "the calls are counted";
    expect_all(look());
    EXPECT_EQ(read_known_dead(*area(), boot()).directories.size(), kDead);
    EXPECT_TRUE(is_looked_for_within(kCallsMax, file(99)));
    expect_all(look());
    leave(kDead + 1);
    EXPECT_TRUE(look().concern(file(kDead + 1), ::geteuid()).value()) << "it is new";
}

TEST_F(KnownDeadTest, few_directories_leave_no_file) {
    for (std::uint64_t pid = 1; pid <= 3; ++pid) leave(pid);
    EXPECT_TRUE(look().concern(file(3), ::geteuid()).value());
    EXPECT_EQ(area()->list().value().size(), 3u);
}

TEST_F(KnownDeadTest, directories_come_in_small_numbers_and_are_noted_all_the_same) {
    for (std::uint64_t pid = 1; pid <= kDead; ++pid) {
        leave(pid);
        EXPECT_TRUE(look().concern(file(pid), ::geteuid()).value()) << pid;
    }
    EXPECT_GE(read_known_dead(*area(), boot()).directories.size(), kDead - 3);
    expect_all(look());
}

TEST_F(KnownDeadTest, an_entry_keeps_the_path_and_the_birth) {
    leave_all();
    (void)look().concern(file(1), ::geteuid());
    auto later = look();
    EXPECT_FALSE(later.concern(file(3), ::geteuid(), {1000, 0}).value()) << "another file of this number";
    EXPECT_TRUE(later.concern(file(3), ::geteuid(), {3, 0}).value());
    EXPECT_EQ(later.stranded({7, 1000}, path(3), {}), "/nls/area/" + name(3));
    EXPECT_EQ(later.stranded({7, 1000}, "/scratch/else.h5", {}), "");
}

TEST_F(KnownDeadTest, a_file_that_was_recovered_meanwhile_is_no_concern) {
    leave_all();
    (void)look().concern(file(1), ::geteuid());
    ASSERT_TRUE(area()->open_directory(name(3)).value()->remove_file("log"));
    auto later = look();
    EXPECT_FALSE(later.concern(file(3), ::geteuid(), {3, 0}).value());
    EXPECT_EQ(look().stranded({7, 1000}, path(3), {}), "");
    EXPECT_TRUE(later.concern(file(4), ::geteuid(), {4, 0}).value());
}

TEST_F(KnownDeadTest, a_directory_that_became_unreadable_is_refused_and_not_passed_over) {
    leave_all();
    (void)look().concern(file(1), ::geteuid());
    const auto log = area()->open_directory(name(3)).value()->open_file("log", io::OpenMode::kReadWrite);
    ASSERT_TRUE(log.value()->write_at(0, std::vector<std::byte>(log::kSegmentHeaderBytes, std::byte{0xFF})));
    auto later = look();
    EXPECT_TRUE(later.concern(file(3), ::geteuid(), {3, 0}).value()) << "its ledger names it";
    EXPECT_NE(later.unread(file(3), ::geteuid(), {3, 0}), nullptr);
}

TEST_F(KnownDeadTest, damage_anywhere_in_the_file_hides_no_leftover) {
    leave_all();
    (void)look().concern(file(1), ::geteuid());
    const auto known = area()->open_file(kKnownDeadFile, io::OpenMode::kReadWrite).value();
    std::vector<std::byte> whole(known->size().value());
    ASSERT_EQ(known->read_at(0, whole).value(), whole.size());
    for (std::size_t at = 0; at < whole.size(); at += 37) {
        auto damaged = whole;
        damaged[at] ^= std::byte{0x41};
        ASSERT_TRUE(known->write_at(0, damaged));
        EXPECT_LT(read_known_dead(*area(), boot()).directories.size(), kDead) << at;
        expect_all(look());
        ASSERT_TRUE(known->resize(0));
        ASSERT_TRUE(known->write_at(0, std::span(whole).first(at)));   // as if the rest had never been written
        expect_all(look());
        ASSERT_TRUE(known->resize(0));
    }
}

TEST_F(KnownDeadTest, what_another_boot_has_noted_does_not_count) {
    leave_all();
    const ProcessDirectory::Files none;
    area::BootId other = boot();
    other[0] ^= std::byte{1};
    std::map<std::string, const ProcessDirectory::Files*> entries;
    for (std::uint64_t pid = 1; pid <= kDead; ++pid) entries.emplace(name(pid), &none);
    write_known_dead(*area(), other, 0, entries);
    EXPECT_EQ(read_known_dead(*area(), boot()).entries, kDead);
    expect_all(look());
    EXPECT_EQ(read_known_dead(*area(), boot()).directories.size(), kDead);
}

TEST_F(KnownDeadTest, writers_that_overwrite_each_other_lose_entries_only) {
    const ProcessDirectory::Files one{{file(1), {path(1), {}}}}, two{{file(2), {std::string(100, 'x'), {}}}};
    write_known_dead(*area(), boot(), 0, {{name(1), &one}, {name(2), &two}});
    write_known_dead(*area(), boot(), 0, {{name(3), &two}});
    const auto known = read_known_dead(*area(), boot());
    EXPECT_EQ(known.directories.size(), 1u);
    EXPECT_EQ(known.directories.at(name(3)).begin()->second.path, std::string(100, 'x'));
    write_known_dead(*area(), boot(), known.end, {{name(1), &one}});
    EXPECT_EQ(read_known_dead(*area(), boot()).directories.size(), 2u);
}

TEST_F(KnownDeadTest, only_a_process_that_the_lock_shows_dead_is_noted) {
    leave_all();
    leave(kDead + 1, false);
    const auto life = area()->open_directory(name(1)).value()->hold(std::string(area::kAliveFile));
    ASSERT_TRUE(life);
    (void)look().concern(file(1), ::geteuid());
    const auto known = read_known_dead(*area(), boot()).directories;
    EXPECT_EQ(known.size(), kDead - 1);
    EXPECT_FALSE(known.contains(name(1)));
    EXPECT_FALSE(known.contains(name(kDead + 1)));
}

TEST_F(KnownDeadTest, a_directory_that_cannot_be_read_whole_is_not_noted) {
    leave_all();
    const auto log = area()->open_directory(name(3)).value()->open_file("log", io::OpenMode::kReadWrite);
    ASSERT_TRUE(log.value()->write_at(0, std::vector<std::byte>(log::kSegmentHeaderBytes, std::byte{0xFF})));
    (void)look().concern(file(1), ::geteuid());
    EXPECT_FALSE(read_known_dead(*area(), boot()).directories.contains(name(3)));
    EXPECT_NE(look().unread(file(3), ::geteuid()), nullptr);
}

TEST_F(KnownDeadTest, the_file_does_not_grow_with_removed_directories) {
    std::uint64_t entries_max = 0;
    for (std::uint64_t round = 0; round < 40; ++round) {
        for (std::uint64_t pid = 1; pid <= 5; ++pid) leave(10 * round + pid);
        (void)look().concern(file(1), ::geteuid());
        entries_max = std::max(entries_max, read_known_dead(*area(), boot()).entries);
        for (std::uint64_t pid = 1; pid <= 5; ++pid) {
            const auto directory = area()->open_directory(name(10 * round + pid)).value();
            const auto files = directory->list();
            for (const auto& file : files.value()) ASSERT_TRUE(directory->remove_file(file));
            ASSERT_TRUE(area()->remove_directory(name(10 * round + pid)));
        }
    }
    EXPECT_GT(entries_max, 50u);
    EXPECT_LT(entries_max, 100u);
}

TEST_F(KnownDeadTest, the_nth_call_fails_and_no_leftover_is_missed) {
    leave_all();
    for (std::uint64_t nth = 1;; ++nth) {
        (void)area()->remove_file(kKnownDeadFile);
        const auto faults = std::make_shared<io::FaultPlan>();
        faults->fail_any(nth, 1, EIO, nth % 100);
        (void)look(faults).concern(file(1), ::geteuid());
        const bool fired = faults->fired() > 0;
        ASSERT_NO_FATAL_FAILURE(expect_all(look())) << nth;
        if (!fired) break;
    }
}

}   // namespace
}   // namespace forebay::recover
