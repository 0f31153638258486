// Logs that recovery cannot read are kept, whatever else it does with their directories, until `discard` names them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/bytes.h"
#include "io/posix_file.h"
#include "log/scan.h"
#include "recover/process_directory.h"
#include "support/recovery_fixture.h"
#include "support/scratch_folder.h"

namespace forebay::recover {
namespace {

using test::bytes_of;
using test::Crash;
using test::LeftBehind;
using test::same;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class UnnamedLog : public test::RecoveryTest {
  protected:
    // One bit in the first record of the log.
    static void damage(Crash& crash, const std::string& directory) {
        const auto file = crash.file("log", directory);
        std::vector<std::byte> bytes(file->size().value());
        ASSERT_TRUE(file->read_at(0, bytes));
        constexpr std::array kMagic{std::byte{'F'}, std::byte{'R'}, std::byte{'E'}, std::byte{'C'}};
        const auto record = std::search(bytes.begin(), bytes.end(), kMagic.begin(), kMagic.end());
        ASSERT_NE(record, bytes.end());
        *(record + 20) ^= std::byte{1};
        ASSERT_TRUE(file->write_at(0, bytes));
    }
    static void set_word(Crash& crash, const std::string& directory, int segment, std::uint64_t at,
                         std::uint64_t value) {
        std::array<std::byte, 8> word{};
        store_le(word.data(), value);
        const std::uint64_t begin = static_cast<std::uint64_t>(segment) * test::kLeftoverSegment;
        ASSERT_TRUE(crash.file("log", directory)->write_at(begin + at, word));
    }
    static void set_tail(Crash& crash, const std::string& directory, int segment, std::uint64_t tail) {
        set_word(crash, directory, segment, log::kTailOffset, tail);
    }
    // A durable log of two segments, with a commit in each. The second tells that the first was given back.
    LeftBehind& durable() {
        area_ = io::make_memory_directory("/nls/forebay");
        processes_.clear();
        LeftBehind& dead = process();
        auto& log = dead.open({7, 1}, "/scratch/run.h5", 0, {}, {}, true);
        dead.write(log, 0, bytes_of(100, 1));
        const std::uint64_t commit = dead.commit(log, 100);
        dead.adopt(log, {commit, 100});
        dead.write(log, 0, bytes_of(100, 2));
        dead.commit(log, 100);
        log.declare_needed_from(1);
        return dead;
    }
    static Report discarded(Crash& crash, const std::string& directory, bool dry_run = false) {
        Discarded request;
        request.directories = {"/nls/forebay/" + directory};
        request.dry_run = dry_run;
        io::Directory* const areas[] = {&crash.area()};
        auto report = discard(areas, request, crash.outside());
        EXPECT_TRUE(report) << report.status().message();
        return std::move(report).value();
    }
};

TEST_F(UnnamedLog, is_kept_and_told_of_until_it_is_discarded) {
    const std::string name = committed().dead.name;
    Crash after = crash();
    damage(after, name);
    for (const bool dry_run : {true, false}) {
        Request request;
        request.dry_run = dry_run;
        const auto report = after.recover(request);
        ASSERT_TRUE(report);
        EXPECT_FALSE(report.value().all_well());
        ASSERT_EQ(report.value().refused.size(), 1u);
        EXPECT_EQ(report.value().refused[0].path, "/nls/forebay/" + name);
        EXPECT_EQ(report.value().refused[0].status.code(), Code::kCorrupt);
        EXPECT_THAT(after.left(), ElementsAre(name));
    }
    for (const bool dry_run : {true, false}) {
        EXPECT_THAT(discarded(after, name, dry_run).removed, ElementsAre("/nls/forebay/" + name));
        EXPECT_EQ(after.left().empty(), !dry_run);
    }
}

// A loss of power tears any record since the last sync. A durable log syncs its first record before it commits.
TEST_F(UnnamedLog, of_an_earlier_boot_is_kept_if_it_has_had_a_commit) {
    for (const bool commits : {false, true}) {
        SCOPED_TRACE(commits);
        area_ = io::make_memory_directory("/nls/forebay");
        processes_.clear();
        LeftBehind& dead = process();
        auto& log = dead.open(1, 0);
        dead.write(log, 0, bytes_of(100, 1));
        if (commits) dead.commit(log, 100);
        Crash after = crash();
        after.boot_id[0] ^= std::byte{1};
        damage(after, dead.name);
        const auto report = after.recover();
        ASSERT_TRUE(report);
        EXPECT_EQ(report.value().refused.size(), commits ? 1u : 0u);
        EXPECT_EQ(after.left().empty(), !commits);
    }
}

// The headers of segments come back from the device as they were first written. Their log went on, so each but the
// newest had records.
TEST_F(UnnamedLog, whose_tails_are_old_is_kept_and_an_open_is_told) {
    for (const int segments : {2, 3}) {
        SCOPED_TRACE(segments);
        area_ = io::make_memory_directory("/nls/forebay");
        processes_.clear();
        auto left = committed();
        for (int i = 1; i < segments; ++i) left.dead.adopt(left.log);
        Crash after = crash();
        for (int i = 0; i < segments; ++i) set_tail(after, left.dead.name, i, log::kSegmentHeaderBytes);
        Status unread;
        const auto targets = log::scan_targets(*after.file("log", left.dead.name), &unread);
        ASSERT_TRUE(targets);
        EXPECT_THAT(targets.value(), IsEmpty());
        EXPECT_EQ(unread.code(), Code::kCorrupt);
        EXPECT_EQ(judge(after.area(), left.dead.name, left.dead.process, after.alive).unread.code(), Code::kCorrupt);
        const auto report = after.recover();
        ASSERT_TRUE(report);
        ASSERT_EQ(report.value().refused.size(), 1u);
        EXPECT_EQ(report.value().refused[0].status.code(), Code::kCorrupt);
        EXPECT_THAT(after.left(), ElementsAre(left.dead.name));
    }
}

// With such a number, no segment of the log seems to count.
TEST_F(UnnamedLog, is_no_durable_log_that_tells_of_the_release_of_all_and_recovery_refuses_it) {
    for (const std::uint64_t needed : {std::uint64_t{2}, UINT64_MAX}) {
        const std::string name = durable().name;
        Crash after = crash();
        set_word(after, name, 1, log::kNeededOffset, needed);
        expect_refusal(after, Reason::kDamaged);
        io::Directory* const areas[] = {&after.area()};
        const auto verified = verify(areas, after.outside());
        ASSERT_TRUE(verified);
        ASSERT_EQ(verified.value().front().logs.size(), 1u);
        EXPECT_EQ(verified.value().front().logs.front().path, "/scratch/run.h5");
        EXPECT_TRUE(verified.value().front().logs.front().damaged_before_commit);
    }
}

// The process died between the note and the release, so the first segment still names the file.
TEST_F(UnnamedLog, of_a_durable_log_is_kept_although_a_released_segment_has_the_name) {
    for (const bool restarted : {false, true}) {
        SCOPED_TRACE(restarted);
        const std::string name = durable().name;
        Crash whole = crash();
        (void)whole.recovered();
        EXPECT_TRUE(same(whole.contents(), bytes_of(100, 2)));
        Crash after = crash();
        if (restarted) after.boot_id[0] ^= std::byte{1};
        constexpr std::uint64_t kRecord = test::kLeftoverSegment + log::kSegmentHeaderBytes;
        ASSERT_TRUE(after.file("log", name)->write_at(kRecord + 20, bytes_of(1, 9)));
        const auto report = after.recover();
        ASSERT_TRUE(report);
        ASSERT_EQ(report.value().refused.size(), 1u);
        EXPECT_EQ(report.value().refused[0].status.code(), Code::kCorrupt);
        EXPECT_THAT(after.left(), ElementsAre(name));
    }
}

// A death between the begin of the first segment and its first record leaves nothing to keep.
TEST_F(UnnamedLog, that_was_never_begun_is_removed) {
    auto& dead = process();
    (void)dead.open(1, 0);
    Crash after = crash();
    set_tail(after, dead.name, 0, log::kSegmentHeaderBytes);
    EXPECT_TRUE(judge(after.area(), dead.name, dead.process, after.alive).unread);
    const auto report = after.recover();
    ASSERT_TRUE(report);
    EXPECT_TRUE(report.value().all_well());
    EXPECT_THAT(after.left(), IsEmpty());
}

// The unreadable segment may belong to the log that has no record, or to one whose every segment it is.
TEST_F(UnnamedLog, of_a_segment_with_an_unreadable_header_is_kept_beside_one_without_records) {
    for (const bool restarted : {false, true}) {
        SCOPED_TRACE(restarted);
        area_ = io::make_memory_directory("/nls/forebay");
        processes_.clear();
        LeftBehind& dead = committed().dead;
        (void)dead.open(2, 0);
        Crash after = crash();
        if (restarted) after.boot_id[0] ^= std::byte{1};
        ASSERT_TRUE(after.file("log", dead.name)->write_at(20, bytes_of(40, 9)));
        set_tail(after, dead.name, 1, log::kSegmentHeaderBytes);
        const auto report = after.recover();
        ASSERT_TRUE(report);
        ASSERT_EQ(report.value().refused.size(), 1u);
        EXPECT_EQ(report.value().refused[0].status.code(), Code::kCorrupt);
        EXPECT_THAT(after.left(), ElementsAre(dead.name));
    }
}

TEST_F(UnnamedLog, is_kept_beside_one_that_is_recovered) {
    LeftBehind& dead = process();
    auto& other = dead.open(2, 0);
    dead.write(other, 0, bytes_of(10, 5));
    dead.commit(other, 10);
    auto& log = dead.open(1, 0);
    dead.write(log, 0, bytes_of(100, 1));
    dead.commit(log, 100);
    Crash after = crash();
    damage(after, dead.name);   // the first one
    const auto report = after.recover();
    ASSERT_TRUE(report);
    ASSERT_EQ(report.value().files.size(), 1u);
    EXPECT_EQ(report.value().files[0].outcome, Outcome::kRecovered);
    EXPECT_TRUE(same(after.contents(), bytes_of(100, 1)));
    EXPECT_THAT(after.left(), ElementsAre(dead.name));
    EXPECT_EQ(report.value().refused.size(), 1u);
    EXPECT_THAT(discarded(after, dead.name).removed, ElementsAre("/nls/forebay/" + dead.name));
    EXPECT_THAT(after.left(), IsEmpty());
}

// Its logs give no session, so the process with the commits seems to have finished.
TEST_F(UnnamedLog, of_one_rank_keeps_the_logs_of_all) {
    for (const bool drainer : {true, false}) {
        for (const bool unreadable : {true, false}) {
            SCOPED_TRACE(testing::Message() << drainer << unreadable);
            area_ = io::make_memory_directory("/nls/forebay");
            processes_.clear();
            LeftBehind& first = process(100);
            LeftBehind& second = process(101);
            const log::Sharing sharing{log::Sharing::Kind::kOneNode, 77};
            auto& first_log = first.open(1, 0, sharing);
            auto& second_log = second.open(1, 0, sharing);
            first.board(77, {first.process, second.process});
            second.write(second_log, 0, bytes_of(100, 1));
            first.commit(first_log, 100);
            Crash after = crash();
            const std::string& name = drainer ? first.name : second.name;
            if (unreadable) ASSERT_TRUE(after.file("log", name)->write_at(20, bytes_of(40, 9)));
            else damage(after, name);
            const auto report = after.recover();
            ASSERT_TRUE(report);
            EXPECT_FALSE(report.value().all_well());
            ASSERT_EQ(report.value().files.size(), 1u);
            EXPECT_EQ(report.value().files[0].outcome, Outcome::kRefused)
                << outcome_name(report.value().files[0].outcome);
            EXPECT_THAT(after.left(), ElementsAre(first.name, second.name));
            EXPECT_THAT(after.contents(), IsEmpty());
        }
    }
}

class UnusableDirectory : public testing::Test {
  protected:
    void SetUp() override { ASSERT_FALSE(folder_.empty()); }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    static Result<Report> discarded(io::Directory& area) {
        Discarded request;
        request.directories = {area.name() + "/100-5-0"};
        io::Directory* const areas[] = {&area};
        return discard(areas, request, {[](const area::ProcessIdentity&) { return false; }, {}, {}});
    }
    const std::string folder_ = test::make_scratch_folder();
};

TEST_F(UnusableDirectory, is_discarded_by_its_owner_whatever_is_wrong_with_it) {
    const std::string place = folder_ + "/forebay";
    for (const bool writable : {true, false}) {
        SCOPED_TRACE(writable);
        ASSERT_EQ(::mkdir(place.c_str(), 0700), 0);
        const auto area = std::move(io::open_posix_directory(place)).value();
        ASSERT_TRUE(area->create_directory("100-5-0").value()->open_file("log", io::OpenMode::kCreateNew));
        const std::string path = area->name() + "/100-5-0";
        ASSERT_EQ(::chmod((writable ? path : path + "/log").c_str(), 0770), 0);
        const auto report = discarded(*area);
        ASSERT_TRUE(report) << report.status().message();
        EXPECT_TRUE(report.value().all_well());
        EXPECT_THAT(report.value().removed, ElementsAre(path));
        EXPECT_THAT(area->list().value(), IsEmpty());
        ASSERT_EQ(::rmdir(place.c_str()), 0);
    }
}

// Names like those of undo journals and boards, which forebay never gives.
constexpr std::array kStrange{"undo-1.bak", "undo-", "undo-01", "board-1~", "notes"};

TEST_F(UnnamedLog, is_not_discarded_together_with_files_that_forebay_did_not_write) {
    for (const char* const strange : kStrange) {
        SCOPED_TRACE(strange);
        area_ = io::make_memory_directory("/nls/forebay");
        processes_.clear();
        const std::string name = committed().dead.name;
        Crash after = crash();
        damage(after, name);
        const auto directory = std::move(after.area().open_directory(name)).value();
        ASSERT_TRUE(directory->open_file(strange, io::OpenMode::kCreateNew));
        const auto before = directory->list().value();
        const Report report = discarded(after, name);
        EXPECT_FALSE(report.all_well());
        EXPECT_TRUE(std::ranges::any_of(report.refused, [&](const DirectoryReport& one) {
            return one.status.message().find(std::string("did not write ") + strange) != std::string::npos;
        }));
        EXPECT_EQ(directory->list().value(), before);
        ASSERT_TRUE(directory->remove_file(strange));
        EXPECT_TRUE(discarded(after, name).all_well());
        EXPECT_THAT(after.left(), IsEmpty());
    }
}

class StrangeFile : public test::RecoveryTest {};

TEST_F(StrangeFile, stays_after_a_recovery_that_removes_the_logs_beside_it) {
    for (const char* const strange : kStrange) {
        SCOPED_TRACE(strange);
        area_ = io::make_memory_directory("/nls/forebay");
        processes_.clear();
        const std::string name = committed().dead.name;
        Crash after = crash();
        const auto directory = std::move(after.area().open_directory(name)).value();
        ASSERT_TRUE(directory->open_file(strange, io::OpenMode::kCreateNew));
        const auto report = after.recover();
        ASSERT_TRUE(report);
        ASSERT_EQ(report.value().files.size(), 1u);
        EXPECT_EQ(report.value().files[0].outcome, Outcome::kRecovered);
        EXPECT_TRUE(same(after.contents(), bytes_of(100, 1)));
        ASSERT_EQ(report.value().refused.size(), 1u);
        EXPECT_THAT(report.value().refused[0].status.message(), HasSubstr(std::string("did not write ") + strange));
        EXPECT_THAT(directory->list().value(), ElementsAre(strange));
        ASSERT_TRUE(directory->remove_file(strange));
        const auto again = after.recover();
        ASSERT_TRUE(again);
        EXPECT_TRUE(again.value().all_well());
        EXPECT_THAT(after.left(), IsEmpty());
    }
}

TEST_F(UnusableDirectory, that_is_a_symbolic_link_is_not_discarded) {
    const auto area = std::move(io::open_posix_directory(folder_)).value();
    ASSERT_TRUE(area->create_directory("elsewhere").value()->open_file("log", io::OpenMode::kCreateNew));
    ASSERT_EQ(::symlink("elsewhere", (folder_ + "/100-5-0").c_str()), 0);
    const auto report = discarded(*area);
    ASSERT_TRUE(report) << report.status().message();
    EXPECT_FALSE(report.value().all_well());
    EXPECT_THAT(report.value().removed, IsEmpty());
    EXPECT_THAT(area->open_directory("elsewhere").value()->list().value(), ElementsAre("log"));
}

}   // namespace
}   // namespace forebay::recover
