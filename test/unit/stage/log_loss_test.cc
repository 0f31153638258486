// The staging device tells that it has lost bytes of the log after it had taken them (FileLog::ever_lost). From then on
// no flush and no close succeeds, and no call makes the file forget its log.
#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "support/engine_fixture.h"
#include "support/losing_log.h"

namespace forebay {
namespace {

using io::FaultPlan;
using io::Operation;
using stage::ByteClass;
using test::bytes_of;

class LogLossOfAFile : public testing::TestWithParam<Durability> {
  protected:
    LogLossOfAFile() {
        loaded_.options.durability = GetParam();
        loaded_.options.flush = OnFlush::kCommit;
    }
    void open(const std::shared_ptr<FaultPlan>& plan = nullptr) {
        engine_ = stage::Engine::create(loaded_, test::losing(area_.opener(plan), loss_));
        file_ = test::attach(*engine_, target_);
        ASSERT_TRUE(file_->staged());
        ASSERT_TRUE(file_->write(0, bytes_of(20'000, 1), ByteClass::kRaw));
        ASSERT_TRUE(file_->write(20'000, bytes_of(500, 2), ByteClass::kMetadata));
    }
    // Flushes and the close fail, and not only the first of them.
    void expect_no_success() {
        for (int i = 0; i < 2; ++i) EXPECT_EQ(file_->commit().sys_errno(), EIO);
        EXPECT_EQ(engine_->detach(file_, true).sys_errno(), EIO);
    }

    LoadedOptions loaded_ = test::small_options();
    const std::shared_ptr<test::LogLoss> loss_ = std::make_shared<test::LogLoss>();
    test::Area area_;
    test::Target target_;
    std::unique_ptr<stage::Engine> engine_;
    std::shared_ptr<stage::StagedFile> file_;
};

TEST_P(LogLossOfAFile, keeps_it_from_stepping_aside) {
    open();
    loss_->lose();
    for (int i = 0; i < 2; ++i) EXPECT_EQ(file_->lifecycle().step_aside(ledger::AsideReason::kSwmr).sys_errno(), EIO);
    EXPECT_TRUE(file_->staged());
    expect_no_success();
}

TEST_P(LogLossOfAFile, keeps_it_from_stepping_aside_after_a_flush_has_told_it) {
    open();
    loss_->lose();
    EXPECT_EQ(file_->commit().sys_errno(), EIO);
    EXPECT_EQ(file_->lifecycle().step_aside(ledger::AsideReason::kHandleTaken).sys_errno(), EIO);
    EXPECT_TRUE(file_->staged());
    expect_no_success();
}

TEST_P(LogLossOfAFile, is_an_error_of_the_call_that_asks_for_addresses) {
    open();
    ASSERT_TRUE(file_->commit());
    loss_->lose();
    EXPECT_EQ(file_->lifecycle().expose_offsets().sys_errno(), EIO);
    expect_no_success();
}

// A new segment gets large payloads by a write, which fails. A durable log takes them through its mapping.
TEST_P(LogLossOfAFile, is_not_forgotten_when_the_log_takes_no_more) {
    loaded_.options.segment = 1 << 20;
    loaded_.options.size = 8 << 20;
    const auto plan = std::make_shared<FaultPlan>();
    open(plan);
    ASSERT_TRUE(file_->commit());
    loss_->lose();
    plan->fail(Operation::kWrite, 1, 1'000'000, EIO);
    const auto more = bytes_of(3 << 20, 3);
    ASSERT_TRUE(file_->write(30'000, more, ByteClass::kRaw));
    const bool aside = (file_->counters().aside & 1u << static_cast<unsigned>(ledger::AsideReason::kStagingArea)) != 0;
    EXPECT_EQ(aside, GetParam() == Durability::kProcess);
    EXPECT_TRUE(file_->staged());
    expect_no_success();
    const auto home = target_.contents();
    ASSERT_EQ(home.size(), 30'000 + more.size());
    EXPECT_TRUE(test::same({home.begin() + 30'000, home.end()}, more));
}

TEST_P(LogLossOfAFile, is_an_error_of_a_drain) {
    open();
    ASSERT_TRUE(file_->commit());
    loss_->lose();
    for (int i = 0; i < 2; ++i) EXPECT_EQ(file_->drain().sys_errno(), EIO);
    expect_no_success();
}

// A loss from before the file was staged cannot be of its bytes.
TEST_P(LogLossOfAFile, is_none_of_a_file_that_is_opened_later) {
    open();
    loss_->lose();
    expect_no_success();
    file_ = test::attach(*engine_, target_);
    ASSERT_TRUE(file_->write(0, bytes_of(1000, 4), ByteClass::kRaw));
    EXPECT_TRUE(file_->commit());
    EXPECT_TRUE(file_->lifecycle().step_aside(ledger::AsideReason::kSwmr));
    EXPECT_FALSE(file_->staged());
    EXPECT_TRUE(engine_->detach(file_, true));
}

INSTANTIATE_TEST_SUITE_P(Durabilities, LogLossOfAFile, testing::Values(Durability::kProcess, Durability::kNode),
                         [](const auto& each) {
                             return std::string(each.param == Durability::kNode ? "node" : "process");
                         });

}   // namespace
}   // namespace forebay
