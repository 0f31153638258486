// Faults of opening, reading and asking for a size, and devices that fail for good from some call on.
#include <gtest/gtest.h>

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
using test::Target;
using Content = std::vector<std::byte>;
constexpr std::uint64_t kForEver = 1'000'000;

TEST(DeviceFault, a_read_of_the_target_that_fails_is_that_read_s_error_and_no_more) {
    Area area;
    Target target;
    const auto plan = std::make_shared<FaultPlan>();
    const auto engine = stage::Engine::create(test::small_options(), area.opener());
    const auto file = test::attach(*engine, target, true, plan);
    const Content home = test::bytes_of(50'000, 1), staged = test::bytes_of(10'000, 2);
    ASSERT_TRUE(file->write(0, home, ByteClass::kRaw));
    ASSERT_TRUE(file->commit());
    ASSERT_TRUE(file->drain());
    ASSERT_TRUE(file->write(20'000, staged, ByteClass::kMetadata));
    Content now = home;
    std::copy(staged.begin(), staged.end(), now.begin() + 20'000);

    plan->fail(Operation::kRead, 1, 2, EIO);
    Content into(now.size());
    for (int i = 0; i < 2; ++i) {
        const Status read = file->read(0, into);
        EXPECT_EQ(read.sys_errno(), EIO);
        EXPECT_NE(read.message().find("run.h5"), std::string::npos) << read.message();
        // What is staged needs no target.
        EXPECT_TRUE(test::same(test::read(*file, 20'000, staged.size()), staged));
    }
    EXPECT_EQ(plan->fired(), 2u);
    EXPECT_TRUE(test::same(test::read(*file, 0, now.size()), now));
    EXPECT_TRUE(file->commit());
    EXPECT_TRUE(engine->detach(file, true));
    EXPECT_TRUE(test::same(target.contents(), now));
}

TEST(DeviceFault, a_target_whose_size_cannot_be_had_is_not_opened) {
    for (const bool writable : {true, false}) {
        Area area;
        Target target;
        const auto plan = std::make_shared<FaultPlan>();
        const auto engine = stage::Engine::create(test::small_options(), area.opener());
        plan->fail(Operation::kSize, 1, 1, ESTALE);
        const auto refused = engine->attach({target.open(plan), writable});
        EXPECT_EQ(plan->fired(), 1u);
        EXPECT_EQ(refused.status().sys_errno(), ESTALE) << refused.status().message();
        EXPECT_NE(refused.status().message().find("run.h5"), std::string::npos) << refused.status().message();
        EXPECT_EQ(engine->files().find(target.identity()), nullptr);
        // It can be opened as soon as that works again.
        const auto file = test::attach(*engine, target, true, plan);
        ASSERT_TRUE(file->write(0, test::bytes_of(100, 1), ByteClass::kRaw));
        EXPECT_TRUE(engine->detach(file, true));
        EXPECT_EQ(target.contents().size(), 100u);
    }
}

struct Row {
    const char* name;
    Operation operation;
    int sys_errno;
};
class AtFirstOpen : public testing::TestWithParam<Row> {};

TEST_P(AtFirstOpen, of_the_staging_device_means_writing_without_it_or_with_strict_an_error) {
    for (const bool strict : {false, true}) {
        bool fired = true;
        std::uint64_t nth = 1;
        for (; fired && nth < 50; ++nth) {
            SCOPED_TRACE(testing::Message() << (strict ? "strict, call " : "call ") << nth);
            LoadedOptions loaded = test::small_options();
            loaded.options.strict = strict;
            Area area;
            Target target, second(2, "/scratch/second.h5");
            const auto plan = std::make_shared<FaultPlan>();
            const auto engine = stage::Engine::create(loaded, area.opener(plan));
            plan->fail(GetParam().operation, nth, kForEver, GetParam().sys_errno);
            const auto attached = engine->attach({target.open(), true});
            fired = plan->fired() > 0;
            if (strict && fired) {
                EXPECT_EQ(attached.status().sys_errno(), GetParam().sys_errno) << attached.status().message();
                continue;
            }
            ASSERT_TRUE(attached) << attached.status().message();
            const auto file = attached.value().file;
            EXPECT_EQ(file->staged(), !fired);
            EXPECT_EQ(attached.value().warning.empty(), !fired);
            if (fired) {
                const auto again = engine->attach({second.open(), true});
                ASSERT_TRUE(again);
                EXPECT_EQ(again.value().warning, "");   // once is enough
                EXPECT_TRUE(engine->detach(again.value().file, true));
            }
            const Content bytes = test::bytes_of(30'000, 1);
            ASSERT_TRUE(file->write(0, bytes, ByteClass::kRaw));
            EXPECT_TRUE(file->commit());
            EXPECT_TRUE(engine->detach(file, true));
            EXPECT_TRUE(test::same(target.contents(), bytes));
        }
        EXPECT_FALSE(fired);
        EXPECT_GT(nth, 2u);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Every, AtFirstOpen,
    testing::Values(Row{"open", Operation::kOpen, EIO}, Row{"create_directory", Operation::kCreateDirectory, ENOSPC},
                    Row{"resize", Operation::kResize, ENOSPC}, Row{"map", Operation::kMap, ENOMEM}),
    [](const auto& given) { return given.param.name; });

// From the Nth call on every one fails, of whatever kind.
struct Gone {
    bool of_target;
    OnError on_error;
    Durability durability;
};
std::string name_of(const Gone& a) {
    return (a.of_target ? "target_" : "log_") + test::name_of(a.on_error, a.durability);
}
class DeviceGone : public testing::TestWithParam<Gone> {};

TEST_P(DeviceGone, from_the_nth_call_on_and_no_byte_is_lost_unsaid) {
    const Gone& given = GetParam();
    LoadedOptions loaded = test::small_options();
    loaded.options.patience = 31'536'000;
    loaded.options.on_error = given.on_error;
    loaded.options.durability = given.durability;
    loaded.options.segment = 16 << 10;
    loaded.options.size = 128 << 10;
    bool fired = true;
    for (std::uint64_t nth = 1; fired && nth < 300; ++nth) {
        SCOPED_TRACE(testing::Message() << "call " << nth);
        Area area;
        Target target, bystander(2);
        const auto plan = std::make_shared<FaultPlan>();
        // It jumps over the pauses between attempts.
        const auto clock = std::make_shared<test::JumpingClock>(nullptr, std::chrono::seconds(1));
        const auto engine = stage::Engine::create(loaded, area.opener(given.of_target ? nullptr : plan), clock);
        const auto other = test::attach(*engine, bystander);
        const auto file = test::attach(*engine, target, true, given.of_target ? plan : nullptr);
        plan->fail_any(nth, kForEver, EIO);
        bool said = false;
        const auto told = [&](const Status& status) {
            said = said || !status.is_ok();
            return status.is_ok();
        };
        Content now;
        bool whole = true;
        for (std::uint64_t i = 0; whole && i < 12; ++i) {
            const Content bytes = test::bytes_of(9000, i);
            const std::uint64_t offset = i < 8 ? i * 9000 : (i - 8) * 5000;
            whole = told(file->write(offset, bytes, i % 3 == 0 ? ByteClass::kMetadata : ByteClass::kRaw));
            if (!whole) break;
            if (now.size() < offset + bytes.size()) now.resize(offset + bytes.size());
            std::copy(bytes.begin(), bytes.end(), now.begin() + static_cast<std::ptrdiff_t>(offset));
            Content back(now.size());
            if (told(file->read(0, back))) {
                ASSERT_TRUE(test::same(back, now));
            }
            if (i % 4 == 3) (void)told(file->commit());
        }
        const Content theirs = test::bytes_of(5000, 77);
        EXPECT_TRUE(other->write(0, theirs, ByteClass::kRaw));
        const bool closed = told(engine->detach(file, true));
        fired = plan->fired() > 0;
        EXPECT_TRUE(fired || !said);
        if (closed && whole) {
            EXPECT_TRUE(test::same(target.contents(), now));
        } else if (whole && file->lifecycle().leaves_log()) {
            test::Crash crash(*area.shared_open(), [&] { return target.contents(); }, target.identity());
            ASSERT_TRUE(crash.recover());
            EXPECT_TRUE(test::same(crash.contents(), now));
        }
        if (!given.of_target && given.durability == Durability::kProcess) {
            EXPECT_FALSE(said);   // memory is as good as the device for as long as the process lives
        }
        const bool other_closed = engine->detach(other, true).is_ok();
        EXPECT_TRUE(other_closed || (!given.of_target && given.durability == Durability::kNode));
        EXPECT_TRUE(test::same(bystander.contents(), theirs));
    }
    EXPECT_FALSE(fired);
}

INSTANTIATE_TEST_SUITE_P(
    Every, DeviceGone,
    testing::Values(Gone{true, OnError::kFail, Durability::kProcess}, Gone{true, OnError::kRetry, Durability::kProcess},
                    Gone{true, OnError::kThrough, Durability::kProcess}, Gone{true, OnError::kFail, Durability::kNode},
                    Gone{false, OnError::kFail, Durability::kProcess}, Gone{false, OnError::kFail, Durability::kNode}),
    [](const auto& given) { return name_of(given.param); });

}   // namespace
}   // namespace forebay
