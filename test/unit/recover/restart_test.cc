// Recovery after a restart of the machine: what a loss of power may have taken, and what proves nothing then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "base/clock.h"
#include "io/fault_file.h"
#include "recover/session.h"
#include "support/forwarding_directory.h"
#include "support/recovery_fixture.h"

namespace forebay::recover {
namespace {

using log::Sharing;
using test::bytes_of;
using test::Crash;
using test::LeftBehind;
using test::same;
using ::testing::IsEmpty;

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kHour = 3600 * kSecond;

class AfterRestart : public test::RecoveryTest {
  protected:
    static void restart(Crash& after) { after.boot_id[0] ^= std::byte{1}; }
    // A durable log with a commit of now.
    void leave_durable_log() {
        LeftBehind& dead = process();
        auto& log = dead.open({7, 1}, "/scratch/run.h5", 0, {}, {}, true);
        dead.write(log, 0, bytes_of(100, 1));
        dead.commit(log, 100);
    }
};

// ---- the last sign of life of a durable log's process ----------------------------------------------

// The process was killed. Later another program wrote the file, and later still the machine was restarted.
TEST_F(AfterRestart, a_write_between_the_death_and_the_restart_is_not_overwritten_by_a_durable_log) {
    leave_durable_log();
    Crash after = crash(bytes_of(10, 2));
    restart(after);
    after.booted_ns = realtime_ns() + 48 * kHour;
    after.modified_ns = realtime_ns() + 24 * kHour;
    expect_refusal(after, Reason::kChanged);
    Request unasked;
    unasked.unasked = true;
    expect_refusal(after, Reason::kChanged, unasked);
    Request request;
    request.although_changed = true;
    EXPECT_EQ(only(after, request).outcome, Outcome::kRecovered);
    EXPECT_TRUE(same(after.contents(), bytes_of(100, 1)));
}

TEST_F(AfterRestart, a_loss_of_power_may_have_taken_the_last_signs_of_a_durable_log) {
    leave_durable_log();
    for (const std::uint64_t booted_s : {200, 20000}) {
        Crash after = crash(bytes_of(10, 2));
        restart(after);
        after.booted_ns = realtime_ns() + booted_s * kSecond;
        after.modified_ns = realtime_ns() + 150 * kSecond;
        Request unasked;
        unasked.unasked = true;
        EXPECT_EQ(only(after, unasked).outcome, Outcome::kRecovered) << booted_s;
        EXPECT_TRUE(same(after.contents(), bytes_of(100, 1)));
    }
}

TEST_F(AfterRestart, the_last_sign_of_a_durable_log_is_its_times_or_those_of_its_file_but_not_after_the_boot) {
    const area::BootId now{std::byte{1}};
    log::ScannedLog log;
    log.durable = true;
    FoundDirectory directory;
    Session session;
    session.logs.push_back({&directory, &log});
    const auto last_sign = [&](std::uint64_t booted_ns) { return last_sign_of_life(session, now, booted_ns); };
    EXPECT_EQ(last_sign(9 * kHour), 9 * kHour) << "nothing else is known";
    log.commit_time_ns = 2 * kHour;
    EXPECT_GE(last_sign(9 * kHour), 2 * kHour + 60 * kSecond);
    EXPECT_LT(last_sign(9 * kHour), 2 * kHour + 600 * kSecond);
    EXPECT_EQ(last_sign(2 * kHour + kSecond), 2 * kHour + kSecond);
    EXPECT_EQ(last_sign(kHour), 2 * kHour) << "a clock was set";
    // The process was idle, and lost what it wrote then.
    directory.log_modified_ns = 5 * kHour;
    EXPECT_GE(last_sign(9 * kHour), 5 * kHour + 60 * kSecond);
    EXPECT_LT(last_sign(9 * kHour), 5 * kHour + 600 * kSecond);
    EXPECT_EQ(last_sign(4 * kHour), 4 * kHour) << "the log was copied since";
    log.process.boot_id = now;
    EXPECT_EQ(last_sign(kHour), 2 * kHour);
    log.process.boot_id = {};
    log.durable = false;
    EXPECT_EQ(last_sign(9 * kHour), 2 * kHour) << "nothing was promised";
}

// Otherwise a loss of power would leave only its writes.
TEST_F(AfterRestart, recovery_notes_on_the_device_that_it_writes_before_it_does) {
    leave_durable_log();
    Crash after = crash(bytes_of(10, 2));
    restart(after);
    auto plan = std::make_shared<io::FaultPlan>();
    plan->fail(io::Operation::kSync, 1, 1, EIO);
    const auto seen = io::make_fault_directory(std::make_unique<test::BorrowedDirectory>(after.area()), plan);
    io::Directory* const areas[] = {seen.get()};
    const auto report = recover(areas, {}, after.outside());
    ASSERT_TRUE(report) << report.status().message();
    EXPECT_EQ(plan->fired(), 1u);
    EXPECT_EQ(report.value().files.front().outcome, Outcome::kFailed);
    EXPECT_TRUE(same(after.contents(), bytes_of(10, 2)));
    (void)after.recovered();
    EXPECT_TRUE(same(after.contents(), bytes_of(100, 1)));
}

// ---- boards and journals that are older than the logs ----------------------------------------------

class UnsyncedBoard : public AfterRestart {
  protected:
    // Both have staged bytes, unless they are to have written nothing. The board says that the log with the commits
    // never had a segment.
    void leave(Sharing::Kind kind, bool written = true) {
        for (const std::uint64_t pid : {100, 101}) {
            LeftBehind& one = process(pid);
            auto& log = one.open(1, 0, {kind, 77});
            if (written) one.write(log, 1000 * (pid - 100), bytes_of(100, pid));
        }
        processes_[0]->board(77, {processes_[0]->process, processes_[1]->process});
    }
    static void make_unbegun(Crash& after) {
        const std::uint64_t none = 0;
        ASSERT_TRUE(after.file(group::board_name(1), "100-5-0")
                        ->write_at(sizeof(group::BoardHeader) + offsetof(group::BoardRow, adopted),
                                   std::as_bytes(std::span(&none, 1))));
    }
};

TEST_F(UnsyncedBoard, does_not_prove_that_nothing_was_written) {
    for (const auto kind : {Sharing::Kind::kOneNode, Sharing::Kind::kSeveralNodes}) {
        area_ = io::make_memory_directory("/nls/forebay");
        processes_.clear();
        leave(kind);
        Crash after = crash(bytes_of(2000, 5));
        restart(after);
        make_unbegun(after);
        expect_refusal(after, Reason::kRestarted);
        EXPECT_TRUE(only(after).restarted);
        Crash same_boot = crash(bytes_of(2000, 5));
        make_unbegun(same_boot);
        EXPECT_EQ(same_boot.recovered().outcome, Outcome::kComplete);
    }
}

TEST_F(UnsyncedBoard, needs_no_proof_if_the_logs_have_no_records) {
    leave(Sharing::Kind::kOneNode, false);
    Crash after = crash(bytes_of(2000, 5));
    restart(after);
    make_unbegun(after);
    EXPECT_EQ(after.recovered().outcome, Outcome::kComplete);
    EXPECT_TRUE(same(after.contents(), bytes_of(2000, 5)));
}

TEST_F(UnsyncedBoard, that_was_retired_still_ends_the_logs) {
    for (const auto kind : {Sharing::Kind::kOneNode, Sharing::Kind::kConsistentNodes}) {
        area_ = io::make_memory_directory("/nls/forebay");
        processes_.clear();
        leave(kind);
        Crash after = crash(bytes_of(2000, 5));
        restart(after);
        ASSERT_TRUE(group::retire_board(*after.file(group::board_name(1), "100-5-0")));
        EXPECT_EQ(after.recovered().outcome, Outcome::kComplete);
    }
}

// A loss of power may leave a journal without its first bytes.
TEST_F(AfterRestart, a_file_of_several_nodes_without_an_undo_journal_is_not_complete) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 0, {Sharing::Kind::kConsistentNodes, 77});
    dead.board(77, {dead.process}, {0, 0}, 5, 2);
    Crash empty = crash(bytes_of(2000, 5));
    restart(empty);
    dead.write(log, 0, bytes_of(100, 1));
    Crash after = crash(bytes_of(2000, 5));
    restart(after);
    Crash same_boot = crash(bytes_of(2000, 5));
    for (Crash* const one : {&empty, &after, &same_boot})
        ASSERT_TRUE(one->area().open_directory(dead.name).value()->open_file("undo-1", io::OpenMode::kCreateNew));
    expect_refusal(after, Reason::kRestarted);
    EXPECT_EQ(same_boot.recovered().outcome, Outcome::kComplete);
    EXPECT_EQ(empty.recovered().outcome, Outcome::kComplete);
}

}   // namespace
}   // namespace forebay::recover
