// Waits for a target, and the arrivals that end them.
#include "drain/arrivals.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

#include "support/jumping_clock.h"

namespace forebay::drain {
namespace {

class ArrivalsTest : public ::testing::Test {
  protected:
    const Options options_ = [] {
        Options options;
        options.patience = 10;
        return options;
    }();
    Scheduler scheduler_{1};
    const std::shared_ptr<test::JumpingClock> clock_ = std::make_shared<test::JumpingClock>();
    Progress progress_{clock_};
    index::StagedBytes bytes_;
    const std::string path_ = "/parallel/run.h5";
    Arrivals arrivals_{{options_, scheduler_, progress_}, bytes_, path_};
    Mutex mutex_;
};

TEST_F(ArrivalsTest, a_wait_ends_with_an_error_once_nothing_has_arrived_for_as_long_as_patience_lasts) {
    const LockGuard lock(mutex_);
    EXPECT_TRUE(arrivals_.await(mutex_, [] { return true; }));
    const Status waited = arrivals_.await_next(mutex_);
    EXPECT_EQ(waited.sys_errno(), ETIMEDOUT);
    EXPECT_NE(waited.message().find("nothing has reached /parallel/run.h5 for 10 seconds"), std::string::npos);
    EXPECT_GE(clock_->passed(), std::chrono::seconds(10));
}

TEST_F(ArrivalsTest, a_brief_wait_in_vain_is_not_repeated_before_the_next_arrival) {
    const LockGuard lock(mutex_);
    const auto past = std::chrono::steady_clock::now();
    EXPECT_FALSE(arrivals_.await_briefly(mutex_, past));
    EXPECT_FALSE(arrivals_.await_briefly(mutex_, std::chrono::steady_clock::time_point::max())) << "does not wait";
    arrivals_.announce();
    EXPECT_FALSE(arrivals_.await_briefly(mutex_, past)) << "waits again";
}

TEST_F(ArrivalsTest, a_target_is_stalled_if_a_write_runs_and_nothing_arrives) {
    WriteQueue queue(bytes_, 4);
    queue.add({{0, 100}, {plan::Piece{{0, 100}}}});
    const LockGuard lock(mutex_);
    clock_->advance(std::chrono::seconds(20));
    EXPECT_FALSE(arrivals_.stalled(queue)) << "no write runs";
    const plan::TargetWrite write = queue.take(clock_->now_ns());
    EXPECT_FALSE(arrivals_.stalled(queue));
    clock_->advance(std::chrono::seconds(10));
    EXPECT_TRUE(arrivals_.stalled(queue));
    arrivals_.note_progress();
    EXPECT_FALSE(arrivals_.stalled(queue));
}

TEST_F(ArrivalsTest, a_pause_before_another_attempt_is_waited_out) {
    Failures failures(/*retries=*/true);
    ASSERT_TRUE(failures.retry({Code::kIo, "write", EIO}, clock_->now_ns()));
    const LockGuard lock(mutex_);
    arrivals_.wait_out_pause(mutex_, failures);
    EXPECT_FALSE(failures.pausing(clock_->now_ns()));
    EXPECT_GE(clock_->passed(), std::chrono::milliseconds(20));
}

TEST_F(ArrivalsTest, a_sync_hangs_while_it_is_given_up_and_not_done) {
    EXPECT_FALSE(arrivals_.sync_hangs());
    const auto sync = std::make_shared<AwaitedCall>();
    arrivals_.begin_sync(sync);
    EXPECT_FALSE(arrivals_.sync_hangs());
    sync->given_up = true;
    EXPECT_TRUE(arrivals_.sync_hangs());
    sync->done = true;
    EXPECT_FALSE(arrivals_.sync_hangs());
}

}   // namespace
}   // namespace forebay::drain
