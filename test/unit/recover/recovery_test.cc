// What recovery makes of a log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "base/bytes.h"
#include "support/recovery_fixture.h"

namespace forebay::recover {
namespace {

using log::DataClass;
using log::RecordKind;
using test::bytes_of;
using test::Crash;
using test::joined;
using test::LeftBehind;
using test::RecoveryTest;
using test::same;
using test::zeros;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- who dies meanwhile ------------------------------------------------------------------------------

TEST_F(RecoveryTest, tells_of_a_process_with_a_log_that_dies_while_it_works) {
    committed();
    LeftBehind& later = process(101);
    auto& log = later.open({7, 2}, "/scratch/other.h5", 0);
    later.write(log, 0, bytes_of(100, 2));
    later.commit(log, 100);
    Crash after = crash();
    bool lives = true;
    after.alive = [&](const area::ProcessIdentity& one) { return one.pid == 101 && lives; };
    after.seen_as = [&](io::ExistingFile file) {
        lives = false;
        return file;
    };
    const auto report = after.recover();
    ASSERT_TRUE(report);
    ASSERT_EQ(report.value().files.size(), 1u);
    EXPECT_EQ(report.value().files[0].outcome, Outcome::kRecovered) << report.value().files[0].status.message();
    ASSERT_EQ(report.value().refused.size(), 1u);
    EXPECT_THAT(report.value().refused[0].path, HasSubstr("101-5-0"));
    EXPECT_THAT(report.value().refused[0].status.message(), HasSubstr("run the command again"));
    EXPECT_FALSE(report.value().all_well());
    EXPECT_EQ(after.left(), std::vector<std::string>{"101-5-0"});
}

// ---- what is replayed --------------------------------------------------------------------------------

TEST_F(RecoveryTest, brings_a_file_to_its_last_commit_and_drops_what_came_later) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 10);
    dead.write(log, 0, bytes_of(100, 1));
    dead.write(log, 50, bytes_of(100, 2));
    const std::uint64_t commit = dead.commit(log, 150);
    dead.write(log, 0, bytes_of(300, 3));
    Crash after = crash(bytes_of(10, 9));
    const FileReport file = after.recovered();
    auto expected = bytes_of(100, 1);
    expected.resize(50);
    EXPECT_TRUE(same(after.contents(), joined({expected, bytes_of(100, 2)})));
    EXPECT_EQ(file.outcome, Outcome::kRecovered);
    EXPECT_EQ(file.commit_sequence, commit);
    EXPECT_GT(file.commit_time_ns, 0u);
    EXPECT_EQ(file.size, 150u);
    EXPECT_EQ(file.bytes, 150u);
    EXPECT_EQ(file.writes, 1u) << "pieces that adjoin are one write";
    EXPECT_EQ(file.dropped_records, 1u);
    EXPECT_EQ(file.dropped_bytes, 300u);
    EXPECT_THAT(file.processes, ElementsAre(100));
    EXPECT_EQ(advice(file), "");
}

TEST_F(RecoveryTest, takes_a_file_that_was_never_flushed_back_to_its_state_at_open) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 1000);
    dead.write(log, 0, bytes_of(500, 1));
    dead.write(log, 1000, bytes_of(500, 2));
    Crash after = crash(bytes_of(1300, 3));   // a part of what lies beyond had drained
    const FileReport file = after.recovered();
    auto expected = bytes_of(1300, 3);
    expected.resize(1000);
    EXPECT_TRUE(same(after.contents(), expected));
    EXPECT_EQ(file.outcome, Outcome::kRolledBack);
    EXPECT_EQ(file.dropped_bytes, 1000u);
    EXPECT_EQ(file.bytes, 0u);
}

TEST_F(RecoveryTest, makes_zeros_of_what_was_cut_off_and_grew_again) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 4000);
    dead.mark(log, RecordKind::kTruncate, 1000);
    dead.write(log, 2000, bytes_of(100, 1));
    dead.commit(log, 3000);
    Crash after = crash(bytes_of(4000, 2));
    (void)after.recovered();
    auto kept = bytes_of(4000, 2);
    kept.resize(1000);
    EXPECT_TRUE(same(after.contents(), joined({kept, zeros(1000), bytes_of(100, 1), zeros(900)})));
}

TEST_F(RecoveryTest, leaves_alone_what_was_written_straight_to_the_target_later) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 0);
    dead.write(log, 0, bytes_of(3000, 1));
    dead.mark(log, RecordKind::kTruncate, 500);
    dead.through(log, {1000, 2000});
    dead.commit(log, 3000);
    Crash after = crash(bytes_of(2500, 2));
    (void)after.recovered();
    auto expected = bytes_of(3000, 1);
    std::fill(expected.begin() + 500, expected.end(), std::byte{0});
    const auto there = bytes_of(2500, 2);
    std::copy(there.begin() + 1000, there.begin() + 2000, expected.begin() + 1000);
    EXPECT_TRUE(same(after.contents(), expected));
}

TEST_F(RecoveryTest, makes_a_file_longer_that_the_drain_had_not_made_so) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 0);
    dead.write(log, 0, bytes_of(10, 1));
    dead.mark(log, RecordKind::kTruncate, 5000);
    dead.commit(log, 5000);
    Crash after = crash();
    (void)after.recovered();
    EXPECT_TRUE(same(after.contents(), joined({bytes_of(10, 1), zeros(4990)})));
}

TEST_F(RecoveryTest, writes_long_runs_in_large_aligned_writes) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 0);
    const std::vector<std::byte> part = bytes_of(30000, 1);
    std::uint64_t end = 0;
    for (int i = 0; i < 120; ++i) {   // 3.4 MiB, in segments of 64 KiB
        if (log.room(false) < part.size()) dead.adopt(log);
        dead.write(log, (7 << 20) + end, part);
        end += part.size();
    }
    dead.commit(log, (7 << 20) + end);
    Crash after = crash();
    EXPECT_EQ(after.recovered().writes, 2u) << "cut once, at 8 MiB";
    auto contents = after.contents();
    EXPECT_TRUE(same({contents.end() - 30000, contents.end()}, part));
}

TEST_F(RecoveryTest, clears_the_mark_of_a_file_that_was_open_for_writing) {
    // HDF5 1.14.5: an empty file, killed after a flush.
    constexpr unsigned char kOpen[] = {
        0x89, 'H',  'D',  'F',  '\r', '\n', 0x1a, '\n', 3, 8, 8, 1, 0,    0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xc3, 0,    0,    0,    0, 0, 0, 0, 0x30, 0, 0, 0, 0, 0, 0, 0, 0x98, 0x66, 0x0b, 0xe8};
    std::vector<std::byte> superblock(sizeof kOpen);
    std::memcpy(superblock.data(), kOpen, sizeof kOpen);
    LeftBehind& dead = process();
    auto& log = dead.open(1, 0);
    dead.write(log, 0, superblock, DataClass::kMetadata);
    dead.commit(log, 48);
    Crash after = crash();
    EXPECT_EQ(after.recovered().mark, Mark::kCleared);
    EXPECT_EQ(after.contents()[11], std::byte{0});
}

TEST_F(RecoveryTest, serves_each_file_of_a_process_by_itself) {
    LeftBehind& dead = process();
    auto& other = dead.open(2, 0);
    auto& log = dead.open(1, 0);
    dead.write(other, 0, bytes_of(100, 1));
    dead.commit(other, 100);
    dead.write(log, 0, bytes_of(100, 2));
    dead.commit(log, 100);
    Crash after = crash();
    const auto report = after.recover();
    ASSERT_TRUE(report);
    ASSERT_EQ(report.value().files.size(), 2u);
    EXPECT_EQ(report.value().files[0].reason, Reason::kReplaced) << "its path is that of the other file";
    EXPECT_EQ(report.value().files[1].outcome, Outcome::kRecovered);
    EXPECT_FALSE(report.value().all_well());
    EXPECT_TRUE(same(after.contents(), bytes_of(100, 2)));
    EXPECT_THAT(after.left(), ElementsAre(dead.name)) << "for the one that is left";
    after.put_target(bytes_of(50, 3));
    EXPECT_EQ(only(after).reason, Reason::kReplaced);
    EXPECT_TRUE(same(after.contents(), bytes_of(50, 3))) << "what is recovered is never touched again";
}

TEST_F(RecoveryTest, does_only_what_is_asked_for_and_finds_a_file_that_was_moved) {
    auto [dead, log] = committed();
    Crash after = crash();
    Request request;
    request.only = {Wanted{{7, 2}, "/elsewhere/other.h5"}};
    EXPECT_THAT(after.recover(request).value().files, IsEmpty());
    EXPECT_THAT(after.left(), ElementsAre(dead.name));
    request.only = {Wanted{{7, 1}, "/elsewhere/moved.h5"}};
    EXPECT_EQ(only(after, request).path, "/elsewhere/moved.h5");
    EXPECT_THAT(after.asked_for, ElementsAre("/elsewhere/moved.h5"));
    EXPECT_TRUE(same(after.contents(), bytes_of(100, 1)));
}

TEST_F(RecoveryTest, dry_changes_nothing_and_tells_what_it_would_do) {
    committed();
    process(101);
    Crash after = crash(bytes_of(30, 2));
    Request request;
    request.dry_run = true;
    const auto report = after.recover(request);
    ASSERT_TRUE(report);
    EXPECT_EQ(report.value().files.front().outcome, Outcome::kRecovered);
    EXPECT_EQ(report.value().files.front().bytes, 100u);
    EXPECT_THAT(report.value().removed, ElementsAre(HasSubstr("101-5-0")));
    EXPECT_TRUE(same(after.contents(), bytes_of(30, 2)));
    EXPECT_EQ(after.left().size(), 2u);
}

TEST_F(RecoveryTest, removes_what_holds_nothing) {
    process(100);                       // no log was begun
    LeftBehind& taken = process(101);   // a segment was taken, and nothing written
    auto& log = taken.open(1, 0);
    Crash after = crash(bytes_of(10, 1));
    auto file = after.file("log", taken.name);
    std::array<std::byte, 8> nothing_written{};
    store_le(nothing_written.data(), std::uint64_t{log::kSegmentHeaderBytes});
    ASSERT_TRUE(file->write_at(log::kTailOffset, nothing_written));
    (void)log;
    const auto report = after.recover();
    ASSERT_TRUE(report);
    EXPECT_THAT(report.value().files, IsEmpty());
    EXPECT_THAT(after.left(), IsEmpty());
    EXPECT_TRUE(same(after.contents(), bytes_of(10, 1)));
}

TEST_F(RecoveryTest, reports_its_progress) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 0);
    dead.write(log, 0, bytes_of(100, 1));
    dead.write(log, 1000, bytes_of(100, 1));
    dead.commit(log, 2000);
    Crash after = crash();
    std::vector<std::uint64_t> seen;
    Request request;
    request.progress = [&](const Progress& progress) {
        EXPECT_EQ(progress.of_bytes, 200u);
        EXPECT_EQ(progress.path, "/scratch/run.h5");
        seen.push_back(progress.bytes);
    };
    (void)only(after, request);
    EXPECT_THAT(seen, ElementsAre(100, 200));
}

}   // namespace
}   // namespace forebay::recover
