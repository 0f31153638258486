// Option deadline: near the end of the job closes and flushes wait, writes wait for room, and the user is told once.
// The end lies in the past or far away, so no test waits for it.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>

#include "io/fault_file.h"
#include "support/engine_fixture.h"

namespace forebay::stage {
namespace {

using io::FaultPlan;
using io::Operation;
using test::Area;
using test::bytes_of;
using test::same;
using test::Target;

constexpr const char* kOver = "2001-01-01T00:00Z";

class AtTheEnd : public testing::Test {
  protected:
    void start(const char* deadline, OnClose close = OnClose::kDeferred) {
        auto options = test::small_options();
        options.options.deadline = deadline;
        options.options.close = close;
        engine_ = Engine::create(options, area_.opener());
        engine_->warn_by([this](const std::string& message) {
            ++warnings_;
            warning_ = message;
        });
    }
    // As the driver closes it.
    Engine::Detached close(const std::shared_ptr<StagedFile>& file) {
        return engine_->detach(file, true, [](Ended) { return Status::ok(); });
    }
    ~AtTheEnd() override {
        plan_->let_go();
        engine_.reset();
    }

    Area area_;
    Target target_, other_target_{2};
    std::shared_ptr<FaultPlan> plan_ = std::make_shared<FaultPlan>();
    std::unique_ptr<Engine> engine_;
    std::atomic<int> warnings_{0};
    std::string warning_;
};

TEST_F(AtTheEnd, a_close_waits_is_counted_and_the_user_is_told_once) {
    start(kOver);
    for (int i = 0; i < 3; ++i) {
        const auto file = test::attach(*engine_, target_);
        const auto bytes = bytes_of(200'000, static_cast<std::uint64_t>(i));
        file->log().pause_drain();   // nothing may drain before the close, if that is heeded
        ASSERT_TRUE(file->write(0, bytes, ByteClass::kRaw));
        const auto closed = close(file);
        EXPECT_TRUE(closed.outcome);
        EXPECT_FALSE(closed.deferred);
        EXPECT_TRUE(same(target_.contents(), bytes));
    }
    EXPECT_EQ(warnings_, 1);
    EXPECT_NE(warning_.find("the job has reached its end"), std::string::npos) << warning_;
    EXPECT_NE(engine_->statistics().find(R"("deadline":true)"), std::string::npos) << engine_->statistics();
    EXPECT_NE(engine_->statistics().find(R"("deferred_closes":0)"), std::string::npos) << engine_->statistics();
}

TEST_F(AtTheEnd, a_flush_drains) {
    start(kOver, OnClose::kWait);
    const auto file = test::attach(*engine_, target_);
    const auto bytes = bytes_of(1000, 4);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kMetadata));
    EXPECT_TRUE(file->commit());
    EXPECT_TRUE(same(target_.contents(), bytes));
    EXPECT_EQ(file->counters().pending, 0u);
    EXPECT_EQ(warnings_, 1);
    EXPECT_TRUE(engine_->detach(file, true));
}

TEST_F(AtTheEnd, writes_wait_for_what_is_staged) {
    start(kOver, OnClose::kWait);
    const auto file = test::attach(*engine_, target_);
    const auto bytes = bytes_of(2 << 20, 5);   // half of the log
    for (std::size_t at = 0; at < bytes.size(); at += 64 << 10) {
        ASSERT_TRUE(file->write(at, std::span(bytes).subspan(at, 64 << 10), ByteClass::kRaw));
        // One target write, and the segment that was taken last.
        EXPECT_LE(file->counters().pending, 3 * std::uint64_t{64 << 10}) << at;
    }
    EXPECT_EQ(file->counters().guarantee_given_up, 0u);
    EXPECT_TRUE(engine_->detach(file, true));
    EXPECT_TRUE(same(target_.contents(), bytes));
}

TEST_F(AtTheEnd, what_waits_for_a_commit_is_not_waited_for) {
    start(kOver, OnClose::kWait);
    const auto file = test::attach(*engine_, target_);
    const auto bytes = bytes_of(1 << 20, 6);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kMetadata));
    EXPECT_EQ(file->counters().pending, bytes.size());
    EXPECT_EQ(file->counters().guarantee_given_up, 0u);
    EXPECT_TRUE(engine_->detach(file, true));
    EXPECT_TRUE(same(target_.contents(), bytes));
}

TEST_F(AtTheEnd, a_target_that_fails_fails_no_write) {
    start(kOver, OnClose::kWait);
    plan_->fail(Operation::kWrite, 1, ~std::uint64_t{0} >> 1, EIO);
    const auto file = test::attach(*engine_, target_, true, plan_);
    const auto bytes = bytes_of(1 << 20, 7);
    for (std::size_t at = 0; at < bytes.size(); at += 64 << 10)
        ASSERT_TRUE(file->write(at, std::span(bytes).subspan(at, 64 << 10), ByteClass::kRaw));
    EXPECT_TRUE(same(test::read(*file, 0, bytes.size()), bytes));
    EXPECT_EQ(engine_->detach(file, true).sys_errno(), EIO);
}

TEST_F(AtTheEnd, an_end_that_is_far_away_changes_nothing) {
    start("1000000h");
    plan_->hang(Operation::kWrite);
    const auto file = test::attach(*engine_, target_, true, plan_);
    const auto bytes = bytes_of(200'000, 8);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kRaw));
    const auto closed = close(file);
    EXPECT_TRUE(closed.outcome);
    EXPECT_TRUE(closed.deferred);
    EXPECT_EQ(warnings_, 0);
    plan_->let_go();
    EXPECT_TRUE(engine_->closes().await_all());
    EXPECT_TRUE(same(target_.contents(), bytes));
    EXPECT_EQ(engine_->statistics().find("deadline"), std::string::npos);
}

TEST_F(AtTheEnd, nothing_is_left_to_another_process) {
    start(kOver);
    const auto file = test::attach(*engine_, target_);
    const auto bytes = bytes_of(200'000, 9);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kRaw));
    EXPECT_TRUE(close(file).outcome);
    EXPECT_TRUE(engine_
                    ->end_of_process([](const std::string&) {
                        ADD_FAILURE() << "another process was started";
                        return Status::ok();
                    })
                    .empty());
    EXPECT_TRUE(same(target_.contents(), bytes));
}

}   // namespace
}   // namespace forebay::stage
