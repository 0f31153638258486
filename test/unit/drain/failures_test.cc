// The failures of an outflow: attempts and their pauses, and the first error.
#include "drain/failures.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace forebay::drain {
namespace {

Status failure_with(int sys_errno) { return {Code::kIo, "write to /parallel/run.h5", sys_errno}; }

TEST(Failures, a_failure_that_may_pass_is_followed_by_pauses_that_double) {
    Failures failures(/*retries=*/true);
    EXPECT_FALSE(failures.pausing(0));
    for (std::uint64_t pause_ns = 20'000'000, now_ns = 1000; pause_ns <= 320'000'000; pause_ns *= 2) {
        ASSERT_TRUE(failures.retry(failure_with(ENOSPC), now_ns));
        EXPECT_EQ(failures.retry_at_ns(), now_ns + pause_ns);
        EXPECT_TRUE(failures.pausing(now_ns + pause_ns - 1));
        EXPECT_FALSE(failures.pausing(now_ns += pause_ns));
    }
    EXPECT_FALSE(failures.retry(failure_with(ENOSPC), 0)) << "one attempt too many";
    failures.note_drained();
    EXPECT_TRUE(failures.retry(failure_with(ENOSPC), 0));
}

TEST(Failures, a_failure_is_final_without_the_option_or_if_it_cannot_pass_or_after_a_halt) {
    Failures once(/*retries=*/false), again(/*retries=*/true);
    EXPECT_FALSE(once.retry(failure_with(ENOSPC), 0));
    EXPECT_FALSE(again.retry(failure_with(EACCES), 0));
    again.halt();
    EXPECT_FALSE(again.retry(failure_with(ENOSPC), 0));
}

TEST(Failures, a_pause_without_memory_counts_as_no_attempt) {
    Failures failures(true);
    for (std::uint64_t now_ns = 1000, i = 0; i < 20; ++i) {
        failures.pause(now_ns);
        EXPECT_TRUE(failures.pausing(now_ns));
        EXPECT_FALSE(failures.pausing(now_ns = failures.retry_at_ns()));
    }
    EXPECT_TRUE(failures.retry(failure_with(EIO), 1000));
    failures.halt();
    failures.pause(1000);
    EXPECT_FALSE(failures.pausing(1000)) << "a halted drain is in no pause";
}

TEST(Failures, a_halted_drain_is_in_no_pause_and_a_closing_attempt_begins_anew) {
    Failures failures(/*retries=*/true);
    ASSERT_TRUE(failures.retry(failure_with(EIO), 1000));
    failures.add_unreadable({{0, 4096}});
    failures.halt();
    EXPECT_TRUE(failures.halted());
    EXPECT_FALSE(failures.pausing(1000));
    failures.try_again();
    EXPECT_FALSE(failures.halted());
    EXPECT_TRUE(failures.unreadable().empty());
}

TEST(Failures, the_first_error_is_kept_until_it_is_made_good) {
    Failures failures(/*retries=*/false);
    EXPECT_TRUE(failures.error());
    EXPECT_TRUE(failures.keep(failure_with(ENOSPC)));
    EXPECT_FALSE(failures.keep(failure_with(EIO)));
    EXPECT_EQ(failures.first_error().sys_errno(), ENOSPC);
    EXPECT_NE(failures.error().message(), failures.first_error().message()) << "a later caller is told when it was";
    failures.forget();
    EXPECT_TRUE(failures.error());
}

TEST(Failures, a_sync_that_failed_is_forgotten_by_the_next_open_only) {
    Failures failures(/*retries=*/true);
    failures.lose_target(failure_with(EIO), "/parallel/run.h5");
    failures.try_again();
    failures.forget();
    EXPECT_EQ(failures.target_lost().sys_errno(), EIO);
    failures.open();
    EXPECT_TRUE(failures.target_lost());
    EXPECT_TRUE(failures.retry(failure_with(EIO), 0)) << "the option stays";
}

}   // namespace
}   // namespace forebay::drain
