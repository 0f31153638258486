// Option on_error for a file that several participants write together: what a fault of the drainer's target comes to.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>

#include "support/fault_cases.h"
#include "support/jumping_clock.h"
#include "support/team_files.h"

namespace forebay {
namespace {

using io::FaultPlan;
using io::Operation;
using stage::ByteClass;
using test::bytes_of;
using test::Fault;
using test::FaultCase;
using test::Participants;
using test::same;
using Content = std::vector<std::byte>;

constexpr std::size_t kCount = 3;

LoadedOptions options(OnError on_error, Durability durability = Durability::kProcess) {
    LoadedOptions loaded = test::small_options();
    loaded.options.on_error = on_error;
    loaded.options.durability = durability;
    loaded.options.segment = 16 << 10;
    loaded.options.size = 256 << 10;
    return loaded;
}

constexpr Fault kFaults[] = {{"eio", Operation::kWrite, EIO},       {"enospc", Operation::kWrite, ENOSPC},
                             {"eacces", Operation::kWrite, EACCES}, {"short", Operation::kWrite, EIO, 100},
                             {"resize", Operation::kResize, EIO},   {"sync", Operation::kSync, EIO}};

class FaultPolicyOfParticipants : public testing::TestWithParam<FaultCase> {};

TEST_P(FaultPolicyOfParticipants, the_nth_call_fails_and_no_byte_is_lost_unsaid) {
    const FaultCase& given = GetParam();
    const bool may_pass = given.fault.sys_errno != EACCES;
    bool fired = true;
    std::uint64_t met = 0, through = 0;
    for (std::uint64_t nth = 1; fired && nth < 200 && !HasFailure(); ++nth) {
        SCOPED_TRACE(testing::Message() << "call " << nth);
        auto plan = std::make_shared<FaultPlan>();
        // The clock jumps over the pauses between attempts.
        Participants node(kCount, options(given.on_error, given.durability), plan, {}, false,
                          {.clock = std::make_shared<test::JumpingClock>(nullptr, std::chrono::seconds(1))});
        node.listen();
        plan->fail(given.fault.operation, nth, given.for_ever ? 1000000 : 1, given.fault.sys_errno,
                   given.fault.bytes_done_first);
        test::PlainBytes now;
        bool said = false;
        const auto told = [&](const Status& status) {
            if (!status) {
                said = true;
                EXPECT_TRUE(test::names_file_and_cause(status, given.fault));
            }
            return status.is_ok();
        };
        for (std::uint64_t i = 0; i < 16; ++i) {
            // The drainer's own writes would meet the fault themselves.
            const std::size_t who = node.group(0).target().bypasses_log() ? 1 + i % (kCount - 1) : i % kCount;
            const auto bytes = bytes_of(5000, i);
            // Some adjoin, some overwrite others, some have gaps between them.
            const std::uint64_t offset = i < 4 ? i * 5000 : i < 8 ? i * 17000 : (i - 8) * 11000;
            const ByteClass byte_class = i % 3 == 0 ? ByteClass::kMetadata : ByteClass::kRaw;
            Status written = node.write(who, offset, bytes, byte_class);
            // The drain may have failed just now. The others go on staging while a write of it is in flight.
            if (!written && who == 0 && given.on_error == OnError::kThrough)
                written = node.write(1 + i % (kCount - 1), offset, bytes, byte_class);
            ASSERT_TRUE(written) << written.message();
            now.write(offset, bytes);
            if (i % 4 == 3) {
                // Longer; twice shorter than what the target has; longer at the end.
                const std::uint64_t size = std::array{40000, 60000, 30000, 110000}[i / 4];
                const Status cut = node.truncate(size);
                ASSERT_TRUE(cut) << cut.message();
                now.content.resize(size);
            }
            for (std::size_t reader = 0; reader < kCount; ++reader)
                ASSERT_TRUE(same(node.read(reader, 0, now.content.size()), now.content))
                    << "write " << i << ", reader " << reader;
            if (i % 2 == 1 && told(node.commit())) (void)told(node.drain());
        }
        for (std::size_t i = 0; i < kCount; ++i) through += node.file(i).counters().through;
        const bool closed = told(node.close());
        fired = plan->fired() > 0;
        met += fired ? 1 : 0;
        if (!fired) {
            EXPECT_FALSE(said);
        }
        if (fired && given.fault.operation != Operation::kSync) {
            EXPECT_EQ(closed && !said, given.on_error == OnError::kRetry && !given.for_ever && may_pass);
        }
        if (fired && given.fault.operation == Operation::kSync) {
            EXPECT_TRUE(said);
        }
        if (closed || !node.file(0).lifecycle().leaves_log()) {
            EXPECT_TRUE(same(node.target().contents(), now.content));
        } else {
            // What dead processes would leave is brought home.
            EXPECT_TRUE(same(node.recovered(), now.content));
        }
    }
    EXPECT_FALSE(fired);
    EXPECT_GT(met, 0u) << "no call that could fail";
    if (given.on_error == OnError::kThrough && given.fault.operation == Operation::kWrite) {
        EXPECT_GT(through, 0u);
    } else if (given.on_error != OnError::kThrough) {
        EXPECT_EQ(through, 0u);
    }
}

INSTANTIATE_TEST_SUITE_P(Every, FaultPolicyOfParticipants, testing::ValuesIn(test::fault_cases(kFaults)),
                         [](const auto& given) { return name_of(given.param); });

TEST(OnErrorThrough, later_writes_of_every_participant_are_in_the_target_at_once_and_stay_the_newest) {
    auto plan = std::make_shared<FaultPlan>();
    Participants node(kCount, options(OnError::kThrough), plan);
    test::PlainBytes now;
    for (std::size_t i = 0; i < kCount; ++i) {
        const auto bytes = bytes_of(9000, i);
        ASSERT_TRUE(node.write(i, 3000 * i, bytes));
        now.write(3000 * i, bytes);
    }
    const test::PlainBytes committed = now;
    plan->fail(Operation::kWrite, 1, 1, EIO);
    // Whichever of the two comes after the failed write reports it.
    const Status committing = node.commit();
    EXPECT_FALSE(committing && node.drain());
    for (const std::size_t writer : {1, 2, 0}) {
        const auto bytes = bytes_of(2000, 10 + writer);
        const std::uint64_t offset = 1500 + 1000 * writer;
        ASSERT_TRUE(node.write(writer, offset, bytes));
        now.write(offset, bytes);
        EXPECT_EQ(node.file(writer).counters().through, 2000u);
        const auto there = node.target().contents();
        ASSERT_GE(there.size(), offset + 2000);
        EXPECT_TRUE(same({there.begin() + static_cast<std::ptrdiff_t>(offset),
                          there.begin() + static_cast<std::ptrdiff_t>(offset) + 2000},
                         bytes));
        for (std::size_t reader = 0; reader < kCount; ++reader)
            EXPECT_TRUE(same(node.read(reader, 0, now.content.size()), now.content));
    }
    EXPECT_TRUE(same(node.recovered(), committed.content)) << "what went through was never committed";
    const Status closed = node.close();
    EXPECT_FALSE(closed) << "an earlier call failed";
    EXPECT_TRUE(same(node.target().contents(), now.content));
}

// Everybody's log is full, and nothing can be drained any more.
TEST(OnErrorThrough, nobody_waits_for_room_that_will_not_come) {
    auto plan = std::make_shared<FaultPlan>();
    LoadedOptions loaded = options(OnError::kThrough);
    loaded.options.size = 32 << 10;
    Participants node(2, loaded, plan);
    node.listen();
    plan->fail(Operation::kWrite, 1, 1000000, EIO);
    test::PlainBytes now;
    for (std::uint64_t i = 0; i < 30; ++i) {
        const auto bytes = bytes_of(4000, i);
        ASSERT_TRUE(node.write(1, 4000 * i, bytes)) << i;
        now.write(4000 * i, bytes);
        ASSERT_TRUE(same(node.read(0, 0, now.content.size()), now.content));
    }
    EXPECT_GT(node.file(1).counters().through, 50000u);
    EXPECT_FALSE(node.close());
    EXPECT_TRUE(same(node.recovered(), now.content));
}

}   // namespace
}   // namespace forebay
