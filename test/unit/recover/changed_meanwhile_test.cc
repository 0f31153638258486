// Others write to a file while it is being recovered, or between two recoveries of which the first one was killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/recovery_fixture.h"
#include "support/team_world.h"
#include "support/timed_target.h"

namespace forebay::recover {
namespace {

using test::bytes_of;
using test::Crash;
using test::RecoveryTest;
using test::same;
using test::TeamWorld;
using test::TimedTarget;
using testing::HasSubstr;

class ChangedMeanwhile : public RecoveryTest {
  protected:
    // Three writes that do not adjoin, below a size of 3,000.
    void three_writes() {
        test::LeftBehind& dead = process();
        auto& log = dead.open(1, 0);
        for (std::uint64_t i = 0; i < 3; ++i) dead.write(log, 1000 * i, bytes_of(100, i + 1));
        dead.commit(log, 3000);
    }
    TimedTarget target_;
};

TEST_F(ChangedMeanwhile, what_others_write_between_two_writes_of_recovery_is_not_written_over) {
    for (const io::TimesKind kind : {io::TimesKind::kExact, io::TimesKind::kServed}) {
        area_ = io::make_memory_directory("/nls/forebay");
        three_writes();
        Crash after = crash(bytes_of(3000, 9));
        target_ = {};
        target_.kind = kind;
        // After the first write has come to rest: its state is looked at once more before the second one.
        bool armed = false;
        target_.before_change = [&](std::uint64_t so_far, io::File& file) {
            if (so_far != 1 || !std::exchange(armed, true)) return;
            target_.before_change = nullptr;
            ASSERT_TRUE(file.write_at(2000, bytes_of(100, 7)));
            target_.changed_by_others();
        };
        after.seen_as = [this](io::ExistingFile file) { return target_.seen(std::move(file)); };
        const FileReport file = only(after);
        EXPECT_EQ(file.outcome, Outcome::kFailed) << outcome_name(file.outcome);
        EXPECT_EQ(file.reason, Reason::kChanged) << file.status.message();
        EXPECT_THAT(file.status.message(), HasSubstr("while it was being recovered"));
        EXPECT_EQ(target_.changes, 1u);
        const auto now = after.contents();
        EXPECT_TRUE(same({now.begin() + 2000, now.begin() + 2100}, bytes_of(100, 7)));
        EXPECT_FALSE(after.left().empty()) << "the log stays";
    }
}

TEST_F(ChangedMeanwhile, what_others_append_is_not_cut) {
    test::LeftBehind& dead = process();
    auto& log = dead.open(1, 0);
    dead.write(log, 0, bytes_of(100, 1));
    dead.mark(log, log::RecordKind::kTruncate, 200);
    dead.commit(log, 200);
    Crash after = crash();
    bool armed = false;
    target_.before_change = [&](std::uint64_t so_far, io::File& file) {
        if (so_far != 1 || !std::exchange(armed, true)) return;
        target_.before_change = nullptr;
        ASSERT_TRUE(file.write_at(100, bytes_of(5000, 7)));
    };
    after.seen_as = [this](io::ExistingFile file) { return target_.seen(std::move(file)); };
    const FileReport file = only(after);
    EXPECT_EQ(file.reason, Reason::kChanged) << file.status.message();
    EXPECT_EQ(after.contents().size(), 5100u);
    EXPECT_FALSE(after.left().empty());
}

TEST_F(ChangedMeanwhile, what_nobody_changes_is_recovered_and_its_times_are_its_own) {
    three_writes();
    Crash after = crash(bytes_of(3000, 9));
    after.seen_as = [this](io::ExistingFile file) { return target_.seen(std::move(file)); };
    EXPECT_EQ(after.recovered().writes, 3u);
    EXPECT_EQ(target_.set_back, 0u);
}

// A recovery by undo journals was killed after it had begun to write; then another program rewrites the file.
class ChangedBetween : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(KilledInTheMidstOfAWrite, ChangedBetween, testing::Bool());

TEST_P(ChangedBetween, what_was_written_after_a_recovery_by_journals_was_killed_is_not_undone) {
    std::uint64_t refused_once = 0;
    for (std::uint64_t nth = 1;; ++nth) {
        SCOPED_TRACE(testing::Message() << "killed at call " << nth);
        const auto before = bytes_of(100'000, 1);
        TeamWorld world({0, 1}, before);
        world.tears = GetParam();
        TimedTarget target;
        target.changed_by_others();
        world.seen_as = [&](io::ExistingFile file) {
            auto seen = target.seen(std::move(file));
            seen.modified_ns = 0;
            return seen;
        };
        for (std::size_t i = 0; i < 4; ++i) ASSERT_TRUE(world.file(i % 2).write_at(i * 10'000, bytes_of(100, i + 2)));
        ASSERT_EQ(world.recovered(0).outcome, Outcome::kWaiting);
        (void)world.recover(1, nth);
        if (!world.killed) break;
        if (target.changes == 0) continue;   // it had not begun
        target.now_ns += 100'000'000'000'000;
        target.changed_by_others();
        const auto report = world.recover(0);
        ASSERT_TRUE(report);
        ASSERT_EQ(report.value().files.size(), 1u);
        const FileReport& file = report.value().files.front();
        if (file.outcome == Outcome::kComplete) continue;   // all of it had been written
        EXPECT_EQ(file.outcome, Outcome::kRefused) << outcome_name(file.outcome);
        EXPECT_EQ(file.reason, Reason::kChanged) << file.status.message();
        ++refused_once;
        Request request;
        request.although_changed = true;
        const auto asked = world.recover(0, 0, request);
        ASSERT_TRUE(asked && asked.value().files.size() == 1);
        EXPECT_EQ(asked.value().files.front().outcome, Outcome::kRolledBack) << "the user says so";
    }
    EXPECT_GE(refused_once, 4u) << "after each of the writes";
}

}   // namespace
}   // namespace forebay::recover
