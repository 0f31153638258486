// Target writes that are planned or in flight.
#include "drain/write_queue.h"

#include <gtest/gtest.h>

namespace forebay::drain {
namespace {

plan::TargetWrite write_of(ByteRange range) { return {range, {plan::Piece{range}}}; }

TEST(WriteQueue, a_write_is_in_flight_from_its_plan_to_its_end) {
    index::StagedBytes bytes;
    WriteQueue queue(bytes, 4);
    queue.add(write_of({0, 100}));
    queue.add(write_of({200, 300}));
    EXPECT_FALSE(queue.idle());
    EXPECT_EQ(queue.in_flight_bytes(), 200u);
    const plan::TargetWrite first = queue.take(1000);
    EXPECT_EQ(first.range, (ByteRange{0, 100}));
    EXPECT_EQ(queue.running(), 1u);
    EXPECT_EQ(queue.busy_since_ns(), 1000u);
    EXPECT_FALSE(queue.has_room()) << "one at a time, to begin with";
    EXPECT_TRUE(queue.in_flight().overlaps({50, 60}));
    queue.complete(first, 2000);
    EXPECT_FALSE(queue.in_flight().overlaps({50, 60}));
    EXPECT_EQ(queue.busy_since_ns(), 2000u);
    EXPECT_FALSE(queue.none_in_flight());
}

TEST(WriteQueue, planned_writes_are_dropped_and_those_that_were_taken_are_not) {
    index::StagedBytes bytes;
    WriteQueue queue(bytes, 4);
    for (const std::uint64_t begin : {0, 200, 400}) queue.add(write_of({begin, begin + 100}));
    const plan::TargetWrite taken = queue.take(1000);
    EXPECT_EQ(queue.drop_planned(), 200u);
    EXPECT_EQ(queue.drop_planned(), kOffsetMax) << "nothing is left";
    EXPECT_EQ(queue.in_flight_bytes(), 100u);
    queue.put_back(taken);
    EXPECT_TRUE(queue.idle());
    EXPECT_EQ(queue.running(), 0u);
}

TEST(WriteQueue, a_change_of_size_and_a_bypass_are_under_way_as_well) {
    index::StagedBytes bytes;
    WriteQueue queue(bytes, 4);
    queue.set_resizing(true);
    EXPECT_TRUE(queue.none_in_flight());
    EXPECT_FALSE(queue.idle());
    queue.set_resizing(false);
    queue.begin_bypass({0, 100});
    EXPECT_FALSE(queue.idle());
    EXPECT_EQ(queue.in_flight_bytes(), 0u) << "it was never planned";
    queue.end_bypass({0, 100});
    EXPECT_TRUE(queue.idle());
}

}   // namespace
}   // namespace forebay::drain
