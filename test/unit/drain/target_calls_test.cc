#include "drain/target_calls.h"

#include <gtest/gtest.h>

namespace forebay::drain {
namespace {

TEST(TargetCalls, a_call_has_ended_before_a_number_once_no_older_one_is_in_flight) {
    TargetCalls calls;
    const auto older = calls.begin(), newer = calls.begin();
    const std::uint64_t answered = calls.next();
    const auto later = calls.begin();
    EXPECT_FALSE(calls.ended_before(answered));
    calls.end(newer);
    EXPECT_FALSE(calls.ended_before(answered));
    calls.end(older);
    EXPECT_TRUE(calls.ended_before(answered));
    EXPECT_FALSE(calls.ended_before(calls.next()));
    calls.end(later);
    EXPECT_TRUE(calls.ended_before(calls.next()));
}

TEST(TargetCalls, a_report_may_be_about_the_calls_in_flight) {
    TargetCalls calls;
    const auto before = calls.begin();
    EXPECT_FALSE(calls.reported_since(before));
    calls.note_report();
    EXPECT_TRUE(calls.reported_since(before));
    EXPECT_FALSE(calls.reported_since(calls.begin()));
}

TEST(TargetCalls, final_bytes_are_in_doubt_until_a_sync_that_began_after_them) {
    TargetCalls calls;
    EXPECT_FALSE(calls.any_final());
    const auto write = calls.begin(true);
    EXPECT_TRUE(calls.any_final());
    calls.begin_confirm();
    calls.note_return(write, true);
    calls.end_confirm(true);
    EXPECT_TRUE(calls.any_final()) << "the write ended after the sync had begun";
    calls.begin_confirm();
    EXPECT_TRUE(calls.any_final());
    calls.end_confirm(false);
    EXPECT_TRUE(calls.any_final());
    calls.begin_confirm();
    calls.end_confirm(true);
    EXPECT_FALSE(calls.any_final());
}

TEST(TargetCalls, a_write_that_failed_leaves_no_final_bytes) {
    TargetCalls calls;
    calls.note_return(calls.begin(true), false);
    EXPECT_FALSE(calls.any_final());
    calls.note_return(calls.begin(), true);
    EXPECT_FALSE(calls.any_final()) << "the log has the bytes of this one";
}

}   // namespace
}   // namespace forebay::drain
