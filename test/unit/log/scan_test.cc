#include "log/scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <map>
#include <optional>
#include <random>

#include "base/bytes.h"
#include "base/checksum.h"
#include "io/fault_file.h"
#include "io/memory_file.h"
#include "log/file_log.h"
#include "support/engine_fixture.h"
#include "support/scan_fixture.h"

namespace forebay::log {
namespace {

using test::ScanTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(ScanTest, a_file_in_which_nothing_is_in_use_has_no_logs) {
    EXPECT_THAT(scan_file(), IsEmpty());
    FileLog& log = add_log(1, "/a");
    adopt(log);
    log.segments().release_all();
    EXPECT_THAT(scan_file(), IsEmpty());
}

TEST_F(ScanTest, every_log_is_found_with_its_target_and_its_records_in_sequence) {
    FileLog& a = add_log(1, "/a");
    FileLog& b = add_log(2, "/b");
    adopt(a);
    adopt(b, {0, 500});
    write(a, 0);
    write(b, 1000);
    a.append_through({5, 9}, next_++);
    adopt(a);
    write(a, 200);
    commit(a, 300);
    write(a, 300);
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 2u);
    EXPECT_EQ(logs[0].process, process_);
    EXPECT_EQ(logs[0].log, 1u);
    EXPECT_EQ(logs[0].target.path, "/a");
    EXPECT_EQ(logs[0].commit_sequence, 8u);
    EXPECT_EQ(logs[0].committed_size, 300u);
    EXPECT_THAT(sequences(logs[0]), ElementsAre(3, 5, 7, 8, 9));
    EXPECT_THAT(logs[0].damage, IsEmpty());
    EXPECT_THAT(logs[0].records[1].extents, ElementsAre(ByteRange{5, 9}));
    EXPECT_EQ(payload(logs[0].records[2]), test::bytes_of(100, 7));
    EXPECT_EQ(logs[1].target.inode, 2u);
    EXPECT_EQ(logs[1].commit_sequence, 0u);   // none yet: the size is that at open
    EXPECT_EQ(logs[1].committed_size, 500u);
    EXPECT_THAT(sequences(logs[1]), ElementsAre(4));
}

TEST_F(ScanTest, a_commit_whose_record_went_with_its_segment_is_known_from_a_later_one) {
    FileLog& log = add_log(1, "/a");
    adopt(log);
    write(log, 0);
    commit(log, 100);
    adopt(log, {3, 100, 1234});
    write(log, 100);
    log.segments().release_oldest();
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_EQ(logs[0].commit_sequence, 3u);
    EXPECT_EQ(logs[0].committed_size, 100u);
    EXPECT_EQ(logs[0].commit_time_ns, 1234u);
    EXPECT_THAT(logs[0].damage, IsEmpty());
}

TEST_F(ScanTest, a_record_copied_forward_keeps_its_place_in_the_sequence) {
    FileLog& log = add_log(1, "/a");
    adopt(log);
    write(log, 0);
    write(log, 50);
    adopt(log);
    log.append_data(0, test::bytes_of(100, 2), DataClass::kMetadata, 2, 0);   // number 2 again
    log.segments().release_oldest();
    write(log, 70);
    EXPECT_THAT(sequences(scan_file().at(0)), ElementsAre(2, 5));
}

TEST_F(ScanTest, a_segment_that_was_taken_and_not_written_yet_is_no_damage) {
    FileLog& log = add_log(1, "/a");
    adopt(log);
    write(log, 0);
    ASSERT_TRUE(log.acquire());
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_THAT(logs[0].damage, IsEmpty());
    EXPECT_EQ(logs[0].target.path, "/a");
}

TEST_F(ScanTest, the_first_segments_being_free_hides_nothing) {
    FileLog& gone = add_log(1, "/gone");
    FileLog& log = add_log(2, "/a");
    for (int i = 0; i < 3; ++i) adopt(gone);
    adopt(log);
    write(log, 0);
    gone.segments().release_all();
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_EQ(logs[0].target.path, "/a");
    EXPECT_THAT(logs[0].damage, IsEmpty());
}

// What is left if the process dies at any store while it begins a segment, which has been in use or not.
TEST_F(ScanTest, a_segment_that_was_being_begun_is_free) {
    FileLog& gone = add_log(1, "/gone");
    FileLog& log = add_log(2, "/a");
    adopt(gone);
    write(gone, 0);
    adopt(log);
    write(log, 0);
    gone.segments().release_all();
    const auto bytes = stored();
    for (const bool used : {false, true})
        for (std::size_t written = 8; written < 80; written += 8)
            for (const bool only : {false, true}) {
                std::vector<std::byte> begun(kSegmentHeaderBytes), now = bytes;
                encode(SegmentHeader{kSegment, process_, 77, 5}, begun);
                if (!used)
                    std::fill(now.begin(), now.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2), std::byte{0});
                std::copy(begun.begin() + 8, begun.begin() + static_cast<std::ptrdiff_t>(written), now.begin() + 8);
                if (only) now.resize(bytes.size() / 2);
                auto directory = io::make_memory_directory("/copy");
                auto file = std::move(directory->open_file("log", io::OpenMode::kCreateNew)).value();
                ASSERT_TRUE(file->write_at(0, now));
                const auto logs = scan(*file);
                ASSERT_TRUE(logs) << logs.status().message() << ", used " << used << ", written " << written
                                  << ", only " << only;
                EXPECT_EQ(logs.value().size(), only ? 0U : 1U);
                for (const auto& each : logs.value()) EXPECT_THAT(each.damage, IsEmpty());
            }
}

TEST_F(ScanTest, a_log_kept_as_data_in_a_free_segment_is_not_taken_for_one) {
    FileLog& gone = add_log(1, "/gone");
    FileLog& log = add_log(2, "/a");
    const std::uint64_t payload = adopt(gone).tail + payload_offset(1);
    // Headers of segments of one page each, where pages begin.
    std::vector<std::byte> forged(8 * 4096);
    for (std::size_t page = 1; page < 8; ++page)
        encode(SegmentHeader{4096, process_, 9, 0}, std::span(forged).subspan(page * 4096 - payload));
    gone.append_data(0, forged, DataClass::kRaw, next_++, 0);
    const auto bytes = stored();
    ASSERT_TRUE(decode_segment_bytes(std::span(bytes).subspan(4096, kSegmentHeaderBytes)));
    adopt(log);
    write(log, 0);
    gone.segments().release_all();
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_EQ(logs[0].log, 2u);
}

TEST_F(ScanTest, a_damaged_record_ends_its_segment_and_later_segments_still_count) {
    FileLog& log = add_log(1, "/a");
    const Segment& first = adopt(log);
    write(log, 0);
    const std::uint64_t second_record = first.tail;
    write(log, 100);
    write(log, 200);
    adopt(log);
    write(log, 300);
    flip(second_record + 40);
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_THAT(sequences(logs[0]), ElementsAre(2, 6));
    ASSERT_EQ(logs[0].damage.size(), 1u);
    EXPECT_EQ(logs[0].damage[0].code(), Code::kCorrupt);
    EXPECT_THAT(logs[0].damage[0].message(),
                HasSubstr("offset " + std::to_string(second_record) + ": record header checksum is wrong"));
}

TEST_F(ScanTest, what_is_lost_is_told_by_the_commit_before_it) {
    FileLog& log = add_log(1, "/a");
    const Segment& first = adopt(log);
    write(log, 0);
    commit(log, 100);   // number 3
    const std::uint64_t damaged = first.tail;
    write(log, 100);
    EXPECT_EQ(scan_file()[0].lost_after, std::nullopt);
    flip(damaged + 40);
    auto logs = scan_file();
    EXPECT_EQ(logs[0].lost_after, 3u);
    EXPECT_EQ(logs[0].commit_sequence, 3u);
    EXPECT_GT(logs[0].commit_time_ns, 0u);
    EXPECT_EQ(logs[0].unread_bytes, first.tail - damaged);
    adopt(log, {3, 100, 1234});
    commit(log, 100);   // what is lost was promised
    logs = scan_file();
    EXPECT_EQ(logs[0].lost_after, 3u);
    EXPECT_EQ(logs[0].commit_sequence, 6u);
    EXPECT_THAT(logs[0].segments, ElementsAre(0, kSegment));
}

TEST_F(ScanTest, payloads_are_found_in_the_file_where_they_are_left) {
    FileLog& log = add_log(1, "/a");
    adopt(log);
    adopt(log);
    write(log, 0, 1000);
    const auto logs = scan_file();
    const ScannedRecord& record = logs.at(0).records.at(0);
    EXPECT_EQ(payload(record), test::bytes_of(1000, 3));
    EXPECT_GT(record.payload_at, kSegment);
}

TEST_F(ScanTest, a_freed_segment_is_in_no_log) {
    FileLog& log = add_log(1, "/a");
    adopt(log);
    adopt(log);
    ASSERT_TRUE(free_segments(*file(), std::array<std::uint64_t, 1>{0}, false));
    auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_THAT(logs[0].segments, ElementsAre(kSegment));
    EXPECT_THAT(logs[0].damage, IsEmpty());
    ASSERT_TRUE(free_segments(*file(), std::array<std::uint64_t, 1>{kSegment}, false));
    EXPECT_THAT(scan_file(), IsEmpty());
}

TEST_F(ScanTest, a_segment_whose_header_is_damaged_is_missed_by_every_log) {
    FileLog& a = add_log(1, "/a");
    FileLog& b = add_log(2, "/b");
    adopt(a);
    adopt(a);
    adopt(a);
    adopt(b);
    flip(kSegment + 60);   // the log's number of the second segment
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 2u);
    ASSERT_EQ(logs[0].damage.size(), 2u);
    EXPECT_THAT(logs[0].damage[0].message(), HasSubstr("segment 2 at offset 131072: the one before it is segment 0"));
    EXPECT_THAT(logs[0].damage[1].message(), HasSubstr("offset 65536: segment header checksum"));
    ASSERT_EQ(logs[1].damage.size(), 1u);
}

TEST_F(ScanTest, the_first_header_being_damaged_hides_only_its_own_segment) {
    FileLog& log = add_log(1, "/a");
    adopt(log);
    adopt(log);
    write(log, 0);
    flip(16);
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_THAT(sequences(logs[0]), ElementsAre(3));
    EXPECT_EQ(logs[0].damage.size(), 1u);
}

TEST_F(ScanTest, a_tail_that_reaches_beyond_the_records_is_damage_and_costs_no_record) {
    FileLog& log = add_log(1, "/a");
    const Segment& segment = adopt(log);
    write(log, 0);
    std::array<std::byte, 8> tail;
    store_le(tail.data(), segment.tail + 64);
    ASSERT_TRUE(file()->write_at(kTailOffset, tail));
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_THAT(sequences(logs[0]), ElementsAre(2));
    EXPECT_EQ(logs[0].damage.size(), 1u);
}

// The tail has no checksum. Whatever it says, what a segment held before, of this file or of another, is not read
// again.
TEST_F(ScanTest, a_tail_raised_over_an_earlier_use_of_the_segment_brings_nothing_back) {
    for (const std::uint64_t number : {1, 2}) {
        SCOPED_TRACE(testing::Message() << "used before by log " << number);
        FileLog& before = add_log(number, "/a");
        const Segment& used = adopt(before);
        for (int i = 0; i < 5; ++i) write(before, 4096);
        commit(before, 5000);
        const std::uint64_t raised = used.tail;
        before.segments().release_all();
        FileLog& log = add_log(1, "/a");
        const Segment& segment = adopt(log, {0, 100});
        write(log, 0);
        ASSERT_EQ(segment.index(), used.index());
        std::array<std::byte, 8> tail;
        store_le(tail.data(), raised);
        ASSERT_TRUE(file()->write_at(segment.index() * kSegment + kTailOffset, tail));
        const auto logs = scan_file();
        ASSERT_EQ(logs.size(), 1u);
        EXPECT_THAT(sequences(logs[0]), ElementsAre(next_ - 1));
        EXPECT_EQ(logs[0].commit_sequence, 0u);
        EXPECT_EQ(logs[0].damage.size(), 1u);
        log.segments().release_all();
        log.segments().release_all();
    }
}

TEST_F(ScanTest, a_file_cut_off_at_any_place_is_read_up_to_there) {
    FileLog& log = add_log(1, "/a");
    const Segment& first = adopt(log);
    std::vector<std::uint64_t> ends;
    for (int i = 0; i < 5; ++i) {
        write(log, 0, 300);
        ends.push_back(first.tail);
    }
    adopt(log);
    const auto whole = stored();
    for (std::uint64_t size = 2 * kSegment; size > kSegment; size -= 997) {
        // A second segment cut short is no damage unless records are gone.
        auto cut = io::make_memory_file("/cut");
        ASSERT_TRUE(cut->write_at(0, std::span(whole).first(size)));
        const auto logs = scan(*cut);
        ASSERT_TRUE(logs) << logs.status().message();
        ASSERT_EQ(logs.value().size(), 1u);
        EXPECT_EQ(logs.value()[0].records.size(), 5u);
    }
    for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{127}, kSegment - 1}) {
        auto cut = io::make_memory_file("/cut");
        ASSERT_TRUE(cut->write_at(0, std::span(whole).first(size)));
        EXPECT_EQ(scan(*cut).status().code(), Code::kCorrupt);
    }
}

TEST_F(ScanTest, another_version_is_refused_as_a_whole) {
    FileLog& log = add_log(1, "/a");
    adopt(log);
    Segment& second = adopt(log);
    store_le(second.at(8), std::uint32_t{1});
    store_le(second.at(72), checksum(second.bytes().first(72)));
    EXPECT_EQ(scan(*file()).status().code(), Code::kUnsupported);
    EXPECT_THAT(scan(*file()).status().message(), HasSubstr("/area/log"));
}

TEST_F(ScanTest, what_is_no_log_is_told_apart_from_an_empty_one) {
    auto other = io::make_memory_file("/other");
    ASSERT_TRUE(other->write_at(0, test::bytes_of(100000, 1)));
    EXPECT_EQ(scan(*other).status().code(), Code::kCorrupt);
    EXPECT_THAT(scan(*io::make_memory_file("/empty")).value(), IsEmpty());
}

TEST_F(ScanTest, a_failing_read_is_passed_on_whichever_it_is) {
    FileLog& log = add_log(1, "/a");
    adopt(log);
    adopt(log);
    for (std::uint64_t nth = 1;; ++nth) {
        auto plan = std::make_shared<io::FaultPlan>();
        plan->fail_any(nth, 1, EIO);
        const auto logs = scan(*io::make_fault_file(file(), plan));
        if (plan->fired() == 0) {
            EXPECT_TRUE(logs);
            EXPECT_GT(nth, 4u);
            break;
        }
        EXPECT_EQ(logs.status().sys_errno(), EIO) << nth;
    }
}

TEST_F(ScanTest, a_segment_that_names_another_target_is_not_mixed_in) {
    FileLog& log = add_log(1, "/a");
    adopt(log);
    write(log, 0);
    FileLog impostor(pool_, 1, LogTarget{1, 1, "/b"}, false);
    impostor.adopt(pool_.acquire(1, 1).value(), {}, next_++);
    write(impostor, 500);
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_EQ(logs[0].target.path, "/a");
    EXPECT_THAT(sequences(logs[0]), ElementsAre(2));
    EXPECT_EQ(logs[0].damage.size(), 1u);
}

TEST_F(ScanTest, two_segments_at_the_same_place_of_a_log_are_damage) {
    FileLog& log = add_log(1, "/a");
    adopt(log);
    FileLog twin(pool_, 1, LogTarget{1, 1, "/a"}, false);
    adopt(twin);
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    ASSERT_EQ(logs[0].damage.size(), 1u);
    EXPECT_THAT(logs[0].damage[0].message(), HasSubstr("same place"));
}

// Any bytes overwritten anywhere: what is still read as a record is one that was written.
TEST_F(ScanTest, random_damage_never_makes_a_record) {
    FileLog& a = add_log(1, "/a");
    FileLog& b = add_log(2, "/b");
    for (int i = 0; i < 2; ++i) {
        adopt(a);
        adopt(b);
        for (int k = 0; k < 20; ++k)
            write(k % 2 == 0 ? a : b, 1000u * static_cast<unsigned>(k), 1 + 150u * static_cast<unsigned>(k));
        commit(a, 50000);
    }
    const auto whole = stored();
    std::map<std::uint64_t, std::vector<std::byte>> written;
    for (const ScannedLog& log : scan_file())
        for (const ScannedRecord& record : log.records) written[record.header.sequence] = payload(record);
    ASSERT_EQ(written.size(), 42u);
    std::mt19937_64 random(1);
    for (int round = 0; round < 300; ++round) {
        auto bytes = whole;
        for (std::uint64_t hit = 0; hit <= random() % 6; ++hit) {
            const std::uint64_t segment = random() % 4, below = random() % 3 == 0 ? kSegmentHeaderBytes : 16000;
            for (std::uint64_t k = 0; k <= random() % 9; ++k)
                bytes[segment * kSegment + (random() % below + k) % kSegment] = static_cast<std::byte>(random());
        }
        auto damaged = io::make_memory_file("/damaged");
        ASSERT_TRUE(damaged->write_at(0, bytes));
        const auto logs = scan(*damaged);
        if (!logs) continue;
        for (const ScannedLog& log : logs.value())
            for (const ScannedRecord& record : log.records) {
                const auto found = written.find(record.header.sequence);
                ASSERT_NE(found, written.end());
                std::vector<std::byte> read(record.header.payload_bytes);
                ASSERT_TRUE(damaged->read_at(record.payload_at, read));
                ASSERT_EQ(read, found->second);
            }
    }
}

}   // namespace
}   // namespace forebay::log
