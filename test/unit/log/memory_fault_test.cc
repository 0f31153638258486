// No memory while a log grows: what recovery finds then is a whole log.
#include <gtest/gtest.h>

#include <cerrno>

#include "io/fault_file.h"
#include "io/memory_file.h"
#include "log/file_log.h"
#include "log/scan.h"
#include "support/engine_fixture.h"
#include "support/failing_allocations.h"

namespace forebay::log {
namespace {

constexpr std::uint64_t kSegment = 64 << 10;

TEST(LogWithoutMemory, a_segment_that_could_not_be_adopted_does_not_stay_in_the_log) {
    long failures = 0;
    bool failed = true;
    for (long nth = 1; failed && nth < 1000; ++nth) {
        SCOPED_TRACE(testing::Message() << "allocation " << nth);
        auto owned = io::make_memory_file("/area/log");
        io::File& file = *owned;
        SegmentPool pool(std::move(owned), PoolLimits{8 * kSegment, kSegment, 0}, {42, 4711, {}});
        FileLog log(pool, 5, LogTarget{0x21, 0x22, "/scratch/with a name that is not short/run.h5"}, false);
        std::uint64_t sequence = 1;
        const auto grow = [&] { return log.adopt(log.acquire().value(), {}, sequence++); };
        const auto put = [&] {
            const auto bytes = test::bytes_of(1000, sequence);
            const FileLog::Part part{1000 * sequence, bytes};
            return log.append_data({&part, 1}, DataClass::kRaw, sequence++, 1).segment != nullptr;
        };
        ASSERT_TRUE(grow() && put());
        failed = false;
        try {
            const test::FailingAllocation failing(nth);
            (void)grow();
        } catch (const std::bad_alloc&) {
            failed = true;
        }
        failures += failed;
        ASSERT_TRUE(!failed || grow());
        ASSERT_TRUE(put());
        const auto logs = scan(file);
        ASSERT_TRUE(logs) << logs.status().message();
        ASSERT_EQ(logs.value().size(), 1u);
        ASSERT_EQ(logs.value().front().segments.size(), 2u);
        EXPECT_EQ(logs.value().front().records.size(), 2u);
        for (const Status& damage : logs.value().front().damage) ADD_FAILURE() << damage.message();
        log.segments().release_all();
    }
    EXPECT_GT(failures, 2);
}

TEST(LogWithoutMemory, a_pool_that_cannot_begin_to_warm_up_returns_and_can_be_used) {
    std::unique_ptr<SegmentPool> pool;
    const auto prepare = [&] {
        pool = std::make_unique<SegmentPool>(io::make_memory_file("/area/log"),
                                             PoolLimits{8 * kSegment, kSegment, kSegment},
                                             area::ProcessIdentity{42, 4711, {}});
    };
    const auto acquire = [&] { EXPECT_TRUE(pool->acquire(1, 0)); };
    EXPECT_GT(test::fail_each_allocation(prepare, [&] { pool->warm_up(); }, acquire), 1);
    acquire();
}

// The system tells a failure of the device once. A repeated flush then finds it counted.
TEST(LogWithoutMemory, a_loss_that_the_device_reports_is_counted) {
    const auto plan = std::make_shared<io::FaultPlan>();
    SegmentPool pool(io::make_fault_file(io::make_memory_file("/area/a log with a name that is not short"), plan),
                     PoolLimits{8 * kSegment, kSegment, 0}, {42, 4711, {}});
    FileLog log(pool, 5, LogTarget{0x21, 0x22, "/scratch/run.h5"}, false);
    plan->fail(io::Operation::kSync, 1, 1, EIO);
    Status synced;
    {
        const test::NoMemory none;
        synced = pool.file().sync();
    }
    EXPECT_EQ(synced.sys_errno(), EIO) << synced.message();
    EXPECT_EQ(pool.file().losses(), 1u);
    EXPECT_EQ(log.lost().sys_errno(), EIO);
}

}   // namespace
}   // namespace forebay::log
