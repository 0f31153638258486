// Option durability: what is synced when, and what is not.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "support/crash.h"
#include "support/engine_fixture.h"

namespace forebay {
namespace {

using stage::ByteClass;
using test::Area;
using test::Target;

LoadedOptions options(Durability durability) {
    LoadedOptions loaded = test::small_options();
    loaded.options.durability = durability;
    return loaded;
}

TEST(DurabilityOption, process_never_syncs) {
    Area area;
    Target target;
    auto faults = std::make_shared<io::FaultPlan>(), of_log = std::make_shared<io::FaultPlan>();
    faults->fail(io::Operation::kSync, 1, 1000, EIO);
    of_log->fail(io::Operation::kSync, 1, 1000, EIO);
    auto engine = stage::Engine::create(options(Durability::kProcess), area.opener(of_log));
    auto file = test::attach(*engine, target, true, faults);
    ASSERT_TRUE(file->write(0, test::bytes_of(10000, 1), ByteClass::kRaw));
    ASSERT_TRUE(file->commit());
    EXPECT_EQ(file->counters().syncs, 0u);
    EXPECT_EQ(file->counters().staged, 10000u);
    ASSERT_TRUE(engine->detach(file, true));
    EXPECT_EQ(faults->fired() + of_log->fired(), 0u);
}

TEST(DurabilityOption, node_syncs_the_log_before_and_after_the_commit_record_and_the_target_at_close) {
    Area area;
    Target target;
    auto faults = std::make_shared<io::FaultPlan>();
    auto engine = stage::Engine::create(options(Durability::kNode), area.opener());
    auto file = test::attach(*engine, target, true, faults);
    ASSERT_TRUE(file->write(0, test::bytes_of(10000, 1), ByteClass::kMetadata));
    const std::uint64_t before = file->counters().syncs;
    EXPECT_EQ(before, 1u);   // the open record
    ASSERT_TRUE(file->commit());
    EXPECT_EQ(file->counters().syncs, before + 3);   // and the target, which may have been emptied by its opening
    ASSERT_TRUE(file->write(0, test::bytes_of(10000, 2), ByteClass::kMetadata));
    ASSERT_TRUE(file->commit());
    EXPECT_EQ(file->counters().syncs, before + 5);
    ASSERT_TRUE(file->commit());   // nothing has changed
    EXPECT_EQ(file->counters().syncs, before + 5);
    faults->fail(io::Operation::kSync, 1, 1, EIO);
    const Status closed = engine->detach(file, true);
    EXPECT_FALSE(closed);
    EXPECT_NE(closed.message().find("/scratch/run.h5"), std::string::npos) << closed.message();
    EXPECT_EQ(faults->fired(), 1u);
    EXPECT_TRUE(file->lifecycle().leaves_log());
}

TEST(DurabilityOption, a_commit_whose_record_could_not_be_synced_is_not_mixed_with_what_comes_later) {
    bool recorded = false;   // at the Nth sync that failed, and all later ones
    for (std::uint64_t nth = 1; nth <= 8; ++nth) {
        SCOPED_TRACE(testing::Message() << "sync " << nth);
        Area area;
        Target target;
        auto of_log = std::make_shared<io::FaultPlan>();
        auto engine = stage::Engine::create(options(Durability::kNode), area.opener(of_log));
        auto file = test::attach(*engine, target);
        of_log->fail(io::Operation::kSync, nth, 1000000, EIO);
        auto now = test::bytes_of(1000, 1);
        ASSERT_TRUE(file->write(0, now, ByteClass::kRaw));
        ASSERT_TRUE(file->truncate(200000));   // zeros, of which the log has no bytes
        now.resize(200000);
        if (file->commit()) break;
        // What would drain at once if it were thought to be beyond the end of the last commit.
        const auto later = test::bytes_of(1 << 20, 2);
        ASSERT_TRUE(file->write(100000, later, ByteClass::kRaw));
        for (int i = 0; i < 100 && file->counters().drained < 1000000; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        test::Crash crash(*area.shared_open(), [&] { return target.contents(); }, target.identity());
        ASSERT_TRUE(crash.recover());
        if (!crash.contents().empty()) {
            recorded = true;
            EXPECT_TRUE(test::same(crash.contents(), now));
        }
        EXPECT_FALSE(file->commit()) << "every later flush fails";
        EXPECT_FALSE(engine->detach(file, true));
        now.resize(100000);
        now.insert(now.end(), later.begin(), later.end());
        EXPECT_TRUE(test::same(target.contents(), now));
    }
    EXPECT_TRUE(recorded);
}

// The failed sync of the log is over: it is another device. The log has the only copy of what the target's sync lost.
TEST(DurabilityOption, after_a_failed_sync_of_the_log_it_still_keeps_what_the_target_may_have_lost) {
    for (const bool for_room : {false, true}) {
        SCOPED_TRACE(for_room ? "a writer wants room" : "at close");
        Area area;
        Target target;
        auto of_log = std::make_shared<io::FaultPlan>(), of_target = std::make_shared<io::FaultPlan>();
        LoadedOptions loaded = options(Durability::kNode);
        loaded.options.size = 256 << 10;
        auto engine = stage::Engine::create(loaded, area.opener(of_log));
        auto file = test::attach(*engine, target, true, of_target);
        const auto bytes = test::bytes_of(150'000, 1);
        ASSERT_TRUE(file->write(0, bytes, ByteClass::kRaw));
        ASSERT_TRUE(file->commit());
        ASSERT_TRUE(file->write(bytes.size(), test::bytes_of(100, 3), ByteClass::kRaw));
        of_log->fail(io::Operation::kSync, 1, 1, EIO);
        EXPECT_EQ(file->commit().sys_errno(), EIO);
        EXPECT_EQ(of_log->fired(), 1u);
        ASSERT_TRUE(file->drain());
        const auto device = std::vector<std::byte>(bytes.size());   // what the target's device has
        of_target->fail(io::Operation::kSync, 1, 1, EIO);
        if (for_room) {
            Status written;
            for (int i = 0; i < 8 && written; ++i)
                written = file->write(200'000, test::bytes_of(60'000, 2), ByteClass::kMetadata);
            EXPECT_EQ(written.sys_errno(), EIO) << written.message();
        } else {
            EXPECT_EQ(engine->detach(file, true).sys_errno(), EIO);
            EXPECT_TRUE(file->lifecycle().leaves_log());
        }
        EXPECT_EQ(of_target->fired(), 1u);
        test::Crash crash(*area.shared_open(), [&] { return device; }, target.identity());
        const auto report = crash.recover();
        ASSERT_TRUE(report) << report.status().message();
        for (const auto& each : report.value().files) EXPECT_TRUE(each.status) << each.status.message();
        auto got = crash.contents();
        got.resize(bytes.size());
        EXPECT_TRUE(test::same(got, bytes));
    }
}

TEST(DurabilityOption, node_syncs_a_file_that_stepped_aside) {
    Area area;
    Target target;
    auto engine = stage::Engine::create(options(Durability::kNode), area.opener());
    auto file = test::attach(*engine, target);
    ASSERT_TRUE(file->lifecycle().step_aside(ledger::AsideReason::kHandleTaken));
    ASSERT_TRUE(file->write(0, test::bytes_of(100, 1), ByteClass::kRaw));
    const std::uint64_t before = file->counters().syncs;
    ASSERT_TRUE(file->commit());
    EXPECT_EQ(file->counters().syncs, before + 1);
    ASSERT_TRUE(engine->detach(file, true));
}

}   // namespace
}   // namespace forebay
