// Option on_error, and what every fault of the target or of the staging device comes to.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "support/crash.h"
#include "support/engine_fixture.h"
#include "support/fault_cases.h"
#include "support/jumping_clock.h"

namespace forebay {
namespace {

using io::FaultPlan;
using io::Operation;
using stage::ByteClass;
using test::Area;
using test::Fault;
using test::FaultCase;
using test::Target;
using Content = std::vector<std::byte>;

constexpr Fault kFaults[] = {
    {"target_eio", Operation::kWrite, EIO},
    {"target_enospc", Operation::kWrite, ENOSPC},
    {"target_edquot", Operation::kWrite, EDQUOT},
    {"target_estale", Operation::kWrite, ESTALE},
    {"target_short", Operation::kWrite, EIO, 100},
    {"target_resize", Operation::kResize, EIO},
    {"target_sync", Operation::kSync, EIO},
    {"log_enospc", Operation::kAllocate, ENOSPC, 0, false},
    {"log_edquot", Operation::kAllocate, EDQUOT, 0, false},
    {"log_eio", Operation::kAllocate, EIO, 0, false},
    {"log_write", Operation::kWrite, EIO, 0, false},
    {"log_map", Operation::kMap, ENOMEM, 0, false},
    {"log_sync", Operation::kSync, EIO, 0, false},
};

class FaultPolicy : public testing::TestWithParam<FaultCase> {};

TEST_P(FaultPolicy, the_nth_call_fails_and_no_byte_is_lost_unsaid) {
    const FaultCase& given = GetParam();
    LoadedOptions loaded = test::small_options();
    loaded.options.patience = 31'536'000;
    loaded.options.on_error = given.on_error;
    loaded.options.durability = given.durability;
    loaded.options.segment = 16 << 10;
    loaded.options.size = 256 << 10;
    bool fired = true;
    std::uint64_t met = 0;
    for (std::uint64_t nth = 1; fired && nth < 200; ++nth) {
        SCOPED_TRACE(testing::Message() << "call " << nth);
        Area area;
        Target target, bystander(2);
        // It jumps over the pauses between attempts.
        const auto clock = std::make_shared<test::JumpingClock>(nullptr, std::chrono::seconds(1));
        auto of_log = std::make_shared<FaultPlan>(), of_target = std::make_shared<FaultPlan>();
        auto engine = stage::Engine::create(loaded, area.opener(of_log), clock);
        auto other = test::attach(*engine, bystander);
        auto file = test::attach(*engine, target, true, of_target);
        FaultPlan& plan = given.fault.of_target ? *of_target : *of_log;
        plan.fail(given.fault.operation, nth, given.for_ever ? 1000000 : 1, given.fault.sys_errno,
                  given.fault.bytes_done_first);

        const Content theirs = test::bytes_of(5000, 77);
        Content now;
        bool said = false;
        const auto told = [&](const Status& status) {
            if (!status) {
                said = true;
                EXPECT_TRUE(test::names_file_and_cause(status, given.fault));
            }
            return status.is_ok();
        };
        // What fails leaves what it likes: nothing is compared after that.
        const auto write = [&](std::uint64_t offset, io::Bytes bytes, ByteClass byte_class) {
            if (!told(file->write(offset, bytes, byte_class))) return false;
            if (now.size() < offset + bytes.size()) now.resize(offset + bytes.size());
            std::copy(bytes.begin(), bytes.end(), now.begin() + static_cast<std::ptrdiff_t>(offset));
            return true;
        };
        const auto truncate = [&](std::uint64_t size) {
            if (!told(file->truncate(size))) return false;
            now.resize(size);
            return true;
        };
        bool whole = true;
        for (std::uint64_t i = 0; whole && i < 16; ++i) {
            // Some adjoin, some overwrite others, some have gaps between them.
            const std::uint64_t offset = i < 4 ? i * 6000 : i < 8 ? i * 20000 : (i - 8) * 13000;
            whole = write(offset, test::bytes_of(6000, i), i % 3 == 0 ? ByteClass::kMetadata : ByteClass::kRaw);
            // Longer; twice shorter than what the target has; longer at the end.
            if (whole && i % 4 == 3) whole = truncate(std::array{40000, 70000, 50000, 130000}[i / 4]);
            if (!whole) break;
            ASSERT_EQ(file->size(), now.size());
            ASSERT_TRUE(test::same(test::read(*file, 0, now.size()), now));
            if (i % 2 == 1 && told(file->commit()) && i % 4 == 1) (void)told(file->drain());
        }
        if (given.fault.of_target) {
            ASSERT_TRUE(other->write(0, theirs, ByteClass::kRaw));
            ASSERT_TRUE(other->commit());
        }
        const bool closed = told(engine->detach(file, true));
        fired = plan.fired() > 0;
        met += fired ? 1 : 0;
        if (!fired) {
            EXPECT_FALSE(said);
        }
        // What passes is not even told, if it may be tried again, or a flush or the close has made it good; what does
        // not is told by the close at the latest. Of the log's own faults only those of its sync concern the program.
        if (given.fault.of_target && given.fault.operation == Operation::kWrite && fired && whole) {
            if (given.on_error == OnError::kRetry || given.for_ever) {
                EXPECT_EQ(closed && !said, !given.for_ever);
            } else {
                EXPECT_TRUE(closed || said);
            }
        }
        if (given.fault.operation == Operation::kSync && fired) {
            EXPECT_TRUE(said);
        }
        if (!given.fault.of_target && given.fault.operation != Operation::kSync) {
            EXPECT_FALSE(said);
        }
        if (whole && closed) {
            EXPECT_TRUE(test::same(target.contents(), now));
        } else if (whole && file->lifecycle().leaves_log()) {
            // What a dead process would leave is brought home.
            test::Crash crash(*area.shared_open(), [&] { return target.contents(); }, target.identity());
            auto report = crash.recover();
            ASSERT_TRUE(report);
            EXPECT_TRUE(test::same(crash.contents(), now));
        } else if (whole) {
            EXPECT_TRUE(test::same(target.contents(), now));
        }
        if (given.fault.of_target) {
            ASSERT_TRUE(engine->detach(other, true));
            EXPECT_TRUE(test::same(bystander.contents(), theirs));
        } else {
            (void)engine->detach(other, true);
        }
    }
    EXPECT_FALSE(fired);
    EXPECT_GT(met, 0u) << "no call that could fail";
}

INSTANTIATE_TEST_SUITE_P(Every, FaultPolicy, testing::ValuesIn(test::fault_cases(kFaults)),
                         [](const auto& given) { return name_of(given.param); });

}   // namespace
}   // namespace forebay
