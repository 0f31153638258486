// A target that reports a lost write at a later call: the log keeps the bytes until the target has confirmed them.
#include <gtest/gtest.h>

#include <algorithm>

#include "support/crash.h"
#include "support/engine_fixture.h"
#include "support/late_target.h"

namespace forebay {
namespace {

using stage::ByteClass;
using Content = std::vector<std::byte>;

class LateFailure : public testing::TestWithParam<Durability> {
  protected:
    LateFailure() {
        loaded_.options.durability = GetParam();
        loaded_.options.flush = OnFlush::kDrain;
    }
    void open() {
        engine_ = stage::Engine::create(loaded_, area_.opener());
        auto attached = engine_->attach({std::make_unique<test::LateFile>(target_.open(), client_), true});
        ASSERT_TRUE(attached) << attached.status().message();
        file_ = attached.value().file;
    }
    // Writes at the end of the file, and flushes it. The target has taken all bytes then.
    void append(std::size_t size) {
        const Content bytes = test::bytes_of(size, ++seed_);
        ASSERT_TRUE(file_->write(expected_.size(), bytes, ByteClass::kRaw));
        expected_.insert(expected_.end(), bytes.begin(), bytes.end());
    }
    Content recovered() {
        return test::recovered(*area_.shared_open(), [&] { return target_.contents(); }, target_.identity());
    }

    test::Area area_;
    test::Target target_;
    const std::shared_ptr<test::LateClient> client_ = std::make_shared<test::LateClient>();
    LoadedOptions loaded_ = test::small_options();
    std::unique_ptr<stage::Engine> engine_;
    std::shared_ptr<stage::StagedFile> file_;
    Content expected_;
    std::uint64_t seed_ = 0;
};

TEST_P(LateFailure, a_death_after_an_untold_loss_loses_no_flushed_byte) {
    open();
    for (int i = 0; i < 3; ++i) {
        append(100 << 10);   // too few for the drain to ask for a confirmation
        ASSERT_TRUE(file_->commit());
    }
    client_->lose(true);
    EXPECT_EQ(client_->losses(), 1u);
    EXPECT_FALSE(test::identical(target_.contents(), expected_));
    EXPECT_TRUE(test::same(recovered(), expected_));
}

TEST_P(LateFailure, a_later_write_reports_the_loss_and_the_lost_bytes_are_written_again) {
    open();
    append(200 << 10);
    ASSERT_TRUE(file_->commit());
    client_->lose();
    append(200 << 10);
    const Status told = file_->commit();
    if (told) {
        ASSERT_TRUE(file_->commit());
    }
    EXPECT_EQ(client_->losses(), 1u);
    const Status closed = engine_->detach(file_, true);
    EXPECT_TRUE(test::same(closed ? target_.contents() : recovered(), expected_));
    EXPECT_TRUE(GetParam() == Durability::kNode || closed) << closed.message();
}

TEST_P(LateFailure, a_close_reports_the_loss_and_the_lost_bytes_are_written_again) {
    open();
    append(200 << 10);
    ASSERT_TRUE(file_->commit());
    client_->lose();
    EXPECT_EQ(client_->losses(), 1u);
    const Status closed = engine_->detach(file_, true);
    EXPECT_TRUE(test::same(closed ? target_.contents() : recovered(), expected_));
    EXPECT_TRUE(GetParam() == Durability::kNode || closed) << closed.message();
}

TEST_P(LateFailure, a_close_that_cannot_confirm_the_bytes_fails_and_leaves_them_in_the_log) {
    open();
    append(200 << 10);
    ASSERT_TRUE(file_->commit());
    client_->refuse(true);
    const Status closed = engine_->detach(file_, true);
    EXPECT_FALSE(closed);
    EXPECT_NE(closed.message().find("stay in the staging log"), std::string::npos) << closed.message();
    EXPECT_FALSE(test::identical(target_.contents(), expected_));
    EXPECT_TRUE(test::same(test::read(*file_, 0, expected_.size()), expected_));
    EXPECT_TRUE(test::same(recovered(), expected_));
}

TEST_P(LateFailure, a_retry_writes_the_lost_bytes_too) {
    loaded_.options.on_error = OnError::kRetry;
    open();
    append(200 << 10);
    ASSERT_TRUE(file_->commit());
    client_->lose();
    append(200 << 10);
    const Status told = file_->commit();
    const Status closed = engine_->detach(file_, true);
    EXPECT_TRUE(test::same(closed ? target_.contents() : recovered(), expected_));
    EXPECT_TRUE(GetParam() == Durability::kNode || (told && closed)) << told.message() << closed.message();
}

TEST_P(LateFailure, stepping_aside_waits_until_the_target_has_confirmed_the_bytes) {
    open();
    append(200 << 10);
    ASSERT_TRUE(file_->commit());
    client_->lose();
    if (!file_->lifecycle().step_aside(ledger::AsideReason::kAddressGiven)) {
        EXPECT_TRUE(test::same(recovered(), expected_));
        return;
    }
    client_->lose();   // nothing is left that it could lose
    EXPECT_TRUE(test::same(target_.contents(), expected_));
}

TEST_P(LateFailure, a_close_after_stepping_aside_reports_a_loss) {
    open();
    ASSERT_TRUE(file_->lifecycle().step_aside(ledger::AsideReason::kAddressGiven));
    append(200 << 10);
    client_->lose();
    EXPECT_EQ(client_->losses(), 1u);
    EXPECT_FALSE(engine_->detach(file_, true));
}

// More bytes than the log has room for: the target confirms them in between, and then they need no room.
TEST_P(LateFailure, a_log_gets_room_when_the_target_confirms_bytes) {
    loaded_.options.size = 512 << 10;
    loaded_.options.flush = OnFlush::kCommit;
    open();
    for (int i = 0; i < 40; ++i) {
        append(100 << 10);
        if (i % 7 == 0) {
            ASSERT_TRUE(file_->commit());
        }
    }
    EXPECT_GT(client_->syncs(), 0u);
    EXPECT_EQ(file_->counters().guarantee_given_up, 0u);
    ASSERT_TRUE(engine_->detach(file_, true));
    EXPECT_TRUE(test::same(target_.contents(), expected_));
}

// A cut and the zeros of a file that grew again are lost as bytes are.
TEST_P(LateFailure, zeros_that_a_cut_has_left_are_written_again) {
    open();
    append(200 << 10);
    ASSERT_TRUE(file_->commit());
    ASSERT_TRUE(file_->truncate(50 << 10));
    ASSERT_TRUE(file_->truncate(150 << 10));
    ASSERT_TRUE(file_->commit());
    expected_.resize(50 << 10);
    expected_.resize(150 << 10);
    client_->lose(true);
    EXPECT_TRUE(test::same(recovered(), expected_));
}

INSTANTIATE_TEST_SUITE_P(Durabilities, LateFailure, testing::Values(Durability::kProcess, Durability::kNode),
                         [](const auto& each) {
                             return std::string(each.param == Durability::kNode ? "node" : "process");
                         });

}   // namespace
}   // namespace forebay
