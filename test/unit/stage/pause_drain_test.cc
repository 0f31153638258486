// A program that holds back the drain of a file: nothing drains until it lets go, and nothing hangs before.
#include <gtest/gtest.h>

#include "support/engine_fixture.h"
#include "support/scripted_file.h"

namespace forebay::stage {
namespace {

using test::Area;
using test::bytes_of;
using test::same;
using test::Target;

constexpr std::uint64_t kLog = 4 << 20;   // test::small_options

struct Held {
    explicit Held(const LoadedOptions& options = test::small_options()) {
        engine = Engine::create(options, area.opener());
        file = test::attach(*engine, target, true);
        file->log().pause_drain();
    }
    ~Held() {
        file.reset();
        engine.reset();
    }
    // What a drain thread would be given now.
    [[nodiscard]] bool has_work() { return static_cast<bool>(file->state().outflow.take()); }

    Area area;
    Target target;
    std::unique_ptr<Engine> engine;
    std::shared_ptr<StagedFile> file;
};

TEST(HoldBack, what_is_staged_and_committed_stays_in_the_log) {
    Held held;
    const auto bytes = bytes_of(kLog / 2, 1);
    ASSERT_TRUE(held.file->write(0, bytes, ByteClass::kRaw));
    ASSERT_TRUE(held.file->commit());
    EXPECT_FALSE(held.has_work());
    EXPECT_EQ(held.file->counters().drained, 0u);
    EXPECT_TRUE(held.file->log().drain_paused());
    EXPECT_TRUE(held.engine->detach(held.file, true));
    EXPECT_TRUE(same(held.target.contents(), bytes));
}

TEST(HoldBack, letting_go_drains) {
    Held held;
    const auto bytes = bytes_of(kLog / 2, 2);
    ASSERT_TRUE(held.file->write(0, bytes, ByteClass::kRaw));
    held.file->log().resume_drain();
    EXPECT_FALSE(held.file->log().drain_paused());
    ASSERT_TRUE(held.file->drain(DrainScope::kReady));
    EXPECT_TRUE(same(held.target.contents(), bytes));
    EXPECT_TRUE(held.engine->detach(held.file, true));
}

TEST(HoldBack, a_full_log_ends_it) {
    Held held;
    const auto bytes = bytes_of(3 * kLog, 3);
    ASSERT_TRUE(held.file->write(0, bytes, ByteClass::kRaw));
    EXPECT_FALSE(held.file->log().drain_paused());
    EXPECT_TRUE(held.engine->detach(held.file, true));
    EXPECT_TRUE(same(held.target.contents(), bytes));
}

TEST(HoldBack, another_file_in_want_of_room_ends_it) {
    Held held;
    const auto bytes = bytes_of(kLog / 2, 4);
    ASSERT_TRUE(held.file->write(0, bytes, ByteClass::kRaw));
    Target other_target{8};
    const auto other = test::attach(*held.engine, other_target, true);
    other->log().pause_drain();
    const auto more = bytes_of(3 * kLog, 5);
    ASSERT_TRUE(other->write(0, more, ByteClass::kRaw));
    EXPECT_FALSE(held.file->log().drain_paused());
    EXPECT_TRUE(held.engine->detach(other, true));
    EXPECT_TRUE(held.engine->detach(held.file, true));
    EXPECT_TRUE(same(held.target.contents(), bytes));
    EXPECT_TRUE(same(other_target.contents(), more));
}

TEST(HoldBack, a_flush_that_drains_ends_it) {
    auto options = test::small_options();
    options.options.flush = OnFlush::kDrain;
    Held held(options);
    const auto bytes = bytes_of(100000, 6);
    ASSERT_TRUE(held.file->write(0, bytes, ByteClass::kRaw));
    ASSERT_TRUE(held.file->commit());
    EXPECT_TRUE(same(held.target.contents(), bytes));
    EXPECT_TRUE(held.engine->detach(held.file, true));
}

TEST(HoldBack, a_file_is_not_held_back_when_it_is_opened_again) {
    Held held;
    ASSERT_TRUE(held.file->write(0, bytes_of(1000, 7), ByteClass::kRaw));
    EXPECT_TRUE(held.engine->detach(held.file, true));
    held.file = test::attach(*held.engine, held.target, true);
    EXPECT_FALSE(held.file->log().drain_paused());
    EXPECT_TRUE(held.engine->detach(held.file, true));
}

// Another thread of the program holds the drain back during each write of it.
struct HeldMeanwhile {
    explicit HeldMeanwhile(OnFlush flush = OnFlush::kCommit) {
        auto options = test::small_options();
        options.options.flush = flush;
        engine = Engine::create(options, area.opener());
        auto scripted = test::scripted(target.open(), [this](const test::FileCall& call) {
            if (call.operation == io::Operation::kWrite) file->log().pause_drain();
            return Status::ok();
        });
        file = engine->attach({std::move(scripted), true}).value().file;
        file->log().pause_drain();
        EXPECT_TRUE(file->write(0, bytes, ByteClass::kRaw));   // more than is planned at a time
        EXPECT_EQ(file->counters().drained, 0u);
    }

    Area area;
    Target target;
    const std::vector<std::byte> bytes = bytes_of(kLog / 2, 10);
    std::unique_ptr<Engine> engine;
    std::shared_ptr<StagedFile> file;
};

TEST(HoldBack, a_close_meanwhile_drains_everything) {
    HeldMeanwhile held;
    EXPECT_TRUE(held.engine->detach(held.file, true));
    EXPECT_TRUE(same(held.target.contents(), held.bytes));
    EXPECT_FALSE(held.file->lifecycle().failed());
}

TEST(HoldBack, a_flush_that_drains_meanwhile_drains_everything) {
    HeldMeanwhile held(OnFlush::kDrain);
    EXPECT_TRUE(held.file->commit());
    EXPECT_TRUE(same(held.target.contents(), held.bytes));
    EXPECT_TRUE(held.engine->detach(held.file, true));
}

TEST(HoldBack, a_file_that_steps_aside_meanwhile_loses_nothing) {
    HeldMeanwhile held;
    EXPECT_TRUE(held.file->lifecycle().step_aside(ledger::AsideReason::kDisabled));
    EXPECT_TRUE(same(held.target.contents(), held.bytes));
    EXPECT_TRUE(held.engine->detach(held.file, true));
}

TEST(HoldBack, draining_what_may_drain_leaves_what_a_commit_has_to_come_before) {
    Held held;
    const auto first = bytes_of(50000, 8), second = bytes_of(50000, 9);
    ASSERT_TRUE(held.file->write(0, first, ByteClass::kRaw));
    ASSERT_TRUE(held.file->commit());
    ASSERT_TRUE(held.file->drain(DrainScope::kReady));
    EXPECT_TRUE(same(held.target.contents(), first));
    ASSERT_TRUE(held.file->write(0, second, ByteClass::kRaw));   // below the committed end
    ASSERT_TRUE(held.file->drain(DrainScope::kReady));
    EXPECT_TRUE(same(held.target.contents(), first));
    EXPECT_EQ(held.file->counters().guarantee_given_up, 0u);
    EXPECT_TRUE(held.engine->detach(held.file, true));
    EXPECT_TRUE(same(held.target.contents(), second));
}

}   // namespace
}   // namespace forebay::stage
