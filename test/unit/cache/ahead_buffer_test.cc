// Bytes that are held in memory until they are read.
#include "cache/ahead_buffer.h"

#include <gtest/gtest.h>

#include <thread>

#include "support/team_files.h"

namespace forebay::cache {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;

constexpr std::uint64_t kMax = 1000;

class AheadBufferTest : public testing::Test {
  protected:
    AheadBuffer::Room room(std::uint64_t bytes) {
        auto reserved = buffer_.reserve(bytes);
        EXPECT_TRUE(reserved);
        return reserved;
    }
    std::vector<std::byte> part(ByteRange range) const {
        return {content_.begin() + static_cast<std::ptrdiff_t>(range.begin),
                content_.begin() + static_cast<std::ptrdiff_t>(range.end)};
    }
    void hold(ByteRange range) {
        auto reserved = room(range.size());
        ASSERT_EQ(begin_fetch(reserved, range), range);
        buffer_.hand_over(range.begin, part(range));
    }
    ByteRange begin_fetch(AheadBuffer::Room& room, ByteRange range) { return buffer_.begin_fetch(room, range, range); }
    // What is held of the range, from its beginning on.
    std::size_t read(ByteRange range) {
        std::vector<std::byte> bytes(range.size());
        std::size_t got = 0;
        while (got < bytes.size()) {
            const auto part = buffer_.read(range.begin + got, std::span(bytes).subspan(got));
            if (part.bytes == 0) break;
            got += part.bytes;
        }
        bytes.resize(got);
        EXPECT_EQ(bytes, part({range.begin, range.begin + got}));
        return got;
    }

    const std::vector<std::byte> content_ = bytes_of(10 * kMax, 1);
    std::shared_ptr<SharedBudget> shared_ = std::make_shared<SharedBudget>(4 * kMax);
    AheadBuffer buffer_{kMax, shared_};
};

TEST_F(AheadBufferTest, bytes_are_dropped_after_they_were_read) {
    hold({100, 200});
    EXPECT_TRUE(buffer_.active());
    EXPECT_EQ(read({0, 50}), 0U);
    EXPECT_EQ(read({100, 150}), 50U);
    EXPECT_EQ(buffer_.bytes(), 100U) << "the other half is still to be read";
    EXPECT_EQ(read({150, 300}), 50U);
    EXPECT_FALSE(buffer_.active());
    EXPECT_EQ(read({100, 200}), 0U);
    EXPECT_TRUE(shared_->has(4 * kMax));
}

TEST_F(AheadBufferTest, a_read_goes_on_over_ranges_that_touch) {
    hold({200, 300});
    hold({100, 200});
    hold({310, 320});
    EXPECT_EQ(read({120, 320}), 180U);
    EXPECT_EQ(buffer_.end_of_gap(300, 1000), 310U);
    EXPECT_EQ(buffer_.end_of_gap(320, 1000), 1000U);
}

TEST_F(AheadBufferTest, bytes_that_are_asked_for_twice_are_fetched_once_and_read_twice) {
    hold({100, 200});
    auto again = room(100);
    EXPECT_TRUE(begin_fetch(again, {100, 200}).empty());
    again = {};
    EXPECT_EQ(buffer_.bytes(), 100U);
    EXPECT_EQ(read({100, 200}), 100U);
    EXPECT_EQ(read({100, 200}), 100U);
    EXPECT_EQ(read({100, 200}), 0U);
}

TEST_F(AheadBufferTest, of_a_range_that_is_held_in_part_the_rest_is_fetched) {
    hold({100, 200});
    hold({300, 400});
    auto reserved = room(400);
    EXPECT_EQ(begin_fetch(reserved, {100, 500}), (ByteRange{200, 300}));
    EXPECT_EQ(begin_fetch(reserved, {300, 500}), (ByteRange{400, 500}));
    buffer_.give_up(200);
    buffer_.give_up(400);
    reserved = {};
    EXPECT_EQ(buffer_.bytes(), 200U);
}

TEST_F(AheadBufferTest, its_limit_and_half_of_the_shared_one_are_kept) {
    hold({0, 600});
    EXPECT_FALSE(buffer_.reserve(401));
    EXPECT_TRUE(buffer_.reserve(400)) << "and gives it back";
    ASSERT_TRUE(shared_->take(1400));
    EXPECT_FALSE(buffer_.reserve(1)) << "2,000 of 4,000 bytes are taken";
    EXPECT_EQ(read({0, 600}), 600U);
    EXPECT_TRUE(buffer_.reserve(600));
    EXPECT_FALSE(buffer_.reserve(601));
}

TEST_F(AheadBufferTest, more_may_be_fetched_than_is_going_to_be_read_and_the_last_read_gets_all_of_it) {
    auto reserved = room(100);
    ASSERT_EQ(buffer_.begin_fetch(reserved, {100, 200}, {110, 190}), (ByteRange{100, 200}));
    buffer_.hand_over(100, part({100, 200}));
    std::vector<std::byte> bytes(40);
    EXPECT_EQ(buffer_.read(110, bytes).dropped, nullptr);
    const auto last = buffer_.read(150, bytes);
    EXPECT_EQ(last.bytes, 40U);
    EXPECT_EQ(last.begin, 100U);
    ASSERT_NE(last.dropped, nullptr);
    EXPECT_EQ(*last.dropped, part({100, 200}));
    EXPECT_FALSE(buffer_.active());
}

TEST_F(AheadBufferTest, a_read_waits_for_what_is_being_fetched_and_for_nothing_else) {
    auto reserved = room(100);
    ASSERT_EQ(begin_fetch(reserved, {100, 200}), (ByteRange{100, 200}));
    EXPECT_FALSE(buffer_.await(99, 1h));
    EXPECT_FALSE(buffer_.await(200, 1h));
    EXPECT_TRUE(buffer_.await(150, 1ns));
    EXPECT_EQ(read({150, 200}), 0U);
    std::thread reader([&] { EXPECT_TRUE(buffer_.await(199, 1h) || read({199, 200}) == 1); });
    buffer_.hand_over(100, part({100, 200}));
    reader.join();
    EXPECT_FALSE(buffer_.await(150, 1h));
}

TEST_F(AheadBufferTest, a_fetch_that_is_given_up_ends_the_wait) {
    auto reserved = room(100);
    ASSERT_FALSE(begin_fetch(reserved, {100, 200}).empty());
    std::thread reader([&] { (void)buffer_.await(100, 1h); });
    buffer_.give_up(100);
    reader.join();
    EXPECT_FALSE(buffer_.active());
}

TEST_F(AheadBufferTest, what_was_read_from_the_file_meanwhile_is_not_held) {
    auto reserved = room(100);
    ASSERT_FALSE(begin_fetch(reserved, {100, 200}).empty());
    buffer_.note_passed({50, 250});
    buffer_.hand_over(100, part({100, 200}));
    EXPECT_FALSE(buffer_.active());
    hold({100, 200});
    buffer_.note_passed({100, 200});
    EXPECT_FALSE(buffer_.active());
}

TEST_F(AheadBufferTest, what_the_program_does_not_read_is_dropped_in_the_end) {
    hold({0, 400});
    buffer_.note_passed({1000, 1000 + kMax / 2});
    hold({500, 900});
    EXPECT_TRUE(buffer_.pays());
    buffer_.note_passed({2000, 2000 + kMax / 2});
    EXPECT_EQ(buffer_.bytes(), 400U) << "only the first has been here for so long";
    EXPECT_EQ(read({500, 900}), 400U);
    EXPECT_TRUE(buffer_.pays());
    for (int turn = 0; turn < 2; ++turn) {
        hold({0, kMax / 2});
        hold({kMax / 2, kMax});
        buffer_.note_passed({3000, 3000 + kMax});
        EXPECT_FALSE(buffer_.active());
    }
    EXPECT_FALSE(buffer_.pays()) << "2,400 bytes for nothing, and 400 of use";
}

TEST_F(AheadBufferTest, what_is_cleared_while_it_is_being_fetched_is_not_held) {
    hold({0, 100});
    auto reserved = room(100);
    ASSERT_FALSE(begin_fetch(reserved, {100, 200}).empty());
    buffer_.clear();
    buffer_.hand_over(100, part({100, 200}));
    EXPECT_FALSE(buffer_.active());
    hold({0, 100});
    buffer_.close();
    EXPECT_FALSE(buffer_.active());
    EXPECT_FALSE(buffer_.reserve(1));
    EXPECT_TRUE(shared_->has(4 * kMax));
}

}   // namespace
}   // namespace forebay::cache
