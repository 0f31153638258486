// What recovery refuses: damaged logs, and targets that are not as they were.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "base/clock.h"
#include "support/recovery_fixture.h"

namespace forebay::recover {
namespace {

using log::DataClass;
using log::RecordKind;
using test::bytes_of;
using test::Crash;
using test::LeftBehind;
using test::RecoveryTest;
using test::same;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- damage ------------------------------------------------------------------------------------------

TEST_F(RecoveryTest, drops_a_torn_tail) {
    auto [dead, log] = committed();
    const auto torn = log.segments().newest()->tail;
    dead.write(log, 0, bytes_of(100, 2));
    dead.write(log, 0, bytes_of(100, 3));
    Crash after = crash();
    ASSERT_TRUE(after.file("log")->write_at(torn + 90, bytes_of(20, 4)));
    Request unasked;
    unasked.unasked = true;
    expect_refusal(after, Reason::kNotAsked, unasked);
    const FileReport file = after.recovered();
    EXPECT_TRUE(same(after.contents(), bytes_of(100, 1)));
    EXPECT_EQ(file.unread_bytes, 2 * log::record_bytes(1, 100));
}

TEST_F(RecoveryTest, refuses_a_tail_with_a_commit_behind_the_damage) {
    auto [dead, log] = committed();
    const auto torn = log.segments().newest()->tail;
    dead.write(log, 0, bytes_of(100, 2));
    dead.commit(log, 100);
    Crash after = crash(bytes_of(50, 2));
    ASSERT_TRUE(after.file("log")->write_at(torn + 90, bytes_of(20, 4)));
    expect_refusal(after, Reason::kDamaged);
}

TEST_F(RecoveryTest, refuses_a_log_that_is_damaged_before_its_last_commit) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 0);
    const auto at = log.segments().newest()->tail;
    dead.write(log, 0, bytes_of(100, 1));
    dead.adopt(log);
    dead.commit(log, 100);
    Crash after = crash(bytes_of(50, 2));
    ASSERT_TRUE(after.file("log")->write_at(at + 90, bytes_of(20, 4)));
    expect_refusal(after, Reason::kDamaged);
    EXPECT_THAT(only(after).status.message(), HasSubstr("checksum"));
}

TEST_F(RecoveryTest, refuses_a_damaged_log_without_a_commit_that_may_have_had_one) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 0);
    const auto at = log.segments().newest()->tail;
    dead.write(log, 0, bytes_of(100, 1));
    dead.commit(log, 100);
    Crash after = crash(bytes_of(50, 2));
    ASSERT_TRUE(after.file("log")->write_at(at + 90, bytes_of(20, 4)));
    expect_refusal(after, Reason::kDamaged);
}

TEST_F(RecoveryTest, refuses_a_log_with_a_lost_segment) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 0);
    dead.write(log, 0, bytes_of(100, 1));
    dead.adopt(log);
    dead.adopt(log);
    dead.commit(log, 100);
    Crash after = crash();
    ASSERT_TRUE(after.file("log")->write_at(test::kLeftoverSegment + 16, bytes_of(20, 4)));
    expect_refusal(after, Reason::kDamaged);
}

TEST_F(RecoveryTest, leaves_alone_what_is_no_log) {
    LeftBehind& dead = process();
    (void)dead.open(1, 0);
    Crash after = crash();
    ASSERT_TRUE(after.file("log")->write_at(0, bytes_of(test::kLeftoverSegment, 4)));
    const auto report = after.recover();
    ASSERT_TRUE(report);
    ASSERT_EQ(report.value().refused.size(), 1u);
    EXPECT_EQ(report.value().refused.front().status.code(), Code::kCorrupt);
    EXPECT_FALSE(report.value().all_well());
    EXPECT_THAT(after.left(), ElementsAre(dead.name));

    // Until somebody says that it may go.
    io::Directory* const areas[] = {&after.area()};
    Discarded request;
    request.directories = {"/nls/forebay/100-5-0"};
    request.dry_run = true;
    EXPECT_THAT(discard(areas, request, after.outside()).value().removed, ElementsAre("/nls/forebay/100-5-0"));
    EXPECT_THAT(after.left(), ElementsAre(dead.name));
    request.dry_run = false;
    EXPECT_TRUE(discard(areas, request, after.outside()).value().all_well());
    EXPECT_THAT(after.left(), IsEmpty());
}

// ---- after the machine was restarted -----------------------------------------------------------------

TEST_F(RecoveryTest, after_a_restart_trusts_only_what_has_a_checksum) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 0);
    dead.write(log, 0, bytes_of(1000, 1));
    dead.commit(log, 1000);
    Crash after = crash();
    after.boot_id[0] ^= std::byte{1};
    Request unasked;
    unasked.unasked = true;
    expect_refusal(after, Reason::kNotAsked, unasked);
    EXPECT_TRUE(after.recovered().restarted);
    EXPECT_TRUE(same(after.contents(), bytes_of(1000, 1)));
}

TEST_F(RecoveryTest, after_a_restart_refuses_what_has_none) {
    log::SegmentPool large(
        std::move(area_->create_directory("100-5-0").value()->open_file("log", io::OpenMode::kCreateNew)).value(),
        log::PoolLimits{8 << 20, 1 << 20, 0}, {100, 5, boot_id_});
    log::FileLog log(large, 1, log::LogTarget{7, 1, "/scratch/run.h5"}, false);
    log.adopt(log.acquire().value(), {}, 1);
    const auto bytes = bytes_of(log::kCheckedPayloadMax + 1, 1);
    log.append_data(0, bytes, DataClass::kRaw, 2, 1);
    log.append_marker(RecordKind::kCommit, bytes.size(), 3);
    Crash same_boot = crash(), other_boot = crash();
    other_boot.boot_id[0] ^= std::byte{1};
    expect_refusal(other_boot, Reason::kRestarted);
    (void)same_boot.recovered();
    EXPECT_TRUE(same(same_boot.contents(), bytes));
    log.append_data(0, bytes_of(bytes.size(), 2), DataClass::kRaw, 4, 1);
    log.segments().abandon();
}

// ---- targets that are not as they were ---------------------------------------------------------------

class TargetTest : public RecoveryTest, public testing::WithParamInterface<std::pair<int, Reason>> {};

TEST_P(TargetTest, that_cannot_be_opened_is_refused_and_its_log_kept) {
    committed();
    Crash after = crash(bytes_of(10, 2));
    after.target_status = Status::from_errno(GetParam().first, "open /scratch/run.h5");
    if (GetParam().first == EWOULDBLOCK) after.target_status = {Code::kUnavailable, "another process has it open"};
    expect_refusal(after, GetParam().second);
    after.target_status = Status::ok();
    (void)after.recovered();
    EXPECT_TRUE(same(after.contents(), bytes_of(100, 1)));
}

INSTANTIATE_TEST_SUITE_P(Errors, TargetTest,
                         testing::Values(std::pair{ENOENT, Reason::kMissing}, std::pair{EACCES, Reason::kReadOnly},
                                         std::pair{EROFS, Reason::kReadOnly}, std::pair{EWOULDBLOCK, Reason::kInUse},
                                         std::pair{EIO, Reason::kSystem}),
                         [](const auto& error) { return std::to_string(error.param.first); });

TEST_F(RecoveryTest, gives_up_the_log_of_a_missing_file_only_if_asked_and_if_a_newer_file_has_its_number) {
    LeftBehind& dead = process();
    auto& log = dead.open({7, 1}, "/scratch/run.h5", 0, {}, {1000, 0});
    dead.write(log, 0, bytes_of(100, 1));
    dead.commit(log, 100);
    Crash after = crash();
    after.target_status = Status::from_errno(ENOENT, "open /scratch/run.h5");
    std::string found;
    auto outside = after.outside();
    outside.find_file = [&](const std::string& path, const io::Identity& identity) {
        EXPECT_EQ(path, "/scratch/run.h5");
        EXPECT_EQ(identity, (io::Identity{7, 1}));
        return found;
    };
    outside.born_ns = [](const std::string&) { return std::uint64_t{2000}; };
    io::Directory* const areas[] = {&after.area()};
    for (const bool reused : {false, true}) {
        found = reused ? "/scratch/newer.h5" : "";
        for (const bool unasked : {true, false}) {
            for (const bool dry_run : {true, false}) {
                Request request;
                request.dry_run = dry_run;
                request.unasked = unasked;
                const auto report = recover(areas, request, outside);
                ASSERT_TRUE(report);
                const FileReport& file = report.value().files.at(0);
                const bool gone = reused && !unasked;
                EXPECT_EQ(file.outcome, gone ? Outcome::kGone : Outcome::kRefused);
                EXPECT_EQ(file.reason, gone ? Reason::kNone : reused ? Reason::kNotAsked : Reason::kMissing);
                EXPECT_EQ(report.value().all_well(), gone);
                EXPECT_EQ(after.left().empty(), gone && !dry_run);
            }
        }
    }
}

TEST_F(RecoveryTest, finds_a_file_that_has_another_name_also_if_it_is_asked_for_by_its_old_one) {
    for (const bool asked : {true, false}) {
        area_ = io::make_memory_directory("/nls/forebay");
        processes_.clear();
        committed();
        Crash after = crash();
        auto outside = after.outside();
        outside.open_target = [open = outside.open_target](const std::string& path) -> Result<io::ExistingFile> {
            if (path != "/scratch/done/run.h5") return Status::from_errno(ENOENT, "open " + path);
            return open(path);
        };
        outside.find_file = [&](const std::string&, const io::Identity&) {
            return std::string("/scratch/done/run.h5");
        };
        Request request;
        if (asked) request.only = {Wanted{{}, "/scratch/run.h5"}};
        io::Directory* const areas[] = {&after.area()};
        const auto report = recover(areas, request, outside);
        ASSERT_TRUE(report);
        ASSERT_EQ(report.value().files.size(), 1u);
        EXPECT_EQ(report.value().files[0].outcome, Outcome::kRecovered) << report.value().files[0].status.message();
        EXPECT_EQ(report.value().files[0].path, "/scratch/done/run.h5");
        EXPECT_EQ(report.value().files[0].logged_path, "/scratch/run.h5");
        EXPECT_TRUE(same(after.contents(), bytes_of(100, 1)));
    }
}

TEST_F(RecoveryTest, refuses_another_file_in_the_place_of_the_target) {
    LeftBehind& dead = process();
    auto& log = dead.open(2, 0);
    dead.write(log, 0, bytes_of(100, 1));
    dead.commit(log, 100);
    Crash after = crash(bytes_of(10, 2));
    expect_refusal(after, Reason::kReplaced);
}

TEST_F(RecoveryTest, refuses_a_file_that_somebody_has_written_since) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 0);
    dead.write(log, 0, bytes_of(100, 1));
    dead.commit(log, 100);   // now
    Crash after = crash(bytes_of(10, 2));
    after.modified_ns = realtime_ns() + 50'000'000'000;
    Crash soon(after);
    (void)soon.recovered();
    after.modified_ns = realtime_ns() + 70'000'000'000;
    expect_refusal(after, Reason::kChanged);
    Request request;
    request.although_changed = true;
    EXPECT_EQ(only(after, request).outcome, Outcome::kRecovered);
    EXPECT_TRUE(same(after.contents(), bytes_of(100, 1)));
}

// The target was written by the recovery that was killed, long after the process had died.
TEST_F(RecoveryTest, does_not_take_its_own_writes_for_those_of_somebody_else) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 0);
    log.append_data(0, bytes_of(100, 1), DataClass::kRaw, LeftBehind::next(), 1);
    dead.adopt(log, {LeftBehind::next() - 1, 100, 1});   // as if the record of the commit were gone
    Crash after = crash();
    auto plan = std::make_shared<io::FaultPlan>();
    plan->fail(io::Operation::kSync, 1, 1, EIO);
    auto outside = after.outside();
    outside.open_target = [open = outside.open_target, plan](const std::string& path) {
        auto target = open(path);
        target.value().file = io::make_fault_file(std::move(target.value().file), plan);
        return target;
    };
    io::Directory* const areas[] = {&after.area()};
    EXPECT_EQ(recover(areas, {}, outside).value().files.front().outcome, Outcome::kFailed);
    after.modified_ns = realtime_ns();
    (void)after.recovered();
    EXPECT_TRUE(same(after.contents(), bytes_of(100, 1)));
}

TEST_F(RecoveryTest, that_fails_for_want_of_room_keeps_the_log_and_goes_on_later) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 0);
    dead.write(log, 0, bytes_of(100, 1));
    dead.write(log, 1000, bytes_of(100, 1));
    dead.commit(log, 2000);
    Crash after = crash();
    auto plan = std::make_shared<io::FaultPlan>();
    plan->fail(io::Operation::kWrite, 2, 1, ENOSPC);
    auto outside = after.outside();
    outside.open_target = [open = outside.open_target, plan](const std::string& path) {
        auto target = open(path);
        target.value().file = io::make_fault_file(std::move(target.value().file), plan);
        return target;
    };
    io::Directory* const areas[] = {&after.area()};
    const auto report = recover(areas, {}, outside);
    ASSERT_TRUE(report);
    EXPECT_EQ(report.value().files.front().outcome, Outcome::kFailed);
    EXPECT_EQ(report.value().files.front().reason, Reason::kNoSpace);
    EXPECT_THAT(advice(report.value().files.front()), HasSubstr("make room"));
    (void)after.recovered();
    EXPECT_EQ(after.contents().size(), 2000u);
}

TEST_F(RecoveryTest, syncs_the_target_once_and_before_the_log_goes) {
    auto [dead, log] = committed();
    Crash after = crash();
    auto plan = std::make_shared<io::FaultPlan>();
    auto outside = after.outside();
    outside.open_target = [open = outside.open_target, plan](const std::string& path) {
        auto target = open(path);
        target.value().file = io::make_fault_file(std::move(target.value().file), plan);
        return target;
    };
    io::Directory* const areas[] = {&after.area()};
    plan->fail(io::Operation::kSync, 1, 1, EIO);
    EXPECT_EQ(recover(areas, {}, outside).value().files.front().outcome, Outcome::kFailed);
    EXPECT_THAT(after.left(), ElementsAre(dead.name));
    plan->fail(io::Operation::kSync, 2, 1, EIO);
    EXPECT_EQ(recover(areas, {}, outside).value().files.front().outcome, Outcome::kRecovered);
    EXPECT_EQ(plan->fired(), 1u) << "there was no second one";
    EXPECT_THAT(after.left(), IsEmpty());
}

// ---- a file system that was mounted again --------------------------------------------------------------

class MountedAgain : public test::RecoveryTest {
  protected:
    // The log is of device 7; the target is on this one now.
    static constexpr io::Identity kNow{8, 1};
    test::Crash crash_now() {
        return {*area_, [] { return std::vector<std::byte>{}; }, kNow};
    }
    static Request asked(bool accept, const std::string& path = "/elsewhere/run.h5", io::Identity identity = kNow) {
        Request request;
        request.only = {Wanted{identity, path}};
        request.accept_moved = accept;
        return request;
    }
    static Result<Report> recover(test::Crash& crash, const Request& request, const Outside& outside) {
        io::Directory* const areas[] = {&crash.area()};
        return recover::recover(areas, request, outside);
    }
};

TEST_F(MountedAgain, its_files_are_refused_unless_somebody_vouches_for_them) {
    committed();
    test::Crash after = crash_now();
    expect_refusal(after, Reason::kReplaced);
    const auto by_name = asked(false, "/scratch/run.h5");
    expect_refusal(after, Reason::kReplaced, by_name);
    EXPECT_THAT(advice(only(after, by_name)), HasSubstr("--accept-moved"));
    EXPECT_THAT(after.recover(asked(false)).value().files, IsEmpty());
    const FileReport file = only(after, asked(true));
    EXPECT_EQ(file.outcome, Outcome::kRecovered) << file.status.message();
    EXPECT_EQ(file.path, "/elsewhere/run.h5");
    EXPECT_TRUE(same(after.contents(), bytes_of(100, 1)));
    EXPECT_THAT(after.left(), IsEmpty());
}

TEST_F(MountedAgain, nobody_is_believed_who_names_another_file) {
    committed();
    test::Crash after = crash_now();
    const auto left = after.left();
    for (const Request& request : {asked(true, "/elsewhere/other.h5"), asked(true, "/elsewhere/run.h5", {8, 2})})
        EXPECT_THAT(after.recover(request).value().files, IsEmpty());
    // The one that the program wrote is still there.
    Outside outside = after.outside();
    outside.identify = [](const std::string&) -> Result<io::Identity> { return io::Identity{7, 1}; };
    EXPECT_THAT(recover(after, asked(true), outside).value().files, IsEmpty());
    // It was made after the process had died.
    outside = after.outside();
    outside.born_ns = [](const std::string&) { return realtime_ns() + 3'600'000'000'000; };
    const auto made_later = recover(after, asked(true), outside);
    ASSERT_TRUE(made_later);
    ASSERT_EQ(made_later.value().files.size(), 1u);
    EXPECT_EQ(made_later.value().files.front().reason, Reason::kReplaced);
    EXPECT_THAT(after.contents(), IsEmpty());
    EXPECT_EQ(after.left(), left);
}

TEST_F(MountedAgain, what_was_written_since_is_refused_as_ever) {
    committed();
    test::Crash after = crash_now();
    after.modified_ns = realtime_ns() + 3'600'000'000'000;
    expect_refusal(after, Reason::kChanged, asked(true));
}

TEST_F(MountedAgain, of_two_runs_on_different_mounts_nobody_guesses_which_was_right) {
    committed();
    LeftBehind& later = process(101);
    auto& log = later.open(kNow, "/scratch/run.h5", 0);
    later.write(log, 0, bytes_of(100, 2));
    later.commit(log, 100);
    test::Crash after = crash_now();
    const auto report = after.recover(asked(true));
    ASSERT_TRUE(report);
    ASSERT_EQ(report.value().files.size(), 2u);
    for (const FileReport& file : report.value().files) EXPECT_EQ(file.reason, Reason::kSeveralRuns);
    EXPECT_THAT(after.contents(), IsEmpty());
}

}   // namespace
}   // namespace forebay::recover
