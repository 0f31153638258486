// A file that nobody wanted staged when it was opened, and then somebody does.
#include <gtest/gtest.h>

#include <cerrno>

#include "support/crash.h"
#include "support/engine_fixture.h"
#include "support/late_target.h"
#include "support/scripted_file.h"

namespace forebay::stage {
namespace {

using test::Area;
using test::bytes_of;
using test::same;
using test::Target;

struct Unstaged {
    explicit Unstaged(ledger::AsideReason reason = ledger::AsideReason::kDisabled) {
        engine = Engine::create(test::small_options(), area.opener());
        auto attached = engine->attach({.file = target.open(), .writable = true, .aside = reason});
        EXPECT_TRUE(attached);
        file = attached.value().file;
    }
    [[nodiscard]] bool begins() {
        if (engine->area().obstacle()) return false;
        const auto begun = file->lifecycle().begin_staging();
        EXPECT_TRUE(begun) << begun.status().message();
        return begun && begun.value();
    }
    Area area;
    Target target;
    std::unique_ptr<Engine> engine;
    std::shared_ptr<StagedFile> file;
};

TEST(BeginStaging, what_was_written_before_and_after_is_in_the_file) {
    Unstaged unstaged;
    auto expected = bytes_of(200000, 1);
    ASSERT_TRUE(unstaged.file->write(0, expected, ByteClass::kRaw));
    EXPECT_TRUE(same(unstaged.target.contents(), expected));
    ASSERT_TRUE(unstaged.begins());
    EXPECT_TRUE(unstaged.file->staged());
    unstaged.file->log().pause_drain();
    const auto more = bytes_of(100000, 2);
    ASSERT_TRUE(unstaged.file->write(150000, more, ByteClass::kRaw));
    EXPECT_TRUE(same(unstaged.target.contents(), expected));   // it is held back
    expected.resize(250000);
    std::copy(more.begin(), more.end(), expected.begin() + 150000);
    EXPECT_TRUE(same(test::read(*unstaged.file, 0, 250000), expected));
    EXPECT_GT(unstaged.file->counters().staged, 0u);
    EXPECT_TRUE(unstaged.engine->detach(unstaged.file, true));
    EXPECT_TRUE(same(unstaged.target.contents(), expected));
}

TEST(BeginStaging, a_crash_leaves_the_file_as_it_was_when_staging_began_or_at_the_last_flush) {
    Unstaged unstaged;
    auto expected = bytes_of(50000, 3);
    ASSERT_TRUE(unstaged.file->write(0, expected, ByteClass::kRaw));
    ASSERT_TRUE(unstaged.begins());
    unstaged.file->log().pause_drain();
    ASSERT_TRUE(unstaged.file->write(10, bytes_of(1000, 4), ByteClass::kMetadata));
    const auto recovered = [&] {
        test::Crash crash(
            *unstaged.area.shared_open(), [&] { return unstaged.target.contents(); }, unstaged.target.identity());
        EXPECT_TRUE(crash.recover());
        return crash.contents();
    };
    EXPECT_TRUE(same(recovered(), expected));
    ASSERT_TRUE(unstaged.file->commit());
    const auto flushed = bytes_of(1000, 4);
    std::copy(flushed.begin(), flushed.end(), expected.begin() + 10);
    ASSERT_TRUE(unstaged.file->write(20, bytes_of(1000, 5), ByteClass::kMetadata));
    EXPECT_TRUE(same(recovered(), expected));
    EXPECT_TRUE(unstaged.engine->detach(unstaged.file, true));
}

TEST(BeginStaging, a_file_that_stepped_aside_for_another_reason_stays_aside) {
    Unstaged unstaged(ledger::AsideReason::kSwmr);
    EXPECT_FALSE(unstaged.begins());
    EXPECT_FALSE(unstaged.file->staged());
    EXPECT_TRUE(unstaged.engine->detach(unstaged.file, true));
}

TEST(BeginStaging, it_may_end_and_begin_again) {
    Unstaged unstaged;
    std::vector<std::byte> expected;
    for (int turn = 0; turn < 5; ++turn) {
        EXPECT_TRUE(unstaged.begins());
        EXPECT_FALSE(unstaged.begins());   // it is staged already
        for (int i = 0; i < 3; ++i) {
            const auto bytes = bytes_of(70000, static_cast<std::uint64_t>(10 * turn + i));
            const std::size_t offset = static_cast<std::size_t>(turn * 30000 + i * 50000);
            ASSERT_TRUE(unstaged.file->write(offset, bytes, ByteClass::kRaw));
            expected.resize(std::max(expected.size(), offset + bytes.size()));
            std::copy(bytes.begin(), bytes.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
            if (i == 1) {
                ASSERT_TRUE(unstaged.file->lifecycle().step_aside(ledger::AsideReason::kDisabled));
            }
        }
        EXPECT_TRUE(same(unstaged.target.contents(), expected));
    }
    EXPECT_TRUE(unstaged.engine->detach(unstaged.file, true));
}

// The log lacks these bytes, and the target may still lose them.
TEST(BeginStaging, a_report_about_bytes_from_before_fails_every_later_flush_and_the_close) {
    for (const bool again : {false, true}) {
        SCOPED_TRACE(again ? "staged for the second time" : "staged for the first time");
        Area area;
        Target target;
        const auto client = std::make_shared<test::LateClient>();
        auto options = test::small_options();
        options.options.flush = OnFlush::kDrain;
        const auto engine = Engine::create(options, area.opener());
        const auto file = engine
                              ->attach({.file = std::make_unique<test::LateFile>(target.open(), client),
                                        .writable = true,
                                        .aside = ledger::AsideReason::kDisabled})
                              .value()
                              .file;
        ASSERT_FALSE(engine->area().obstacle());
        if (again) {
            ASSERT_TRUE(file->lifecycle().begin_staging().value());
            ASSERT_TRUE(file->lifecycle().step_aside(ledger::AsideReason::kDisabled));
        }
        ASSERT_TRUE(file->write(0, bytes_of(100000, 6), ByteClass::kRaw));
        ASSERT_TRUE(file->lifecycle().begin_staging().value());
        ASSERT_TRUE(file->write(100000, bytes_of(100000, 7), ByteClass::kRaw));
        client->lose();
        EXPECT_EQ(client->losses(), 1u);
        for (int i = 0; i < 3; ++i) EXPECT_FALSE(file->commit());
        EXPECT_FALSE(engine->detach(file, true));
    }
}

TEST(BeginStaging, a_failure_that_is_told_meanwhile_is_kept) {
    Area area;
    Target target;
    std::shared_ptr<StagedFile> file;
    const auto engine = Engine::create(test::small_options(), area.opener());
    auto scripted = test::scripted(target.open(), [&file](const test::FileCall& call) {
        if (call.operation != io::Operation::kSize || file == nullptr) return Status::ok();
        drain::OutflowState& state = file->state().outflow.state;
        const LockGuard lock(state.mutex);
        state.halt(Status::from_errno(EIO, "sync run.h5"));   // the end of a sync that was given up
        return Status::ok();
    });
    file = engine->attach({.file = std::move(scripted), .writable = true, .aside = ledger::AsideReason::kDisabled})
               .value()
               .file;
    ASSERT_FALSE(engine->area().obstacle());
    EXPECT_EQ(file->lifecycle().begin_staging().status().sys_errno(), EIO);
    EXPECT_FALSE(file->staged());
    EXPECT_EQ(engine->detach(file, true).sys_errno(), EIO);
}

}   // namespace
}   // namespace forebay::stage
