#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "io/posix_file.h"
#include "log/ledger.h"
#include "log/ledger_writer.h"
#include "log/process.h"
#include "log/staging_area.h"
#include "log/undo_journal.h"
#include "recover/file_lock.h"
#include "support/engine_fixture.h"
#include "support/leftover.h"

namespace forebay {
namespace {

using stage::ByteClass;
using stage::Engine;
using test::Area;
using test::Target;

class RealFiles : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (std::filesystem::temp_directory_path() / "forebay-engine-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        std::filesystem::create_directory(root_ / "nls");
        loaded_ = test::small_options();
        loaded_.options.nls = (root_ / "nls").string();
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    int open_target() const {
        return ::open((root_ / "target.h5").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    }
    std::vector<std::string> left_in_area() const {
        std::vector<std::string> names;
        for (const auto& folder : std::filesystem::directory_iterator(root_ / "nls"))
            for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path());
        return names;
    }

    std::filesystem::path root_;
    LoadedOptions loaded_;
};

TEST_F(RealFiles, staging_leaves_the_right_bytes_in_the_target_and_nothing_in_the_area) {
    auto engine = Engine::create(loaded_);
    const int descriptor = open_target();
    auto attached = engine->attach({root_ / "target.h5", descriptor, true});
    ASSERT_TRUE(attached) << attached.status().message();
    EXPECT_EQ(attached.value().warning, "");
    const auto bytes = test::bytes_of(300000, 1);
    ASSERT_TRUE(attached.value().file->write(10, bytes, ByteClass::kRaw));
    EXPECT_EQ(attached.value().file->counters().staged, 300000u);
    EXPECT_EQ(left_in_area().size(), 1u);
    ASSERT_TRUE(engine->detach(attached.value().file, true));
    ::close(descriptor);
    attached.value().file.reset();
    engine.reset();
    EXPECT_THAT(left_in_area(), testing::IsEmpty());
    EXPECT_EQ(std::filesystem::file_size(root_ / "target.h5"), 300010u);
}

TEST_F(RealFiles, an_unusable_staging_area_is_said_once_and_the_program_runs_on) {
    loaded_.options.nls = (root_ / "missing").string();
    auto engine = Engine::create(loaded_);
    const int descriptor = open_target();
    auto first = engine->attach({root_ / "target.h5", descriptor, true});
    ASSERT_TRUE(first);
    EXPECT_THAT(first.value().warning, testing::HasSubstr("nls"));
    ASSERT_TRUE(first.value().file->write(0, test::bytes_of(100, 1), ByteClass::kRaw));
    EXPECT_EQ(first.value().file->counters().through, 100u);
    EXPECT_EQ(first.value().file->counters().staged, 0u);
    ASSERT_TRUE(engine->detach(first.value().file, true));
    auto second = engine->attach({root_ / "target.h5", descriptor, true});
    ASSERT_TRUE(second);
    EXPECT_EQ(second.value().warning, "");
    ASSERT_TRUE(engine->detach(second.value().file, true));
    ::close(descriptor);
}

TEST_F(RealFiles, an_unusable_staging_area_fails_the_open_when_strict) {
    loaded_.options.nls = (root_ / "missing").string();
    loaded_.options.strict = true;
    auto engine = Engine::create(loaded_);
    const int descriptor = open_target();
    auto attached = engine->attach({root_ / "target.h5", descriptor, true});
    ASSERT_FALSE(attached);
    EXPECT_THAT(attached.status().message(), testing::HasSubstr("missing"));
    ::close(descriptor);
}

TEST_F(RealFiles, strict_refuses_before_anything_is_created) {
    loaded_.options.nls = (root_ / "missing").string();
    loaded_.options.strict = true;
    EXPECT_FALSE(Engine::create(loaded_)->admit());
    loaded_.options.strict = false;
    EXPECT_TRUE(Engine::create(loaded_)->admit());
}

TEST_F(RealFiles, what_a_dead_process_left_without_an_open_file_is_removed_by_the_next) {
    for (const bool open_at_death : {false, true}) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            auto engine = Engine::create(loaded_);
            const int descriptor = open_target();
            auto file = engine->attach({root_ / "target.h5", descriptor, true}).value().file;
            if (!file->write(0, test::bytes_of(100, 1), ByteClass::kMetadata)) ::_exit(1);
            if (!open_at_death && !engine->detach(file, true)) ::_exit(2);
            ::_exit(0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_EQ(status, 0);
        ASSERT_EQ(left_in_area().size(), 1u);
        auto engine = Engine::create(loaded_);
        const int descriptor = open_target();
        auto file = engine->attach({root_ / "target.h5", descriptor, true}).value().file;
        EXPECT_EQ(left_in_area().size(), open_at_death ? 2u : 1u) << "a log that may hold something stays";
        ASSERT_TRUE(engine->detach(file, true));
        file.reset();
        ::close(descriptor);
    }
}

TEST_F(RealFiles, statistics_say_what_was_staged) {
    loaded_.options.stats = (root_ / "stats").string();
    auto engine = Engine::create(loaded_);
    const int descriptor = open_target();
    auto attached = engine->attach({root_ / "target.h5", descriptor, true});
    ASSERT_TRUE(attached.value().file->write(0, test::bytes_of(100, 1), ByteClass::kRaw));
    ASSERT_TRUE(engine->detach(attached.value().file, true));
    ::close(descriptor);
    engine.reset();
    std::ifstream stats(root_ / "stats");
    std::string file_line, process_line;
    ASSERT_TRUE(std::getline(stats, file_line) && std::getline(stats, process_line));
    EXPECT_THAT(file_line, testing::HasSubstr(R"("staged":100)"));
    EXPECT_THAT(process_line, testing::HasSubstr(R"("files_staged":1)"));
}

// What a forked child sees and may do, reported through its exit status.
TEST_F(RealFiles, a_forked_child_reads_staged_bytes_but_neither_writes_nor_drains_them) {
    auto engine = Engine::create(loaded_);
    const int descriptor = open_target();
    auto file = engine->attach({root_ / "target.h5", descriptor, true}).value().file;
    const auto bytes = test::bytes_of(5000, 1);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kMetadata));
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        int wrong = 0;
        std::vector<std::byte> got(5000);
        if (!file->read(0, got) || got != bytes) wrong |= 1;
        if (file->write(0, bytes, ByteClass::kRaw)) wrong |= 2;
        if (file->truncate(1)) wrong |= 4;
        if (!file->commit()) wrong |= 8;
        if (!engine->detach(file, true)) wrong |= 16;
        engine.reset();
        ::_exit(wrong);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(std::filesystem::file_size(root_ / "target.h5"), 0u) << "the child drained";
    EXPECT_EQ(left_in_area().size(), 1u) << "the child removed the parent's log";
    EXPECT_EQ(test::read(*file, 0, 5000), bytes);
    ASSERT_TRUE(engine->detach(file, true));
    ::close(descriptor);
    EXPECT_EQ(std::filesystem::file_size(root_ / "target.h5"), 5000u);
}

// The child's view is a snapshot; the parent drains and uses the segments again meanwhile.
TEST_F(RealFiles, a_forked_child_reads_from_the_target_what_the_parent_has_drained_meanwhile) {
    loaded_.options.size = 2 * loaded_.options.segment;
    auto engine = Engine::create(loaded_);
    const int descriptor = open_target();
    auto file = engine->attach({root_ / "target.h5", descriptor, true}).value().file;
    const auto bytes = test::bytes_of(5000, 1);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kRaw));
    int go[2];
    ASSERT_EQ(::pipe(go), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        char token;
        if (::read(go[0], &token, 1) != 1) ::_exit(2);
        std::vector<std::byte> got(5000);
        ::_exit(file->read(0, got) && got == bytes ? 0 : 1);
    }
    for (std::uint64_t i = 0; i < 40; ++i)
        ASSERT_TRUE(file->write(10000 + i * 20000, test::bytes_of(20000, i), ByteClass::kRaw));
    ASSERT_TRUE(file->drain());
    ASSERT_EQ(::write(go[1], "g", 1), 1);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 0);
    ASSERT_TRUE(engine->detach(file, true));
    for (const int end : {go[0], go[1], descriptor}) ::close(end);
}

TEST_F(RealFiles, two_engines_of_one_process_keep_apart) {
    auto first = Engine::create(loaded_), second = Engine::create(loaded_);
    const int descriptor = open_target();
    auto one = first->attach({root_ / "target.h5", descriptor, true});
    const int other = ::open((root_ / "other.h5").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    auto two = second->attach({root_ / "other.h5", other, true});
    ASSERT_TRUE(one && two);
    EXPECT_EQ(left_in_area().size(), 2u);
    ASSERT_TRUE(first->detach(one.value().file, true));
    ASSERT_TRUE(second->detach(two.value().file, true));
    ::close(descriptor);
    ::close(other);
}

TEST(EngineLedger, a_file_that_failed_goes_on_telling_what_is_left_when_it_is_opened_again) {
    Area area;
    Target target;
    auto plan = std::make_shared<io::FaultPlan>();
    auto engine = Engine::create(test::small_options(), area.opener());
    auto file = test::attach(*engine, target, true, plan);
    ASSERT_TRUE(file->write(0, test::bytes_of(100000, 1), ByteClass::kRaw));
    plan->fail(io::Operation::kWrite, 1, UINT64_MAX, EIO);
    ASSERT_FALSE(engine->detach(file, true));
    const auto left = file->counters();
    ASSERT_GT(left.pending, 0u);
    EXPECT_FALSE(engine->attach(target.open(), target.identity(), "/scratch/run.h5", true));
    const auto now = file->counters();
    EXPECT_EQ(now.path, left.path);
    EXPECT_EQ(now.opened_ns, left.opened_ns);
    EXPECT_EQ(now.staged, left.staged);
    EXPECT_EQ(now.pending, left.pending);
    EXPECT_EQ(now.error, static_cast<std::uint64_t>(EIO));
}

// ---- what dead processes have left ---------------------------------------------------------------------

// A target, and the log of a process that has died with a commit of it.
class Leftovers : public RealFiles {
  protected:
    void SetUp() override {
        RealFiles::SetUp();
        target_ = (root_ / "target.h5").string();
        std::ofstream(target_) << "old";
        area_path_ = root_ / "nls" / log::staging_folder();
        std::filesystem::create_directory(area_path_);
        std::filesystem::permissions(area_path_, std::filesystem::perms::owner_all);
        area_ = std::move(io::open_posix_directory(area_path_.string())).value();
    }
    // No process has this number and started when the machine did.
    void leave(const std::vector<std::byte>& content, std::uint64_t pid = 1) {
        const io::Identity identity = io::identify(target_).value();
        test::LeftBehind dead(*area_, pid, log::identify_this_process().value().boot_id);
        auto& log = dead.open(identity, target_, 3);
        dead.write(log, 0, content);
        dead.commit(log, content.size());
    }
    // Of a run whose undo journals have gone: the file has everything.
    void leave_complete(std::uint64_t pid) {
        test::LeftBehind dead(*area_, pid, log::identify_this_process().value().boot_id);
        dead.write(dead.open(io::identify(target_).value(), target_, 3, {log::Sharing::Kind::kConsistentNodes, 77}), 0, test::bytes_of(100, 7));
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

TEST_F(Leftovers, are_not_removed_unread_because_a_ledger_knows_of_no_open_file) {
    leave(test::bytes_of(1000, 1));
    const std::vector<std::string> names = left_in_area();
    ASSERT_EQ(names.size(), 1u);
    // As after a loss of power: the log was synced, the ledger is older.
    const auto directory = std::move(area_->open_directory("1-5-0")).value();
    ASSERT_TRUE(directory->remove_file("ledger"));
    log::LedgerWriter older;
    ASSERT_TRUE(older.publish(std::move(directory->open_file("ledger", io::OpenMode::kCreateNew)).value(), log::owner_of_directory("1-5-0").value(),
                              1 << 20, test::kLeftoverSegment));
    log::remove_leftovers(*area_);
    EXPECT_EQ(left_in_area(), names);
    auto engine = Engine::create(loaded_);
    ASSERT_TRUE(engine->recover_before_open(target_, true));
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
    EXPECT_TRUE(left_in_area().empty());
}

TEST_F(Leftovers, in_a_folder_that_others_can_write_to_are_not_believed) {
    leave(test::bytes_of(1000, 1));
    std::filesystem::permissions(area_path_, std::filesystem::perms::all);
    auto engine = Engine::create(loaded_);
    const auto told = engine->recover_before_open(target_, true);
    ASSERT_TRUE(told) << told.status().message();
    EXPECT_EQ(told.value(), "");
    EXPECT_EQ(content().size(), 3u);
}

TEST_F(Leftovers, that_are_pipes_are_not_waited_for) {
    std::filesystem::create_directory(area_path_ / "1-5-0");
    std::filesystem::permissions(area_path_ / "1-5-0", std::filesystem::perms::owner_all);
    for (const char* name : {"log", "undo-1", "ledger"}) ASSERT_EQ(::mkfifo((area_path_ / "1-5-0" / name).c_str(), 0600), 0);
    auto engine = Engine::create(loaded_);
    const auto told = engine->recover_before_open(target_, true);
    ASSERT_TRUE(told) << told.status().message();
    EXPECT_EQ(told.value(), "");
    log::remove_leftovers(*area_);
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
            const auto lock = directory ? recover::FileLock::take(areas, identity, io::Directory::Patience::kTry) : Result<recover::FileLock>(directory.status());
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
    loaded_.options.patience = 1;
    auto engine = Engine::create(loaded_);
    const auto begin = std::chrono::steady_clock::now();
    const auto refused = engine->recover_before_open(target_, true);
    EXPECT_THAT(refused.status().message(), testing::HasSubstr("process " + other.number() + " is recovering it"));
    const auto warned = engine->recover_before_open(target_, false);
    ASSERT_TRUE(warned) << warned.status().message();
    EXPECT_THAT(warned.value(), testing::HasSubstr("process " + other.number() + " is recovering it"));
    const auto waited = std::chrono::steady_clock::now() - begin;
    EXPECT_GE(waited, std::chrono::milliseconds(1900)) << "it may have come to an end";
    EXPECT_LT(waited, std::chrono::seconds(30));
    EXPECT_TRUE(test::same(content(), {std::byte{'o'}, std::byte{'l'}, std::byte{'d'}}));
    // Emptying the file would make a log void that the other one is writing home.
    EXPECT_FALSE(engine->forget_before(io::identify(target_).value(), target_));

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
        test::LeftBehind dead(*area_, 1, log::identify_this_process().value().boot_id);
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
    for (const bool writable : {true, false}) EXPECT_THAT(strict->recover_before_open(target_, writable).status().message(), testing::HasSubstr("another identity"));
    EXPECT_FALSE(left_in_area().empty());
}

TEST_F(Leftovers, stay_with_recover_off_or_stage_off) {
    leave(test::bytes_of(1000, 1));
    for (bool Options::* const option : {&Options::recover, &Options::stage}) {
        LoadedOptions off = loaded_;
        off.options.*option = false;
        auto engine = Engine::create(off);
        EXPECT_EQ(engine->recover_before_open(target_, true).value(), "");
        EXPECT_TRUE(engine->forget_before(io::identify(target_).value(), target_));
        EXPECT_EQ(left_in_area().size(), 1u);
        EXPECT_EQ(engine->listings(), 0u);
    }
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
        auto file = std::move(directory->open_file(log::undo_name(1), io::OpenMode::kCreateNew)).value();
        const log::UndoHeader header{0xabc, 0, 2, {2, 5, log::identify_this_process().value().boot_id}, identity.device, identity.inode, target_};
        ASSERT_TRUE(log::UndoJournal::create(std::move(file), header, 3, 1 << 20));
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
        test::LeftBehind dead(*area_, 2, log::identify_this_process().value().boot_id);
        dead.write(dead.open(identity, target_, 3), 0, test::bytes_of(1000, 1));
    }
    ASSERT_TRUE(io::set_modified(target_, 1));   // records without a commit tell of no later time
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
    ASSERT_TRUE(engine->forget_before(io::identify(target_).value(), target_));
    EXPECT_TRUE(left_in_area().empty());
    EXPECT_EQ(content().size(), 3u);
}

TEST_F(Leftovers, are_not_looked_for_again_while_nobody_comes_or_goes) {
    // Changed long ago, as far as anybody can tell.
    const timespec long_ago[2] = {{1000, 0}, {1000, 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, area_path_.c_str(), long_ago, 0), 0);
    auto engine = Engine::create(loaded_);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(engine->recover_before_open(target_, true).value(), "");
    EXPECT_EQ(engine->listings(), 1u);
    leave(test::bytes_of(1000, 1));
    EXPECT_NE(engine->recover_before_open(target_, true).value(), "");
    EXPECT_TRUE(test::same(content(), test::bytes_of(1000, 1)));
}

}   // namespace
}   // namespace forebay
