#include "log/segment_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <latch>
#include <set>

#include "base/bytes.h"
#include "io/fault_file.h"
#include "io/memory_file.h"

namespace forebay::log {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kSegment = 64 << 10;

class SegmentPoolTest : public ::testing::Test {
  protected:
    SegmentPoolTest() : directory_(io::make_memory_directory("/area")), plan_(std::make_shared<io::FaultPlan>()) {}

    std::unique_ptr<SegmentPool> pool(std::uint64_t segments, std::uint64_t reserve_bytes = 0,
                                      std::uint64_t map_bytes = std::uint64_t{64} << 20) {
        auto file = std::move(directory_->open_file("log", io::OpenMode::kCreateNew)).value();
        return std::make_unique<SegmentPool>(io::make_fault_file(std::move(file), plan_),
                                             PoolLimits{segments * kSegment, kSegment, reserve_bytes,
                                                        std::chrono::milliseconds(1), false, map_bytes},
                                             process_);
    }
    // A segment as a reader of the file sees it.
    std::vector<std::byte> stored(std::uint64_t index) {
        auto file = std::move(directory_->open_file("log", io::OpenMode::kRead)).value();
        std::vector<std::byte> bytes(kSegment);
        EXPECT_TRUE(file->read_at(index * kSegment, bytes));
        return bytes;
    }
    static Segment* take(SegmentPool& pool, std::uint64_t log = 1, std::uint64_t order = 0) {
        auto segment = pool.acquire(log, order);
        EXPECT_TRUE(segment) << segment.status().message();
        return segment ? segment.value() : nullptr;
    }

    static void wait_until_free(SegmentPool& pool, std::uint64_t segments) {
        for (;;) {
            const std::uint64_t seen = pool.changes();
            if (pool.free() >= segments) return;
            pool.wait_for_change(seen);
        }
    }

    const area::ProcessIdentity process_{42, 4711, {std::byte{0x1f}}};
    std::unique_ptr<io::Directory> directory_;
    std::shared_ptr<io::FaultPlan> plan_;
};

TEST_F(SegmentPoolTest, nothing_is_allocated_before_it_is_needed) {
    auto p = pool(8);
    EXPECT_EQ(p->allocated(), 0u);
    EXPECT_EQ(p->free(), 0u);
    EXPECT_EQ(directory_->open_file("log", io::OpenMode::kRead).value()->size().value(), 0u);
}

TEST_F(SegmentPoolTest, an_acquired_segment_says_in_the_file_whose_it_is_and_is_empty) {
    auto p = pool(8);
    const Segment* const segment = take(*p, 5, 9);
    const auto header = decode_segment_header(stored(segment->index()));
    ASSERT_TRUE(header) << header.status().message();
    EXPECT_EQ(header.value().process, process_);
    EXPECT_EQ(header.value().segment_bytes, kSegment);
    EXPECT_EQ(header.value().log, 5u);
    EXPECT_EQ(header.value().order, 9u);
    EXPECT_EQ(header.value().tail, kSegmentHeaderBytes);
    EXPECT_EQ(segment->tail, kSegmentHeaderBytes);
    EXPECT_EQ(segment->size(), kSegment);
}

TEST_F(SegmentPoolTest, a_released_segment_is_free_in_the_file_and_changes_its_generation) {
    auto p = pool(8);
    Segment* const segment = take(*p);
    const std::uint64_t in_use = segment->generation();
    p->release(segment);
    EXPECT_EQ(decode_segment_header(stored(0)).status().code(), Code::kNotFound);
    const std::uint64_t released = segment->generation();
    EXPECT_NE(released, in_use);
    EXPECT_EQ(take(*p, 2, 0), segment);
    EXPECT_NE(segment->generation(), released);
    EXPECT_NE(segment->generation(), in_use);
}

TEST_F(SegmentPoolTest, a_segment_used_again_begins_afresh) {
    auto p = pool(8);
    Segment* const segment = take(*p, 1, 3);
    segment->tail = 5000;
    segment->live_bytes = 10;
    segment->first_time_ns = 77;
    store_le(segment->at(kTailOffset), std::uint64_t{5000});
    p->release(segment);
    ASSERT_EQ(take(*p, 2, 0), segment);
    EXPECT_EQ(segment->tail, kSegmentHeaderBytes);
    EXPECT_EQ(segment->live_bytes, 0u);
    EXPECT_EQ(segment->pins, 0u);
    EXPECT_EQ(segment->first_time_ns, 0u);
    const auto header = decode_segment_header(stored(0));
    ASSERT_TRUE(header);
    EXPECT_EQ(header.value().log, 2u);
    EXPECT_EQ(header.value().tail, kSegmentHeaderBytes);
}

TEST_F(SegmentPoolTest, what_was_released_last_is_taken_first) {
    auto p = pool(8);
    Segment* const a = take(*p);
    Segment* const b = take(*p);
    Segment* const c = take(*p);
    p->release(b);
    p->release(a);
    p->release(c);
    EXPECT_EQ(p->free(), 3u);
    EXPECT_EQ(take(*p), c);
    EXPECT_EQ(take(*p), a);
    EXPECT_EQ(take(*p), b);
    EXPECT_EQ(p->allocated(), 3u);
}

TEST_F(SegmentPoolTest, the_capacity_is_not_exceeded) {
    auto p = pool(3);
    for (int i = 0; i < 3; ++i) take(*p);
    const auto none = p->acquire(1, 3);
    EXPECT_EQ(none.status().code(), Code::kNoSpace);
    EXPECT_THAT(none.status().message(), HasSubstr("/area/log"));
    EXPECT_EQ(p->allocated(), 3u);
    EXPECT_EQ(directory_->open_file("log", io::OpenMode::kRead).value()->size().value(), 3 * kSegment);
}

TEST_F(SegmentPoolTest, two_segments_are_allowed_however_small_the_capacity) {
    auto p = pool(0);
    take(*p);
    take(*p);
    EXPECT_EQ(p->acquire(1, 2).status().code(), Code::kNoSpace);
}

TEST_F(SegmentPoolTest, segments_do_not_overlap) {
    auto p = pool(4);
    std::vector<Segment*> segments;
    for (unsigned i = 0; i < 4; ++i) {
        segments.push_back(take(*p, 1, i));
        std::fill(segments[i]->at(kSegmentHeaderBytes), segments[i]->at(kSegment), static_cast<std::byte>(i + 1));
    }
    std::set<std::uint64_t> indexes;
    for (unsigned i = 0; i < 4; ++i) {
        indexes.insert(segments[i]->index());
        const auto bytes = stored(segments[i]->index());
        EXPECT_THAT(std::span(bytes).subspan(kSegmentHeaderBytes), testing::Each(static_cast<std::byte>(i + 1)));
    }
    EXPECT_EQ(indexes.size(), 4u);
}

// ---- a device that is smaller than the capacity ----------------------------------------------------

class FullDevice : public SegmentPoolTest, public testing::WithParamInterface<io::Operation> {};

TEST_P(FullDevice, lowers_the_limit_and_leaves_what_there_is_in_use) {
    auto p = pool(8, 0, kSegment);
    Segment* const first = take(*p);
    Segment* const second = take(*p);
    plan_->fail(GetParam(), 1, UINT64_MAX, ENOSPC);
    const auto none = p->acquire(1, 2);
    EXPECT_EQ(none.status().code(), Code::kNoSpace);
    EXPECT_EQ(none.status().sys_errno(), ENOSPC);
    const std::uint64_t fired = plan_->fired();
    EXPECT_EQ(p->acquire(1, 2).status().code(), Code::kNoSpace);
    EXPECT_EQ(plan_->fired(), fired);   // the device is not asked again
    for (int round = 0; round < 3; ++round) {
        p->release(first);
        p->release(second);
        EXPECT_EQ(take(*p), second);
        EXPECT_EQ(take(*p), first);
    }
}

// The Nth call fails, for N = 1, 2, ... until the run succeeds.
TEST_P(FullDevice, at_any_moment_costs_segments_but_nothing_else) {
    for (std::uint64_t nth = 1;; ++nth) {
        SCOPED_TRACE(nth);
        auto p = pool(4);
        const std::uint64_t fired = plan_->fired();
        plan_->fail(GetParam(), nth, 1, ENOSPC);
        std::vector<Segment*> taken;
        for (std::uint64_t i = 0; i < 6; ++i)
            if (auto segment = p->acquire(1, i)) taken.push_back(segment.value());
        const bool failed = plan_->fired() > fired;
        EXPECT_EQ(taken.size(), failed ? nth - 1 : 4);
        for (Segment* segment : taken) p->release(segment);
        EXPECT_EQ(p->free(), taken.size());
        plan_->clear();
        p.reset();
        ASSERT_TRUE(directory_->remove_file("log"));
        if (!failed) break;
    }
}

INSTANTIATE_TEST_SUITE_P(Calls, FullDevice, testing::Values(io::Operation::kAllocate, io::Operation::kMap),
                         [](const auto& call) { return call.param == io::Operation::kMap ? "map" : "allocate"; });

// ---- waiting for room ------------------------------------------------------------------------------

TEST_F(SegmentPoolTest, a_change_since_the_look_ends_the_wait_at_once) {
    auto p = pool(2);
    Segment* const segment = take(*p);
    const std::uint64_t seen = p->changes();
    p->release(segment);
    p->wait_for_change(seen);
    const std::uint64_t again = p->changes();
    EXPECT_NE(again, seen);
    p->announce_change();
    p->wait_for_change(again);
}

TEST_F(SegmentPoolTest, taking_a_segment_is_no_change) {
    auto p = pool(2);
    const std::uint64_t seen = p->changes();
    take(*p);
    EXPECT_EQ(p->changes(), seen);
}

TEST_F(SegmentPoolTest, who_waits_for_room_gets_the_segment_that_another_thread_gives_back) {
    auto p = pool(2);
    Segment* const first = take(*p);
    take(*p);
    std::latch about_to_wait(1);
    Segment* got = nullptr;
    std::jthread waiter([&] {
        for (;;) {
            const std::uint64_t seen = p->changes();
            if (auto segment = p->acquire(2, 0)) {
                got = segment.value();
                return;
            }
            if (!about_to_wait.try_wait()) about_to_wait.count_down();
            p->wait_for_change(seen);
        }
    });
    about_to_wait.wait();
    p->release(first);
    waiter.join();
    EXPECT_EQ(got, first);
}

TEST_F(SegmentPoolTest, an_announcement_wakes_everyone_who_waits) {
    auto p = pool(2);
    const std::uint64_t seen = p->changes();
    std::vector<std::jthread> waiters;
    for (int i = 0; i < 4; ++i) waiters.emplace_back([&] { p->wait_for_change(seen); });
    p->announce_change();
}

TEST_F(SegmentPoolTest, threads_that_take_and_give_back_never_hold_the_same_segment) {
    auto p = pool(4);
    std::vector<std::atomic<int>> held(4);
    {
        std::vector<std::jthread> threads;
        for (unsigned t = 0; t < 4; ++t)
            threads.emplace_back([&, t] {
                for (std::uint64_t i = 0; i < 300; ++i) {
                    const std::uint64_t seen = p->changes();
                    auto segment = p->acquire(t, i);
                    if (!segment) {
                        p->wait_for_change(seen);
                        continue;
                    }
                    EXPECT_EQ(held[segment.value()->index()].fetch_add(1), 0);
                    segment.value()->tail += 64;
                    held[segment.value()->index()].fetch_sub(1);
                    p->release(segment.value());
                }
            });
    }
    EXPECT_LE(p->allocated(), 4u);
    EXPECT_EQ(p->free(), p->allocated());
}

// ---- warming up ------------------------------------------------------------------------------------

TEST_F(SegmentPoolTest, warming_up_makes_the_reserve) {
    auto p = pool(12, 3 * kSegment);
    for (std::uint64_t i = 0; i < 4; ++i) take(*p, 1, i);
    p->warm_up();
    p->warm_up();
    wait_until_free(*p, 3);
    EXPECT_EQ(p->allocated(), 7u);
    // The segments that were touched are used before new ones.
    for (std::uint64_t i = 4; i < 7; ++i) {
        const Segment* const segment = take(*p, 1, i);
        EXPECT_LT(segment->index(), 7u);
        EXPECT_TRUE(segment->warm());
    }
}

TEST_F(SegmentPoolTest, as_many_are_made_ahead_as_were_in_use_at_one_time) {
    auto p = pool(64, 64 * kSegment);
    Segment* const first = take(*p, 1, 0);
    p->warm_up();
    wait_until_free(*p, 1);
    // Nothing more comes, however long one waits.
    const std::uint64_t seen = p->changes();
    p->wait_for_change(seen, std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
    EXPECT_EQ(p->allocated(), 2u);
    take(*p, 1, 1);
    take(*p, 1, 2);   // three in use
    wait_until_free(*p, 2);
    EXPECT_EQ(p->allocated(), 5u);
    p->release(first);
    EXPECT_EQ(p->free(), 3u);
}

TEST_F(SegmentPoolTest, who_misses_a_warm_one_finds_some_later) {
    auto p = pool(64, 8 * kSegment);
    p->warm_up();
    EXPECT_EQ(p->acquire(1, 0, SegmentPool::Take::kWarm).status().code(), Code::kNoSpace);
    wait_until_free(*p, 8);
    const auto found = p->acquire(1, 0, SegmentPool::Take::kWarm);
    ASSERT_TRUE(found);
    EXPECT_TRUE(found.value()->warm());
}

// What a process may have changes while it runs: each time is looked at anew.
TEST_F(SegmentPoolTest, a_limit_of_the_process_is_not_taken_for_a_full_device) {
    for (const int error : {EFBIG, EMFILE, ENFILE, ENOMEM, EAGAIN}) {
        auto p = pool(4);
        take(*p, 1, 0);
        plan_->fail(io::Operation::kAllocate, 1, 2, error);
        for (int i = 0; i < 2; ++i) EXPECT_EQ(p->acquire(1, 1).status().code(), Code::kNoSpace) << error;
        EXPECT_EQ(p->allocated(), 1u);
        EXPECT_EQ(take(*p, 1, 1)->index(), 1u);
        EXPECT_EQ(take(*p, 1, 2)->index(), 2u);
        p.reset();
        EXPECT_TRUE(directory_->remove_file("log"));
    }
}

TEST_F(SegmentPoolTest, warming_up_waits_for_others_where_a_limit_of_the_process_is_in_the_way) {
    auto p = pool(8, 8 * kSegment);
    take(*p, 1, 0);
    take(*p, 1, 1);
    plan_->fail(io::Operation::kAllocate, 1, 1, EMFILE);
    p->warm_up();
    while (plan_->fired() == 0)
        p->wait_for_change(p->changes(), std::chrono::steady_clock::now() + std::chrono::milliseconds(1));
    EXPECT_EQ(p->free(), 0u);
    take(*p, 1, 2);
    wait_until_free(*p, 1);
}

TEST_F(SegmentPoolTest, warming_up_goes_on_for_who_asked_while_one_could_not_be_had) {
    auto p = pool(8, 8 * kSegment);
    take(*p, 1, 0);
    take(*p, 1, 1);
    p->release(take(*p, 1, 2));
    plan_->fail(io::Operation::kAllocate, 1, 1, EMFILE);
    plan_->hang(io::Operation::kAllocate);
    p->warm_up();
    ASSERT_TRUE(plan_->await_hanging());
    take(*p, 1, 3);   // the one that came back
    plan_->let_go();
    wait_until_free(*p, 1);
}

TEST_F(SegmentPoolTest, many_segments_are_mapped_at_once) {
    auto p = pool(2000);
    plan_->fail(io::Operation::kMap, 3, UINT64_MAX, EMFILE);   // 64 MiB each: two are enough
    for (std::uint64_t i = 0; i < 1500; ++i) {
        Segment* const segment = take(*p, 1, i);
        store_le(segment->at(kSegment - 8), i);
    }
    for (const std::uint64_t i : {0, 1023, 1024, 1499})
        EXPECT_EQ(load_le<std::uint64_t>(stored(i).data() + kSegment - 8), i);
}

TEST_F(SegmentPoolTest, warming_up_keeps_to_the_capacity) {
    auto p = pool(3, 100 * kSegment);
    take(*p, 1, 0);
    take(*p, 1, 1);
    p->warm_up();
    wait_until_free(*p, 1);
    p.reset();
    EXPECT_EQ(directory_->open_file("log", io::OpenMode::kRead).value()->size().value(), 3 * kSegment);
}

TEST_F(SegmentPoolTest, a_reserve_that_is_shared_with_others_is_smaller) {
    auto p = pool(8, 6 * kSegment);
    p->lower_reserve(2 * kSegment);
    p->lower_reserve(4 * kSegment);   // never more again
    for (std::uint64_t i = 0; i < 4; ++i) take(*p, 1, i);
    p->warm_up();
    wait_until_free(*p, 2);
    p.reset();
    EXPECT_EQ(directory_->open_file("log", io::OpenMode::kRead).value()->size().value(), 6 * kSegment);
}

TEST_F(SegmentPoolTest, without_a_reserve_warming_up_does_nothing) {
    auto p = pool(8, 0);
    p->warm_up();
    p.reset();
    EXPECT_EQ(directory_->open_file("log", io::OpenMode::kRead).value()->size().value(), 0u);
}

TEST_F(SegmentPoolTest, destruction_ends_the_warming_up_at_once) {
    // Far more than could be touched in the time a test may take, were it not stopped.
    auto p = pool(60000, 60000 * kSegment);
    for (std::uint64_t i = 0; i < 30000; ++i) take(*p, 1, i);   // so many more are made ahead
    p->warm_up();
    p.reset();
    EXPECT_LT(directory_->open_file("log", io::OpenMode::kRead).value()->size().value(), 60000 * kSegment);
}

TEST_F(SegmentPoolTest, a_full_device_while_warming_up_leaves_the_segments_that_were_made) {
    auto p = pool(8, 8 * kSegment);
    plan_->fail(io::Operation::kAllocate, 5, UINT64_MAX, ENOSPC);
    for (std::uint64_t i = 0; i < 2; ++i) take(*p, 1, i);
    p->warm_up();
    wait_until_free(*p, 2);
    take(*p);
    take(*p);
    EXPECT_EQ(p->acquire(1, 2).status().code(), Code::kNoSpace);
}

TEST_F(SegmentPoolTest, segments_that_come_back_cold_are_warmed_in_the_background) {
    auto p = pool(3, kSegment);
    Segment* const a = take(*p);
    Segment* const b = take(*p);
    p->warm_up();   // makes the third
    wait_until_free(*p, 1);
    EXPECT_FALSE(a->warm());
    EXPECT_FALSE(b->warm());
    p->release(a);
    p->release(b);
    // Whenever they are asked for, all three are there; and once nobody has asked for a while, they are warm.
    bool warm = false;
    for (int round = 0; round < 2000 && !warm; ++round) {
        std::vector<Segment*> all;
        for (std::uint64_t i = 0; i < 3; ++i) all.push_back(take(*p, 1, i));
        EXPECT_EQ(p->free(), 0u);
        warm = std::all_of(all.begin(), all.end(), [](const Segment* segment) { return segment->warm(); });
        for (Segment* const segment : all) p->release(segment);
        EXPECT_EQ(p->free(), 3u);
        p->wait_for_change(p->changes(), std::chrono::steady_clock::now() + std::chrono::milliseconds(round % 20));
    }
    EXPECT_TRUE(warm);
}

TEST_F(SegmentPoolTest, taking_only_warm_ones_takes_those_that_were_in_use) {
    auto p = pool(3);
    EXPECT_EQ(p->acquire(1, 0, SegmentPool::Take::kWarm).status().code(), Code::kNoSpace);
    Segment* const segment = take(*p);
    p->release(segment);
    const auto again = p->acquire(1, 1, SegmentPool::Take::kWarm);
    ASSERT_TRUE(again);
    EXPECT_EQ(again.value(), segment);
}

}   // namespace
}   // namespace forebay::log
