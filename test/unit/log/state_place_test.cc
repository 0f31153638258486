// Where recovery notes what it does to a target: in the segment that is given back last.
#include <gtest/gtest.h>

#include "io/memory_file.h"
#include "log/file_log.h"
#include "log/scan.h"

namespace forebay::log {
namespace {

constexpr std::uint64_t kSegment = 64 << 10;

TEST(StatePlace, is_the_newest_segment_also_if_an_older_one_has_a_state_as_new) {
    auto owned = io::make_memory_file("/area/log");
    io::File& file = *owned;
    SegmentPool pool(std::move(owned), PoolLimits{8 * kSegment, kSegment, 0}, area::ProcessIdentity{42, 4711, {}});
    FileLog log(pool, 5, LogTarget{0x21, 0x22, "/scratch/run.h5"}, false);
    std::uint64_t sequence = 1;
    ASSERT_TRUE(log.adopt(log.acquire().value(), {}, sequence++));
    TargetState state;
    state.serial = 7;
    log.note(state);
    ASSERT_TRUE(log.adopt(log.acquire().value(), {}, sequence++));

    const auto scanned = scan(file);
    ASSERT_TRUE(scanned) << scanned.status().message();
    const ScannedLog& found = scanned.value().front();
    ASSERT_EQ(found.segments.size(), 2u);
    EXPECT_EQ(found.state_at, found.segments.back());
    ASSERT_TRUE(found.state);
    EXPECT_EQ(found.state->serial, 7u);

    // A recovery is killed while it gives the segments back: the next one still finds what it noted.
    state.serial = 8;
    ASSERT_TRUE(store_target_state(file, found, state));
    ASSERT_TRUE(free_segments(file, std::span(found.segments).first(1), false));
    const auto again = scan(file);
    ASSERT_TRUE(again) << again.status().message();
    ASSERT_EQ(again.value().size(), 1u);
    ASSERT_TRUE(again.value().front().state);
    EXPECT_EQ(again.value().front().state->serial, 8u);
    log.segments().abandon();
}

}   // namespace
}   // namespace forebay::log
