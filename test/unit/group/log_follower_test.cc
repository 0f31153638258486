#include "group/log_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/memory_file.h"
#include "io/posix_file.h"
#include "log/file_log.h"
#include "support/engine_fixture.h"
#include "support/faults.h"
#include "support/team_files.h"

namespace forebay::group {
namespace {

using test::bytes_of;

constexpr std::uint64_t kSegment = 16 << 10;

// Participant 1 writes a log; a follower reads it.
class LogFollowerTest : public ::testing::Test {
  protected:
    LogFollowerTest()
        : directory_(io::make_memory_directory("area")),
          board_(std::move(Board::create(io::make_memory_file("board"), 2, 16)).value()),
          pool_(open(io::OpenMode::kCreateNew), log::PoolLimits{8 * kSegment, kSegment, 0}, {42, 4711, {}}),
          log_(pool_, 5, {1, 2, "/scratch/run.h5"}, false),
          follower_(board_, 1, open(io::OpenMode::kReadWrite), kSegment) {}

    std::unique_ptr<io::File> open(io::OpenMode mode) { return std::move(directory_->open_file("log", mode)).value(); }
    log::Segment* adopt() {
        log::Segment* const segment = log_.acquire().value();
        log_.adopt(segment, {}, sequence_++);
        const std::uint64_t order = log_.segments().oldest_order() + log_.segments().size() - 1;
        board_.place(1, order).store(segment->index());
        board_.row(1).adopted.store(order + 1);
        return segment;
    }
    std::uint64_t append(std::uint64_t offset, std::size_t size = 100) {
        log_.append_data(offset, bytes_of(size, offset), log::DataClass::kRaw, sequence_, 0);
        return sequence_++;
    }
    // What the owner does with segments that were released.
    void give_back() {
        while (!log_.segments().empty() && log_.segments().oldest_order() < board_.row(1).released.load())
            log_.segments().release_oldest();
    }
    std::vector<std::uint64_t> read() {
        std::vector<LogFollower::Record> records;
        status_ = follower_.read(records);
        std::vector<std::uint64_t> sequences;
        for (const LogFollower::Record& record : records) {
            sequences.push_back(record.sequence);
            for (const ByteRange& extent : record.extents) {
                const auto expected = bytes_of(extent.size(), extent.begin);
                EXPECT_EQ(std::memcmp(record.segment->at(record.payload), expected.data(), expected.size()), 0);
                EXPECT_EQ(record.segment->generation(), record.generation);
            }
        }
        return sequences;
    }

    std::unique_ptr<io::Directory> directory_;
    Board board_;
    log::SegmentPool pool_;
    log::FileLog log_;
    LogFollower follower_;
    std::uint64_t sequence_ = 1;
    Status status_;
};

using Sequences = std::vector<std::uint64_t>;

TEST_F(LogFollowerTest, an_empty_log_has_no_records) {
    EXPECT_EQ(read(), Sequences{});
    EXPECT_TRUE(status_);
    adopt();
    EXPECT_EQ(read(), Sequences{}) << "the open record is nothing to follow";
    EXPECT_TRUE(status_);
}

TEST_F(LogFollowerTest, without_a_pool_nothing_is_read) {
    LogFollower own(board_, 1, nullptr, kSegment);
    adopt();
    append(0);
    std::vector<LogFollower::Record> records;
    EXPECT_TRUE(own.read(records));
    EXPECT_TRUE(records.empty());
}

TEST_F(LogFollowerTest, records_are_read_once_as_they_appear_across_segments) {
    Sequences written, found;
    for (int segment = 0; segment < 4; ++segment) {
        adopt();
        for (std::uint64_t i = 0; i < 10; ++i) {
            written.push_back(append(1000 * i));
            if (i % 3 == 0)
                for (const std::uint64_t sequence : read()) found.push_back(sequence);
        }
    }
    for (const std::uint64_t sequence : read()) found.push_back(sequence);
    EXPECT_EQ(found, written);
    EXPECT_TRUE(status_);
    EXPECT_EQ(read(), Sequences{});
}

TEST_F(LogFollowerTest, markers_are_read_in_their_place) {
    adopt();
    const auto data = append(0);
    log_.append_marker(log::RecordKind::kTruncate, 50, sequence_++);
    std::vector<LogFollower::Record> records;
    ASSERT_TRUE(follower_.read(records));
    ASSERT_EQ(records.size(), 2u);
    EXPECT_EQ(records[0].sequence, data);
    EXPECT_EQ(records[1].kind, log::RecordKind::kTruncate);
    EXPECT_EQ(records[1].argument, 50u);
}

TEST_F(LogFollowerTest, one_that_begins_late_is_told_that_segments_are_gone_and_begins_afresh) {
    for (int i = 0; i < 3; ++i) {
        adopt();
        append(1000);
    }
    board_.row(1).released.store(2);
    give_back();
    EXPECT_EQ(read(), Sequences{});
    EXPECT_EQ(status_.code(), Code::kNotFound);
    follower_.restart();
    EXPECT_EQ(read().size(), 1u);
    EXPECT_TRUE(status_);
}

// The place is the same, and so is nothing else.
TEST_F(LogFollowerTest, a_segment_that_was_used_again_since_the_last_look_is_noticed) {
    adopt();
    append(0);
    EXPECT_EQ(read().size(), 1u);
    board_.row(1).released.store(1);
    give_back();
    adopt();
    for (std::uint64_t i = 0; i < 5; ++i) append(1000 * i);
    EXPECT_EQ(read(), Sequences{});
    EXPECT_EQ(status_.code(), Code::kNotFound);
    follower_.restart();
    EXPECT_EQ(read().size(), 5u);
    EXPECT_TRUE(status_);
}

// There was something behind what had been read, and it is gone.
TEST_F(LogFollowerTest, a_segment_that_was_used_again_is_noticed_even_if_it_holds_less_than_was_read) {
    adopt();
    for (std::uint64_t i = 0; i < 5; ++i) append(1000 * i);
    EXPECT_EQ(read().size(), 5u);
    append(7000);
    board_.row(1).released.store(1);
    give_back();
    adopt();
    append(0);
    EXPECT_EQ(read(), Sequences{});
    EXPECT_EQ(status_.code(), Code::kNotFound);
    follower_.restart();
    EXPECT_EQ(read().size(), 1u);
    EXPECT_TRUE(status_);
}

// Otherwise the drainer would take the segment for one that it has followed to the end, and release it.
TEST_F(LogFollowerTest, records_that_do_not_count_are_found_again) {
    log::Segment* const segment = adopt();
    append(0);
    EXPECT_EQ(read().size(), 1u);
    const std::uint64_t end = follower_.end();
    append(1000);
    *segment->at(log::kGenerationOffset) ^= std::byte{0x40};
    EXPECT_EQ(read(), Sequences{});
    EXPECT_EQ(status_.code(), Code::kNotFound) << status_.message();
    EXPECT_EQ(follower_.end(), end);
    *segment->at(log::kGenerationOffset) ^= std::byte{0x40};
    EXPECT_EQ(read().size(), 1u);
    EXPECT_TRUE(status_) << status_.message();
}

TEST_F(LogFollowerTest, a_damaged_record_ends_the_log_with_an_error) {
    log::Segment* const segment = adopt();
    append(0);
    const std::uint64_t begin = segment->tail;
    append(1000);
    *segment->at(begin + 8) ^= std::byte{0xFF};
    EXPECT_EQ(read().size(), 1u) << "what is before it counts";
    EXPECT_EQ(status_.code(), Code::kCorrupt) << status_.message();
    EXPECT_THAT(status_.message(), testing::HasSubstr("cannot be followed"));
}

TEST_F(LogFollowerTest, a_tail_beyond_the_segment_is_not_followed) {
    log::Segment* const segment = adopt();
    append(0);
    const std::uint64_t beyond = kSegment + 4096;
    std::memcpy(segment->at(log::kTailOffset), &beyond, sizeof beyond);
    EXPECT_EQ(read(), Sequences{});
    EXPECT_EQ(status_.code(), Code::kCorrupt) << status_.message();
}

TEST_F(LogFollowerTest, a_segment_that_the_pool_does_not_have_is_an_error) {
    adopt();
    append(0);
    board_.place(1, 0).store(std::uint64_t{1} << 60);
    EXPECT_EQ(read(), Sequences{});
    EXPECT_EQ(status_.code(), Code::kCorrupt) << status_.message();
}

// A file that was cut stands for a device that fails: pages beyond its end cannot be had.
TEST(LaneOnAFailingDevice, says_what_cannot_be_read_and_keeps_what_was) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    const test::Scratch scratch;
    const auto directory = std::move(io::open_posix_directory(scratch.area())).value();
    const auto open = [&](io::OpenMode mode) { return std::move(directory->open_file("log", mode)).value(); };
    const Board board = std::move(Board::create(io::make_memory_file("board"), 2, 16)).value();
    log::SegmentPool pool(open(io::OpenMode::kCreateNew), log::PoolLimits{8 * kSegment, kSegment, 0}, {42, 4711, {}});
    log::FileLog log(pool, 5, {1, 2, "/scratch/run.h5"}, false);
    log::Segment* const segment = log.acquire().value();
    ASSERT_TRUE(log.adopt(segment, {}, 1));
    board.place(1, 0).store(segment->index());
    board.row(1).adopted.store(1);
    const auto append = [&](std::uint64_t sequence) {
        log.append_data(5000 * sequence, bytes_of(4000, sequence), log::DataClass::kRaw, sequence, 0);
    };
    append(2);   // goes on into the third page
    LogFollower lane(board, 1, open(io::OpenMode::kReadWrite), kSegment);
    std::vector<LogFollower::Record> records;
    ASSERT_TRUE(lane.read(records));
    ASSERT_EQ(records.size(), 1u);
    append(3);
    for (const std::uint64_t left :
         {std::uint64_t{8192}, std::uint64_t{0}}) {   // the record, then the segment's header as well
        ASSERT_TRUE(open(io::OpenMode::kReadWrite)->resize(left));
        const Status cut = lane.read(records);
        EXPECT_EQ(cut.sys_errno(), EIO) << cut.message();
        EXPECT_THAT(cut.message(), testing::HasSubstr("/log"));
        EXPECT_EQ(records.size(), 1u);
    }
    EXPECT_EQ(records.front().sequence, 2u);
}

TEST_F(LogFollowerTest, a_pool_that_cannot_be_mapped_is_an_error) {
    auto plan = std::make_shared<io::FaultPlan>();
    plan->fail(io::Operation::kMap, 1, 1, ENOMEM);
    LogFollower lane(board_, 1, io::make_fault_file(open(io::OpenMode::kReadWrite), plan), kSegment);
    adopt();
    append(0);
    std::vector<LogFollower::Record> records;
    EXPECT_EQ(lane.read(records).sys_errno(), ENOMEM);
    ASSERT_TRUE(lane.read(records)) << "and tried again";
    EXPECT_EQ(records.size(), 1u);
}

}   // namespace
}   // namespace forebay::group
