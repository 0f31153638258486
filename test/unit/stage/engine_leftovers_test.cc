// What the engine does with logs of dead processes when a file is opened.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "area/process.h"
#include "area/staging_area.h"
#include "io/posix_file.h"
#include "ledger/ledger.h"
#include "ledger/ledger_writer.h"
#include "recover/file_lock.h"
#include "recover/recovery.h"
#include "support/engine_fixture.h"
#include "support/jumping_clock.h"
#include "support/leftover.h"
#include "support/real_files.h"
#include "undo/undo_journal.h"

namespace forebay {
namespace {

using stage::Engine;
using test::RealFiles;

// A target, and the log of a process that has died with a commit of it.
class Leftovers : public RealFiles {
  protected:
    void SetUp() override {
        RealFiles::SetUp();
        target_ = (root_ / "target.h5").string();
        std::ofstream(target_) << "old";
        area_path_ = root_ / "nls" / area::staging_folder();
        std::filesystem::create_directory(area_path_);
        std::filesystem::permissions(area_path_, std::filesystem::perms::owner_all);
        area_ = std::move(io::open_posix_directory(area_path_.string())).value();
    }
    // No process has this number and started when the machine did.
    void leave(const std::vector<std::byte>& content, std::uint64_t pid = 1) {
        const io::Identity identity = io::identify(target_).value();
        test::LeftBehind dead(*area_, pid, area::identify_this_process().value().boot_id);
        auto& log = dead.open(identity, target_, 3);
        dead.write(log, 0, content);
        dead.commit(log, content.size());
    }
    // Of a run whose undo journals have gone: the file has everything.
    void leave_complete(std::uint64_t pid) {
        test::LeftBehind dead(*area_, pid, area::identify_this_process().value().boot_id);
        dead.write(dead.open(io::identify(target_).value(), target_, 3, {log::Sharing::Kind::kConsistentNodes, 77}), 0,
                   test::bytes_of(100, 7));
    }
    std::vector<std::byte> content() const {
        auto file = std::move(io::open_existing_file(target_)).value().file;
        std::vector<std::byte> bytes(file->size().value());
        EXPECT_TRUE(file->read_at(0, bytes));
        return bytes;
    }

    std::string target_;
    std::filesystem::path area_path_;
    std::unique_ptr<io::Directory> area_;
};

TEST_F(Leftovers, are_brought_home_before_the_file_is_opened_and_told_of_once) {
    leave(test::bytes_of(1000, 1));
    auto engine = Engine::create(loaded_);
    for (const bool writable : {false, true}) {
        const auto told = engine->recover_before_open(target_, writable);
        ASSERT_TRUE(told) << told.status().message();
        EXPECT_EQ(told.value().empty(), writable) << told.value();
        EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
    }
    EXPECT_TRUE(left_in_area().empty());
}

// As a dead process's lock on a network file system, or that of a program that looks at the file.
TEST_F(Leftovers, are_brought_home_by_the_command_too_although_the_target_is_locked_for_a_moment) {
    leave(test::bytes_of(1000, 1));
    const int looks = ::open(target_.c_str(), O_RDONLY | O_CLOEXEC), opens = ::inotify_init1(IN_CLOEXEC);
    ASSERT_EQ(::flock(looks, LOCK_EX | LOCK_NB), 0);
    ASSERT_GE(::inotify_add_watch(opens, target_.c_str(), IN_OPEN), 0);
    std::jthread unlocks([&] {
        std::array<char, 4096> told;
        EXPECT_GT(::read(opens, told.data(), told.size()), 0);
        EXPECT_EQ(::close(looks), 0);
    });
    std::array<io::Directory*, 1> areas{area_.get()};
    const auto report = recover::recover(areas, {}, recover::Outside::real(recover::kOthersLook).value());
    ASSERT_TRUE(report) << report.status().message();
    ASSERT_EQ(report.value().files.size(), 1u);
    EXPECT_EQ(report.value().files.front().outcome, recover::Outcome::kRecovered)
        << report.value().files.front().status.message();
    unlocks.join();
    ::close(opens);
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
}

TEST_F(Leftovers, are_not_removed_unread_because_a_ledger_knows_of_no_open_file) {
    leave(test::bytes_of(1000, 1));
    const std::vector<std::string> names = left_in_area();
    ASSERT_EQ(names.size(), 1u);
    // As after a loss of power: the log was synced, the ledger is older.
    const auto directory = std::move(area_->open_directory("1-5-0")).value();
    ASSERT_TRUE(directory->remove_file("ledger"));
    ledger::LedgerWriter older;
    ASSERT_TRUE(older.publish(std::move(directory->open_file("ledger", io::OpenMode::kCreateNew)).value(),
                              area::owner_of_directory("1-5-0").value(), 1 << 20, test::kLeftoverSegment));
    ledger::remove_leftovers(*area_);
    EXPECT_EQ(left_in_area(), names);
    auto engine = Engine::create(loaded_);
    ASSERT_TRUE(engine->recover_before_open(target_, true));
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
    EXPECT_TRUE(left_in_area().empty());
}

TEST_F(Leftovers, in_a_folder_that_others_can_write_to_are_neither_believed_nor_passed_over) {
    leave(test::bytes_of(1000, 1));
    std::filesystem::permissions(area_path_, std::filesystem::perms::all);
    auto engine = Engine::create(loaded_);
    for (const bool writable : {true, false}) {
        const auto told = engine->recover_before_open(target_, writable);
        EXPECT_EQ(told.status().code(), Code::kUnavailable);
        EXPECT_THAT(told.status().message(), testing::HasSubstr("others may write to it"));
        EXPECT_THAT(told.status().message(), testing::HasSubstr((area_path_ / "1-5-0").string()));
    }
    EXPECT_EQ(engine->leftovers().admit_emptying(target_).code(), Code::kUnavailable);
    EXPECT_EQ(content().size(), 3u);
}

// While somebody waits for its lock.
TEST_F(Leftovers, of_a_process_that_dies_meanwhile_are_found_when_the_file_is_open_and_locked) {
    leave(test::bytes_of(1000, 1));
    auto life = std::move(area_->open_directory("1-5-0")).value()->hold(std::string(area::kAliveFile));
    ASSERT_TRUE(life);
    auto engine = Engine::create(loaded_);
    EXPECT_EQ(engine->recover_before_open(target_, true).value(), "");
    const auto descriptor = std::make_shared<io::Descriptor>(::open(target_.c_str(), O_RDWR | O_CLOEXEC), target_,
                                                             O_RDWR);
    ASSERT_TRUE(descriptor->lock(LOCK_EX | LOCK_NB));
    // The ledger has the file open, and nobody sees the process: as if it were about to end, or in another container.
    const stage::Leftovers::OpenedFile opened{io::identify(target_).value(), target_, true, true, descriptor};
    std::jthread ends([&] { life.value().reset(); });
    const auto told = engine->leftovers().recover_opened(opened);
    ASSERT_TRUE(told) << told.status().message();
    EXPECT_THAT(told.value(), testing::HasSubstr("it is at its last flush now"));
    std::vector<std::byte> bytes(1000);
    EXPECT_EQ(::pread(descriptor->number(), bytes.data(), bytes.size(), 0), 1000);
    EXPECT_TRUE(test::same(bytes, test::bytes_of(1000, 1))) << "through the descriptor that has the lock";
}

TEST_F(Leftovers, are_brought_home_though_the_reader_has_the_file_locked) {
    leave(test::bytes_of(1000, 1));
    auto engine = Engine::create(loaded_);
    const int descriptor = ::open(target_.c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(::flock(descriptor, LOCK_SH | LOCK_NB), 0);
    int gave_way = 0;
    stage::Leftovers::OpenedFile opened{io::identify(target_).value(), target_, false, true, nullptr, [&] {
                                            gave_way += ::flock(descriptor, LOCK_UN) == 0 ? 1 : 0;
                                        }};
    ASSERT_TRUE(engine->leftovers().recover_opened(opened));
    EXPECT_EQ(gave_way, 1);
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
    ASSERT_TRUE(engine->leftovers().recover_opened(opened));
    EXPECT_EQ(gave_way, 1) << "with nothing left nobody gives way";
    // Somebody who has it locked all the time is told of.
    leave(test::bytes_of(1000, 2), 2);
    ASSERT_EQ(::flock(descriptor, LOCK_SH | LOCK_NB), 0);
    opened.give_way = nullptr;
    const auto in_use = engine->leftovers().recover_opened(opened);
    EXPECT_TRUE(in_use.status().retryable()) << in_use.status().message();
    ::close(descriptor);
}

TEST_F(Leftovers, of_an_image_of_this_process_that_exec_has_replaced_are_those_of_a_dead_one) {
    const area::ProcessIdentity self = area::identify_this_process().value();
    leave(test::bytes_of(1000, 1), self.pid);
    // As the image before had named it.
    const std::string name = fmt::format("{}-{}-0", self.pid, self.start_ticks & ((std::uint64_t{1} << 40) - 1));
    std::filesystem::rename(area_path_ / fmt::format("{}-5-0", self.pid), area_path_ / name);
    ASSERT_TRUE(
        std::move(area_->open_directory(name)).value()->hold(std::string(area::kAliveFile)));   // until it was replaced
    auto engine = Engine::create(loaded_);
    ASSERT_TRUE(engine->recover_before_open(target_, true));
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
    EXPECT_TRUE(left_in_area().empty());
}

TEST_F(Leftovers, that_are_pipes_are_not_waited_for) {
    std::filesystem::create_directory(area_path_ / "1-5-0");
    std::filesystem::permissions(area_path_ / "1-5-0", std::filesystem::perms::owner_all);
    for (const char* name : {"log", "undo-1", "ledger"})
        ASSERT_EQ(::mkfifo((area_path_ / "1-5-0" / name).c_str(), 0600), 0);
    auto engine = Engine::create(loaded_);
    const auto told = engine->recover_before_open(target_, true);
    ASSERT_TRUE(told) << told.status().message();
    EXPECT_EQ(told.value(), "");
    ledger::remove_leftovers(*area_);
}

TEST_F(Leftovers, of_other_files_are_left_alone) {
    leave(test::bytes_of(1000, 1));
    std::ofstream(root_ / "other.h5") << "other";
    auto engine = Engine::create(loaded_);
    EXPECT_EQ(engine->recover_before_open((root_ / "other.h5").string(), true).value(), "");
    EXPECT_EQ(engine->recover_before_open((root_ / "missing.h5").string(), true).value(), "");
    EXPECT_EQ(left_in_area().size(), 1u);
}

// Another process recovers a file, and hangs in it.
class Recovering {
  public:
    Recovering(const std::string& area, const io::Identity& identity) {
        int ready[2];
        EXPECT_EQ(::pipe(ready), 0);
        pid_ = ::fork();
        if (pid_ == 0) {
            const auto directory = io::open_posix_directory(area);
            io::Directory* const areas[] = {directory ? directory.value().get() : nullptr};
            const auto lock = directory ? recover::FileLock::take(areas, identity, io::Directory::Patience::kTry)
                                        : Result<recover::FileLock>(directory.status());
            if (!lock || ::write(ready[1], "x", 1) != 1) ::_exit(1);
            for (;;) ::pause();
        }
        ::close(ready[1]);
        char byte = 0;
        EXPECT_EQ(::read(ready[0], &byte, 1), 1);
        ::close(ready[0]);
    }
    void end() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = 0;
    }
    ~Recovering() { end(); }
    [[nodiscard]] std::string number() const { return std::to_string(pid_); }

  private:
    pid_t pid_ = 0;
};

TEST_F(Leftovers, that_another_process_is_stuck_in_are_waited_for_no_longer_than_patience_says) {
    leave(test::bytes_of(1000, 1));
    Recovering other(area_path_.string(), io::identify(target_).value());
    const auto clock = std::make_shared<test::JumpingClock>();
    auto engine = Engine::create(loaded_, clock);
    const auto refused = engine->recover_before_open(target_, true);
    EXPECT_THAT(refused.status().message(), testing::HasSubstr("process " + other.number() + " is recovering it"));
    const auto warned = engine->recover_before_open(target_, false);
    ASSERT_TRUE(warned) << warned.status().message();
    EXPECT_THAT(warned.value(), testing::HasSubstr("process " + other.number() + " is recovering it"));
    EXPECT_GE(clock->passed(), std::chrono::seconds(loaded_.options.patience)) << "it may have come to an end";
    EXPECT_TRUE(test::same(content(), {std::byte{'o'}, std::byte{'l'}, std::byte{'d'}}));
    // Emptying the file would make a log void that the other one is writing home.
    EXPECT_FALSE(engine->leftovers().forget_before(io::identify(target_).value(), target_));

    other.end();
    const auto told = engine->recover_before_open(target_, true);
    ASSERT_TRUE(told) << told.status().message();
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
    EXPECT_TRUE(left_in_area().empty());
}

TEST_F(Leftovers, are_brought_home_when_the_process_that_was_at_it_dies) {
    leave(test::bytes_of(1000, 1));
    Recovering other(area_path_.string(), io::identify(target_).value());
    auto engine = Engine::create(loaded_);   // patience: ten minutes
    std::jthread ends([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        other.end();
    });
    const auto told = engine->recover_before_open(target_, true);
    ASSERT_TRUE(told) << told.status().message();
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
}

TEST_F(Leftovers, of_one_file_wait_for_nobody_who_is_stuck_in_another) {
    leave(test::bytes_of(1000, 1));
    Recovering other(area_path_.string(), {7, 7});
    loaded_.options.patience = 0;   // to the end of days
    auto engine = Engine::create(loaded_);
    const auto told = engine->recover_before_open(target_, true);
    ASSERT_TRUE(told) << told.status().message();
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
}

TEST_F(Leftovers, of_a_file_of_this_name_that_is_another_one_are_never_passed_over_in_silence) {
    // Its file system was mounted again: the same inode, another device.
    const auto mounted_elsewhere = [&](const std::string& path) {
        io::Identity identity = io::identify(target_).value();
        ++identity.device;
        test::LeftBehind dead(*area_, 1, area::identify_this_process().value().boot_id);
        auto& log = dead.open(identity, path, 3);
        dead.write(log, 0, test::bytes_of(1000, 1));
        dead.commit(log, 1000);
    };
    mounted_elsewhere("/another/mount/target.h5");
    loaded_.options.stats = (root_ / "statistics").string();
    {
        auto engine = Engine::create(loaded_);
        for (const bool writable : {true, false}) {
            const auto told = engine->recover_before_open(target_, writable);
            ASSERT_TRUE(told) << told.status().message();
            EXPECT_THAT(told.value(), testing::HasSubstr("--accept-moved " + target_));
        }
        EXPECT_EQ(engine->recover_before_open((root_ / "none.h5").string(), true).value(), "");
    }
    std::ifstream statistics(loaded_.options.stats);
    EXPECT_THAT(std::string(std::istreambuf_iterator<char>(statistics), {}), testing::HasSubstr("\"stranded\":2"));
    loaded_.options.stats.clear();
    loaded_.options.strict = true;
    auto strict = Engine::create(loaded_);
    for (const bool writable : {true, false})
        EXPECT_THAT(strict->recover_before_open(target_, writable).status().message(),
                    testing::HasSubstr("another identity"));
    EXPECT_FALSE(left_in_area().empty());
}

TEST_F(Leftovers, stay_with_stage_off) {
    leave(test::bytes_of(1000, 1));
    LoadedOptions off = loaded_;
    off.options.stage = false;
    auto engine = Engine::create(off);
    EXPECT_EQ(engine->recover_before_open(target_, true).value(), "");
    EXPECT_TRUE(engine->leftovers().forget_before(io::identify(target_).value(), target_));
    EXPECT_EQ(left_in_area().size(), 1u);
    EXPECT_EQ(engine->leftovers().listings(), 0u);
}

TEST_F(Leftovers, that_cannot_be_used_keep_the_file_from_being_written) {
    leave(test::bytes_of(1000, 1), 1);
    leave(test::bytes_of(1000, 2), 2);   // which one is right nobody knows
    auto engine = Engine::create(loaded_);
    const auto refused = engine->recover_before_open(target_, true);
    EXPECT_THAT(refused.status().message(), testing::HasSubstr("cannot be recovered"));
    EXPECT_THAT(refused.status().message(), testing::HasSubstr("forebay discard"));
    const auto warned = engine->recover_before_open(target_, false);
    ASSERT_TRUE(warned);
    EXPECT_THAT(warned.value(), testing::HasSubstr("cannot be recovered"));
    EXPECT_EQ(left_in_area().size(), 2u);
}

TEST_F(Leftovers, of_which_one_waits_for_other_nodes_keep_the_file_from_being_written_though_another_is_done) {
    leave_complete(1);
    {
        const io::Identity identity = io::identify(target_).value();
        const auto directory = std::move(area_->create_directory("2-5-0")).value();
        auto file = std::move(directory->open_file(undo::undo_name(1), io::OpenMode::kCreateNew)).value();
        const undo::UndoHeader header{
            0xabc,          0,      2, {2, 5, area::identify_this_process().value().boot_id}, identity.device,
            identity.inode, target_};
        ASSERT_TRUE(undo::UndoJournal::create(std::move(file), header, 3, 1 << 20));
    }
    auto engine = Engine::create(loaded_);
    const auto refused = engine->recover_before_open(target_, true);
    EXPECT_THAT(refused.status().message(), testing::HasSubstr("1 have not been recovered yet"));
    EXPECT_EQ(left_in_area().size(), 1u);
}

TEST_F(Leftovers, of_which_one_was_never_flushed_are_told_of_though_another_is_done) {
    leave_complete(1);
    const io::Identity identity = io::identify(target_).value();
    {
        test::LeftBehind dead(*area_, 2, area::identify_this_process().value().boot_id);
        dead.write(dead.open(identity, target_, 3), 0, test::bytes_of(1000, 1));
    }
    const timespec long_ago[2] = {{0, UTIME_OMIT}, {0, 1}};
    ASSERT_EQ(::utimensat(AT_FDCWD, target_.c_str(), long_ago, 0),
              0);   // records without a commit tell of no later time
    auto engine = Engine::create(loaded_);
    const auto told = engine->recover_before_open(target_, true);
    ASSERT_TRUE(told) << told.status().message();
    EXPECT_THAT(told.value(), testing::HasSubstr("never flushed"));
    EXPECT_EQ(content().size(), 3u);
    EXPECT_TRUE(left_in_area().empty());
}

TEST_F(Leftovers, of_a_file_that_was_emptied_are_void) {
    leave(test::bytes_of(1000, 1), 1);
    leave(test::bytes_of(1000, 2), 2);
    auto engine = Engine::create(loaded_);
    ASSERT_TRUE(engine->leftovers().forget_before(io::identify(target_).value(), target_));
    EXPECT_TRUE(left_in_area().empty());
    EXPECT_EQ(content().size(), 3u);
}

TEST_F(Leftovers, are_not_looked_for_again_while_nobody_comes_or_goes) {
    // Changed long ago, as far as anybody can tell.
    const timespec long_ago[2] = {{1000, 0}, {1000, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, area_path_.c_str(), long_ago, 0), 0);
    auto engine = Engine::create(loaded_);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(engine->recover_before_open(target_, true).value(), "");
    EXPECT_EQ(engine->leftovers().listings(), 1u);
    leave(test::bytes_of(1000, 1));
    EXPECT_NE(engine->recover_before_open(target_, true).value(), "");
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
}

}   // namespace
}   // namespace forebay
