// A file whose last writes are incomplete stays at its last commit.
#include <gtest/gtest.h>

#include <cerrno>

#include "support/engine_fixture.h"

namespace forebay {
namespace {

using stage::ByteClass;
using stage::Engine;
using test::Area;
using test::Target;

const Status kIncomplete{Code::kUnavailable, "a write failed", ENOSPC};

class WithheldTest : public testing::Test {
  protected:
    WithheldTest() {
        EXPECT_TRUE(file_->write(0, first_, ByteClass::kMetadata));
        EXPECT_TRUE(file_->commit());
        EXPECT_TRUE(file_->drain(stage::DrainScope::kReady));
        EXPECT_TRUE(file_->write(0, second_, ByteClass::kMetadata));
        file_->lifecycle().withhold(kIncomplete);
    }

    Area area_;
    Target target_;
    std::unique_ptr<Engine> engine_ = Engine::create(test::small_options(), area_.opener());
    std::shared_ptr<stage::StagedFile> file_ = test::attach(*engine_, target_);
    const std::vector<std::byte> first_ = test::bytes_of(96, 1), second_ = test::bytes_of(96, 2);
};

TEST_F(WithheldTest, no_call_commits_it) {
    EXPECT_EQ(file_->commit().sys_errno(), ENOSPC);
    EXPECT_EQ(file_->lifecycle().step_aside(ledger::AsideReason::kSwmr).sys_errno(), ENOSPC);
    EXPECT_TRUE(file_->staged());
    EXPECT_EQ(file_->counters().commits, 1u);
    EXPECT_EQ(engine_->detach(file_, true).sys_errno(), ENOSPC);
    EXPECT_TRUE(file_->lifecycle().failed());
    EXPECT_TRUE(test::same(target_.contents(), first_));
}

TEST_F(WithheldTest, the_end_of_the_process_does_not_commit_it) {
    EXPECT_EQ(engine_->end_of_process().size(), 1u);
    EXPECT_TRUE(test::same(target_.contents(), first_));
}

TEST_F(WithheldTest, it_commits_again_once_it_is_whole) {
    file_->lifecycle().withhold(Status::ok());
    EXPECT_TRUE(file_->commit());
    EXPECT_TRUE(engine_->detach(file_, true));
    EXPECT_TRUE(test::same(target_.contents(), second_));
}

}   // namespace
}   // namespace forebay
