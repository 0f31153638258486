#include "split_tracker.h"

#include <gtest/gtest.h>

namespace forebay::slowfs {
namespace {

constexpr std::uint64_t kMiB = 1U << 20;

TEST(SplitTracker, the_rest_of_an_unaligned_mebibyte_is_found) {
    SplitTracker tracker;
    EXPECT_FALSE(tracker.is_rest(1, 0, kMiB - 16));
    EXPECT_TRUE(tracker.is_rest(1, kMiB - 16, 16));
    EXPECT_FALSE(tracker.is_rest(1, kMiB, 16));
}

TEST(SplitTracker, many_mebibytes_are_as_many_operations_wherever_their_buffer_lies) {
    SplitTracker tracker;
    std::uint64_t offset = 100;
    EXPECT_FALSE(tracker.is_rest(1, offset, kMiB - 16));
    offset += kMiB - 16;
    for (int i = 0; i < 3; ++i, offset += kMiB) EXPECT_FALSE(tracker.is_rest(1, offset, kMiB));
    EXPECT_TRUE(tracker.is_rest(1, offset, 16));
}

TEST(SplitTracker, only_what_follows_from_the_same_thread_is_a_rest) {
    SplitTracker tracker;
    EXPECT_FALSE(tracker.is_rest(1, 0, kMiB - 16));
    EXPECT_FALSE(tracker.is_rest(2, kMiB - 16, 16));
    EXPECT_FALSE(tracker.is_rest(1, 5 * kMiB, kMiB - 16));
    EXPECT_FALSE(tracker.is_rest(1, 0, 16));
}

TEST(SplitTracker, small_and_whole_requests_leave_no_rest) {
    SplitTracker tracker;
    EXPECT_FALSE(tracker.is_rest(1, 0, 4096));
    EXPECT_FALSE(tracker.is_rest(1, 4096, 16));
    EXPECT_FALSE(tracker.is_rest(1, 0, kMiB));
    EXPECT_FALSE(tracker.is_rest(1, kMiB, 16));
}

}   // namespace
}   // namespace forebay::slowfs
