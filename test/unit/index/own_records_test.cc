// Records noted by the thread that writes, and taken by whoever needs the index.
#include "index/own_records.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

namespace forebay::index {
namespace {

using Part = log::FileLog::Part;

class OwnRecordsTest : public ::testing::Test {
  protected:
    OwnRecordsTest() : segment_(0, nullptr) {}

    bool note(std::uint64_t begin, std::uint64_t size, bool waits = false, std::uint64_t enough = 100) {
        const std::array<Part, 1> parts{Part{begin, io::Bytes(kBytes).first(size)}};
        return own_.note(parts, {1, {&segment_, begin, ++sequence_, 0}, waits, 0}, enough);
    }

    static constexpr std::array<std::byte, 4096> kBytes{};
    log::Segment segment_;
    OwnRecords own_;
    OwnRecords::Batch batch_;
    std::uint64_t sequence_ = 0;
};

TEST_F(OwnRecordsTest, what_was_noted_is_taken_once_and_keeps_its_segment_until_it_is_done) {
    note(10, 20);
    note(100, 5, true);
    EXPECT_EQ(own_.bytes(), 25u);
    EXPECT_EQ(own_.ready_bytes(), 20u);
    EXPECT_EQ(own_.end(), 105u);
    EXPECT_FALSE(segment_.idle());
    ASSERT_TRUE(own_.take(batch_));
    ASSERT_EQ(batch_.records.size(), 2u);
    EXPECT_EQ(batch_.records[0].at.sequence, 1u);
    EXPECT_TRUE(batch_.records[1].waits);
    EXPECT_EQ(batch_.extents, (std::vector<ByteRange>{{10, 30}, {100, 105}}));
    EXPECT_FALSE(segment_.idle());
    own_.done(batch_);
    EXPECT_TRUE(segment_.idle());
    EXPECT_EQ(own_.bytes(), 0u);
    EXPECT_EQ(own_.ready_bytes(), 0u);
    EXPECT_FALSE(own_.take(batch_));
}

TEST_F(OwnRecordsTest, a_batch_that_was_not_done_is_taken_again_with_what_is_newer) {
    note(0, 10);
    ASSERT_TRUE(own_.take(batch_));
    note(50, 10);
    ASSERT_TRUE(own_.take(batch_));
    EXPECT_EQ(batch_.extents, (std::vector<ByteRange>{{0, 10}, {50, 60}}));
    EXPECT_EQ(batch_.end, 60u);
    EXPECT_EQ(own_.bytes(), 20u);
    own_.done(batch_);
    EXPECT_EQ(own_.bytes(), 0u);
    EXPECT_FALSE(own_.take(batch_));
}

TEST_F(OwnRecordsTest, enough_is_said_once_for_each_batch_and_what_waits_does_not_count) {
    EXPECT_FALSE(note(0, 60));
    EXPECT_FALSE(note(100, 60, true));
    EXPECT_TRUE(note(200, 60));
    EXPECT_FALSE(note(300, 60));
    ASSERT_TRUE(own_.take(batch_));
    own_.done(batch_);
    EXPECT_FALSE(note(400, 60));
    EXPECT_TRUE(note(500, 60));
}

TEST_F(OwnRecordsTest, a_record_of_many_parts_is_one) {
    const std::array<Part, 3> parts{Part{0, io::Bytes(kBytes).first(4)}, Part{8, io::Bytes(kBytes).first(4)},
                                    Part{16, io::Bytes(kBytes).first(4)}};
    EXPECT_FALSE(own_.note(parts, {parts.size(), {&segment_, 0, 1, 0}, false, 0}, 100));
    ASSERT_TRUE(own_.take(batch_));
    EXPECT_EQ(batch_.records.size(), 1u);
    EXPECT_EQ(batch_.records[0].extents, 3u);
    EXPECT_EQ(own_.bytes(), 12u);
}

TEST_F(OwnRecordsTest, one_thread_notes_while_another_takes) {
    constexpr std::uint64_t kRecords = 20'000;
    std::uint64_t taken = 0;
    {
        const std::jthread writer([this] {
            for (std::uint64_t i = 0; i < kRecords; ++i) note(i, 1);
        });
        while (taken < kRecords) {
            if (!own_.take(batch_)) continue;
            for (const OwnRecords::Record& record : batch_.records) EXPECT_EQ(record.at.sequence, ++taken);
            own_.done(batch_);
        }
    }
    EXPECT_EQ(own_.bytes(), 0u);
    EXPECT_TRUE(segment_.idle());
}

}   // namespace
}   // namespace forebay::index
