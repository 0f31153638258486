#include "log/record_cursor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checksum.h"
#include "support/engine_fixture.h"
#include "support/partial_segment.h"

namespace forebay::log {
namespace {

using Found = RecordCursor::Found;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kSegment = 16 << 10, kUse = 0x5eed, kGeneration = 7;

// A segment that the test writes record by record, and a cursor over it.
class RecordCursorTest : public ::testing::Test {
  protected:
    RecordCursorTest() { segment_.owner_generation = kGeneration; }

    // Writes a record at the end. Returns its beginning.
    std::uint64_t append(RecordKind kind, std::uint64_t sequence, io::Bytes payload = {}, std::uint64_t use = kUse,
                         bool checked = true) {
        std::vector<ByteRange> extents;
        if (kind == RecordKind::kData) extents.push_back({1000 * sequence, 1000 * sequence + payload.size()});
        const std::span<std::byte> at = std::span(segment_.content()).subspan(end_);
        const std::uint64_t front = payload_offset(extents.size());
        if (!payload.empty()) std::memcpy(at.data() + front, payload.data(), payload.size());
        encode(RecordHeader{kind, DataClass::kRaw, checked, sequence, payload.size(), 0, 0, checksum(payload), false},
               extents, use, at.first(front));
        return std::exchange(end_, end_ + record_bytes(extents.size(), payload.size()));
    }
    std::uint64_t open() { return append(RecordKind::kOpen, 1, encode(OpenPayload{1, 2, 0, {}, "/scratch/run.h5"})); }
    std::uint64_t data(std::uint64_t sequence, std::size_t size = 100) {
        return append(RecordKind::kData, sequence, test::bytes_of(size, sequence));
    }
    Found look(std::uint64_t end, PayloadCheck check = PayloadCheck::kVerify) {
        const Found found = cursor_.look(segment_, end, check);
        EXPECT_TRUE(segment_.in_order());
        return found;
    }
    // Reads to the end, or to the first other bytes.
    std::vector<std::uint64_t> read(std::uint64_t end) {
        std::vector<std::uint64_t> sequences;
        for (; (last_ = look(end)) == Found::kRecord; cursor_.advance()) {
            const DecodedRecord& record = cursor_.record();
            sequences.push_back(record.header.sequence);
            if (record.header.kind != RecordKind::kData) continue;
            const auto expected = test::bytes_of(record.payload.size(), record.header.sequence);
            EXPECT_EQ(std::memcmp(record.payload.data(), expected.data(), expected.size()), 0);
            EXPECT_EQ(record.payload.data(), segment_.bytes().data() + cursor_.payload_position());
        }
        return sequences;
    }

    test::PartialSegment segment_{std::vector<std::byte>(kSegment)};
    std::uint64_t end_ = kSegmentHeaderBytes;
    RecordCursor cursor_{kUse, kGeneration};
    Found last_ = Found::kEnd;
};

TEST_F(RecordCursorTest, the_open_record_and_all_others_are_found_in_place) {
    EXPECT_EQ(look(end_), Found::kEnd);
    EXPECT_FALSE(cursor_.opening());
    open();
    data(2);
    append(RecordKind::kCommit, 3);
    data(4, 3000);
    EXPECT_THAT(read(end_), ElementsAre(1, 2, 3, 4));
    EXPECT_EQ(last_, Found::kEnd);
    EXPECT_EQ(cursor_.position(), end_);
    ASSERT_TRUE(cursor_.opening());
    EXPECT_EQ(cursor_.opening()->target.path, "/scratch/run.h5");
    EXPECT_EQ(cursor_.opening()->header.sequence, 1u);
}

TEST_F(RecordCursorTest, at_the_published_end_the_next_record_is_not_written_yet) {
    open();
    EXPECT_THAT(read(end_), ElementsAre(1));
    const std::uint64_t published = end_;
    data(2);
    EXPECT_EQ(look(published), Found::kEnd) << "the record is whole, but not published";
    EXPECT_LE(segment_.loaded_to, published) << "nothing behind the end is loaded";
    EXPECT_THAT(read(end_), ElementsAre(2));
    EXPECT_EQ(look(published), Found::kEnd) << "an older end";
}

TEST_F(RecordCursorTest, a_look_does_not_move_the_cursor) {
    const std::uint64_t begin = open();
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(look(end_), Found::kRecord);
        EXPECT_EQ(cursor_.position(), begin);
    }
}

TEST_F(RecordCursorTest, a_record_that_straddles_the_published_end_is_torn_until_the_end_is_behind_it) {
    open();
    EXPECT_THAT(read(end_), ElementsAre(1));
    const std::uint64_t begin = data(2);
    for (std::uint64_t cut = begin + 1; cut < end_; ++cut) {
        ASSERT_EQ(look(cut), Found::kTorn) << "cut off after " << cut - begin;
        ASSERT_EQ(cursor_.why().code(), Code::kCorrupt);
        ASSERT_EQ(cursor_.position(), begin);
    }
    EXPECT_THAT(read(end_), ElementsAre(2));
}

TEST_F(RecordCursorTest, a_torn_record_ends_the_segment_whichever_bit_of_it_is_turned) {
    open();
    EXPECT_THAT(read(end_), ElementsAre(1));
    const std::uint64_t begin = data(2), payload = begin + payload_offset(1);
    data(3);
    for (std::uint64_t at = begin; at < payload + 100; ++at) {
        segment_.content()[at] ^= std::byte{0x10};
        ASSERT_EQ(look(end_), Found::kTorn) << "byte " << at - begin;
        ASSERT_EQ(cursor_.position(), begin);
        // A payload is compared only on demand.
        ASSERT_EQ(look(end_, PayloadCheck::kTrust), at < payload ? Found::kTorn : Found::kRecord) << at - begin;
        segment_.content()[at] ^= std::byte{0x10};
    }
    EXPECT_THAT(read(end_), ElementsAre(2, 3));
}

TEST_F(RecordCursorTest, zeros_below_the_published_end_are_torn_and_zeros_behind_it_are_not_looked_at) {
    open();
    data(2);
    EXPECT_THAT(read(end_), ElementsAre(1, 2));
    EXPECT_EQ(last_, Found::kEnd);
    for (const std::uint64_t more : {std::uint64_t{1}, kRecordHeaderBytes, kSegment - end_}) {
        EXPECT_EQ(look(end_ + more), Found::kTorn) << more;
        EXPECT_EQ(cursor_.position(), end_);
    }
}

TEST_F(RecordCursorTest, an_end_outside_the_segment_is_torn_and_brings_no_record) {
    open();
    EXPECT_EQ(look(kSegment + 1), Found::kTorn);
    EXPECT_EQ(look(UINT64_MAX), Found::kTorn);
    EXPECT_EQ(segment_.loaded_to, 0u);
    EXPECT_EQ(look(kSegment), Found::kRecord);
}

TEST_F(RecordCursorTest, a_record_of_an_earlier_use_of_the_segment_is_torn) {
    open();
    data(2);
    append(RecordKind::kData, 3, test::bytes_of(100, 3), kUse - 1);
    EXPECT_THAT(read(end_), ElementsAre(1, 2));
    EXPECT_EQ(last_, Found::kTorn);
    EXPECT_THAT(cursor_.why().message(), HasSubstr("header checksum"));
}

TEST_F(RecordCursorTest, the_records_of_a_stale_generation_are_void) {
    open();
    data(2);
    EXPECT_THAT(read(end_), ElementsAre(1, 2));
    EXPECT_TRUE(cursor_.confirm(segment_));
    segment_.owner_generation = kGeneration + 1;
    EXPECT_EQ(cursor_.confirm(segment_).code(), Code::kNotFound);
}

// A device that fails says nothing about a reuse: a drainer would forget records that only it has.
TEST_F(RecordCursorTest, an_unreadable_generation_is_not_taken_for_a_reuse) {
    open();
    data(2);
    EXPECT_THAT(read(end_), ElementsAre(1, 2));
    segment_.readable = 0;
    EXPECT_EQ(cursor_.confirm(segment_).sys_errno(), EIO);
    segment_.readable = UINT64_MAX;
    EXPECT_TRUE(cursor_.confirm(segment_));
}

TEST_F(RecordCursorTest, gaps_and_falls_of_sequence_numbers_are_no_damage) {
    open();
    for (const std::uint64_t sequence : {9u, 5u, 5u, 100u}) data(sequence);
    EXPECT_THAT(read(end_), ElementsAre(1, 9, 5, 5, 100));
    EXPECT_EQ(last_, Found::kEnd);
}

TEST_F(RecordCursorTest, a_segment_that_does_not_begin_with_an_open_record_is_torn) {
    data(2);
    EXPECT_THAT(read(end_), IsEmpty());
    EXPECT_EQ(last_, Found::kTorn);
    EXPECT_THAT(cursor_.why().message(), HasSubstr("does not begin with an open record"));
}

TEST_F(RecordCursorTest, a_second_open_record_is_torn) {
    open();
    data(2);
    open();
    EXPECT_THAT(read(end_), ElementsAre(1, 2));
    EXPECT_EQ(last_, Found::kTorn);
    EXPECT_THAT(cursor_.why().message(), HasSubstr("second open record"));
}

TEST_F(RecordCursorTest, an_open_record_that_names_no_target_is_torn) {
    append(RecordKind::kOpen, 1, test::bytes_of(20, 1));
    EXPECT_EQ(look(end_), Found::kTorn);
    EXPECT_FALSE(cursor_.opening());
}

TEST_F(RecordCursorTest, bytes_that_cannot_be_loaded_are_read_later) {
    open();
    EXPECT_THAT(read(end_), ElementsAre(1));
    const std::uint64_t begin = data(2);
    for (const std::uint64_t readable : {begin, begin + kRecordHeaderBytes, end_ - 64}) {
        segment_.readable = readable;
        EXPECT_EQ(look(end_), Found::kUnreadable);
        EXPECT_EQ(cursor_.why().sys_errno(), EIO);
        EXPECT_EQ(cursor_.position(), begin);
    }
    segment_.readable = UINT64_MAX;
    EXPECT_THAT(read(end_), ElementsAre(2));
}

TEST_F(RecordCursorTest, a_payload_without_checksum_is_not_loaded) {
    open();
    const std::uint64_t payload = append(RecordKind::kData, 2, test::bytes_of(4000, 2), kUse, false) +
                                  payload_offset(1);
    EXPECT_EQ(look(end_), Found::kRecord);
    cursor_.advance();
    ASSERT_EQ(look(end_), Found::kRecord);
    EXPECT_EQ(cursor_.payload_position(), payload);
    EXPECT_EQ(segment_.loaded_to, payload);
}

TEST_F(RecordCursorTest, a_search_finds_the_records_behind_the_damage) {
    const std::uint64_t begin = open();
    data(2);
    const std::uint64_t second = data(3);
    append(RecordKind::kCommit, 4);
    segment_.content()[begin + 40] ^= std::byte{1};
    segment_.content()[second + 40] ^= std::byte{1};
    EXPECT_EQ(look(end_), Found::kTorn);
    std::vector<std::uint64_t> sequences;
    for (; (last_ = cursor_.search(segment_, end_)) == Found::kRecord; cursor_.advance())
        sequences.push_back(cursor_.record().header.sequence);
    EXPECT_THAT(sequences, ElementsAre(2, 4));
    EXPECT_EQ(last_, Found::kEnd);
    EXPECT_EQ(cursor_.search(segment_, UINT64_MAX), Found::kEnd) << "the segment bounds the search";
    EXPECT_TRUE(segment_.in_order());
}

}   // namespace
}   // namespace forebay::log
