// Commits of which no record can be made, as there is no segment for it.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "support/crash.h"
#include "support/engine_fixture.h"
#include "support/jumping_clock.h"

namespace forebay::stage {
namespace {

using io::FaultPlan;
using io::Operation;
using test::Area;
using test::bytes_of;
using test::same;
using test::Target;

struct Written {
    explicit Written(std::shared_ptr<FaultPlan> of_target = nullptr, std::shared_ptr<WaitClock> clock = nullptr) {
        auto full = std::make_shared<FaultPlan>();
        if (!clock) clock = std::make_shared<WaitClock>();
        engine = Engine::create(test::small_options(), area.opener(full), std::move(clock));
        file = test::attach(*engine, target, true, std::move(of_target));
        full->fail(Operation::kAllocate, 1, 1000000, ENOSPC);
    }
    [[nodiscard]] std::vector<std::byte> recovered() {
        test::Crash crash(*area.shared_open(), [&] { return target.contents(); }, target.identity());
        EXPECT_TRUE(crash.recover());
        return crash.contents();
    }
    Area area;
    Target target;
    std::unique_ptr<Engine> engine;
    std::shared_ptr<StagedFile> file;
};

TEST(CommitWithoutLog, a_cut_is_in_the_target_when_the_commit_returns) {
    Written written;
    const auto bytes = bytes_of(50000, 1);
    ASSERT_TRUE(written.file->write(0, bytes, ByteClass::kRaw));
    ASSERT_TRUE(written.file->commit());
    ASSERT_TRUE(written.file->truncate(20000));
    ASSERT_TRUE(written.file->commit());
    EXPECT_TRUE(same(written.recovered(), {bytes.begin(), bytes.begin() + 20000}));
    EXPECT_TRUE(written.engine->detach(written.file, true));
}

TEST(CommitWithoutLog, what_was_cut_is_zeros_after_the_file_has_grown_again) {
    Written written;
    auto bytes = bytes_of(50000, 1);
    ASSERT_TRUE(written.file->write(0, bytes, ByteClass::kRaw));
    ASSERT_TRUE(written.file->commit());
    ASSERT_TRUE(written.file->truncate(20000));
    ASSERT_TRUE(written.file->truncate(60000));
    ASSERT_TRUE(written.file->commit());
    bytes.resize(20000);
    bytes.resize(60000);
    EXPECT_TRUE(same(written.recovered(), bytes));
    EXPECT_TRUE(written.engine->detach(written.file, true));
}

TEST(CommitWithoutLog, the_size_of_a_file_that_only_grew_is_in_the_target) {
    Written written;
    ASSERT_TRUE(written.file->truncate(60000));
    ASSERT_TRUE(written.file->commit());
    EXPECT_EQ(written.recovered().size(), 60000U);
    EXPECT_TRUE(written.engine->detach(written.file, true));
}

TEST(CommitWithoutLog, it_fails_if_the_target_cannot_be_cut) {
    auto of_target = std::make_shared<FaultPlan>();
    Written written(of_target);
    ASSERT_TRUE(written.file->write(0, bytes_of(50000, 1), ByteClass::kRaw));
    ASSERT_TRUE(written.file->commit());
    of_target->fail(Operation::kResize, 1, 1000000, EIO);
    ASSERT_TRUE(written.file->truncate(20000));
    EXPECT_FALSE(written.file->commit());
    of_target->clear();
    EXPECT_TRUE(written.engine->detach(written.file, true)) << "the target has the size by now";
    EXPECT_EQ(written.target.contents().size(), 20000U);
}

// No record tells of the commit. A flush that gave up has not told the program that it is safe.
TEST(CommitWithoutLog, each_flush_waits_for_the_size_that_a_hanging_target_lacks) {
    for (const std::uint64_t size : {20000u, 60000u}) {
        SCOPED_TRACE(size);
        auto of_target = std::make_shared<FaultPlan>();
        const auto clock = std::make_shared<test::JumpingClock>([of_target] { return of_target->hanging(); });
        Written written(of_target, clock);
        auto bytes = bytes_of(50000, 1);
        ASSERT_TRUE(written.file->write(0, bytes, ByteClass::kRaw));
        ASSERT_TRUE(written.file->commit());
        of_target->hang(Operation::kResize);
        written.file->log().pause_drain();
        ASSERT_TRUE(written.file->truncate(size));
        for (int times = 0; times < 2; ++times) EXPECT_EQ(written.file->commit().sys_errno(), ETIMEDOUT) << times;
        of_target->let_go();
        EXPECT_TRUE(written.file->commit());
        bytes.resize(size);
        EXPECT_TRUE(same(written.recovered(), bytes));
        EXPECT_TRUE(written.engine->detach(written.file, true));
    }
}

// As after a bypassing write whose record the log could not store.
TEST(CommitWithoutLog, a_log_that_takes_no_more_records_does_not_bring_back_an_older_commit) {
    Area area;
    Target target;
    const auto engine = Engine::create(test::small_options(), area.opener());
    const auto file = test::attach(*engine, target);
    auto now = bytes_of(50000, 1);
    ASSERT_TRUE(file->write(0, now, ByteClass::kRaw));
    ASSERT_TRUE(file->commit());
    file->log().note_failure();
    const auto more = bytes_of(10000, 2);
    ASSERT_TRUE(file->write(now.size(), more, ByteClass::kRaw));
    EXPECT_EQ(file->counters().through, more.size());
    now.insert(now.end(), more.begin(), more.end());
    ASSERT_TRUE(file->commit());
    EXPECT_FALSE(file->staged());
    test::Crash crash(*area.shared_open(), [&] { return target.contents(); }, target.identity());
    EXPECT_TRUE(crash.recover());
    EXPECT_TRUE(same(crash.contents(), now));
    EXPECT_TRUE(engine->detach(file, true));
    EXPECT_TRUE(same(target.contents(), now));
}

// Their records take the places that are kept for commits.
TEST(CommitWithoutLog, every_commit_between_writes_that_bypass_a_full_log_can_be_recovered) {
    LoadedOptions loaded = test::small_options();
    loaded.options.full = WhenFull::kThrough;
    loaded.options.segment = 16 << 10;
    loaded.options.size = 64 << 10;
    Area area;
    Target target;
    const auto engine = Engine::create(loaded, area.opener());
    const auto file = test::attach(*engine, target);
    std::vector<std::byte> now;
    const auto append = [&](std::size_t size, std::uint64_t seed) {
        const auto bytes = bytes_of(size, seed);
        ASSERT_TRUE(file->write(now.size(), bytes, ByteClass::kMetadata));
        now.insert(now.end(), bytes.begin(), bytes.end());
    };
    std::uint64_t bypassed = 0;
    for (std::uint64_t round = 0; round < 12; ++round) {
        file->log().pause_drain();
        const std::uint64_t before = file->counters().through;
        while (file->counters().through == before) append(5000, now.size());
        for (std::uint64_t i = 0; i < 12; ++i) {
            for (std::uint64_t times = 0; times <= round % 4; ++times) append(1, now.size());
            ASSERT_TRUE(file->commit());
            test::Crash crash(*area.shared_open(), [&] { return target.contents(); }, target.identity());
            ASSERT_TRUE(crash.recover());
            ASSERT_TRUE(same(crash.contents(), now)) << "round " << round << ", commit " << i;
        }
        bypassed += file->counters().through - before;
    }
    EXPECT_GT(bypassed, 12 * 12u);
    EXPECT_TRUE(engine->detach(file, true));
}

// The log is left where it has no room for a commit record, and begun anew with the segment that was given back.
class LogBegunAnew : public testing::TestWithParam<Durability> {};

TEST_P(LogBegunAnew, every_commit_can_be_recovered) {
    auto full = std::make_shared<FaultPlan>();
    Area area;
    Target target;
    LoadedOptions loaded = test::small_options();
    loaded.options.durability = GetParam();
    const auto engine = Engine::create(loaded, area.opener(full));
    const auto file = test::attach(*engine, target);
    full->fail(Operation::kAllocate, 2, 1000000, ENOSPC);
    std::vector<std::byte> now(60000);
    bool left = false;
    for (std::uint64_t i = 0; i < 40; ++i) {
        const auto bytes = bytes_of(10000, i);
        const std::uint64_t offset = i % 6 * 10000;
        std::copy(bytes.begin(), bytes.end(), now.begin() + static_cast<std::ptrdiff_t>(offset));
        ASSERT_TRUE(file->write(offset, bytes, ByteClass::kMetadata));
        ASSERT_TRUE(file->commit());
        left = left || file->counters().pending == 0;
        test::Crash crash(*area.shared_open(), [&] { return target.contents(); }, target.identity());
        const auto report = crash.recover();
        ASSERT_TRUE(report);
        ASSERT_TRUE(report.value().all_well())
            << "commit " << i << ": "
            << (report.value().files.empty() ? "" : report.value().files.front().status.message());
        auto expected = now;
        if (i < 6) expected.resize(offset + 10000);
        ASSERT_TRUE(same(crash.contents(), expected)) << "commit " << i;
    }
    EXPECT_GT(full->fired(), 0U);
    EXPECT_TRUE(left);
    EXPECT_TRUE(engine->detach(file, true));
    EXPECT_TRUE(same(target.contents(), now));
}

INSTANTIATE_TEST_SUITE_P(Both, LogBegunAnew, testing::Values(Durability::kProcess, Durability::kNode),
                         [](const auto& given) { return given.param == Durability::kNode ? "node" : "process"; });

}   // namespace
}   // namespace forebay::stage
