#include "log/scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "io/memory_file.h"
#include "log/file_log.h"
#include "support/engine_fixture.h"
#include "support/scan_fixture.h"

namespace forebay::log {
namespace {

using test::ScanTest;
using ::testing::ElementsAre;
using ::testing::SizeIs;

class DurableScanTest : public ScanTest {
  protected:
    FileLog& add_durable(std::uint64_t number) {
        logs_.push_back(std::make_unique<FileLog>(pool_, number, LogTarget{1, number, "/scratch/a.h5", {}, true},
                                                  true));
        return *logs_.back();
    }
};

TEST_F(DurableScanTest, what_is_wrong_behind_the_last_commit_was_never_promised) {
    FileLog& log = add_durable(1);
    adopt(log);
    write(log, 0);
    commit(log, 100);
    const std::uint64_t behind = log.segments().newest()->tail;
    write(log, 100);
    adopt(log, {3, 100, 1234});
    adopt(log, {3, 100, 1234});
    flip(behind);     // the record behind the commit
    flip(kSegment);   // and the header of the segment behind it
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_TRUE(logs.front().durable);
    EXPECT_EQ(logs.front().commit_sequence, 3u);
    EXPECT_EQ(logs.front().committed_size, 100u);
    EXPECT_EQ(logs.front().lost_after, std::nullopt);
    EXPECT_THAT(sequences(logs.front()), ElementsAre(2u, 3u));
}

TEST_F(DurableScanTest, damage_before_the_last_commit_is_told) {
    FileLog& log = add_durable(1);
    adopt(log);
    const std::uint64_t first = log.segments().newest()->tail;
    write(log, 0);
    adopt(log);
    commit(log, 100);
    flip(first);
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_EQ(logs.front().lost_after, std::optional<std::uint64_t>(0));
}

// The tail has no checksum. A wrong one must not hide a promised record.
TEST_F(DurableScanTest, a_tail_lowered_in_a_segment_before_the_last_commit_is_told) {
    FileLog& log = add_durable(1);
    std::vector<std::vector<std::uint64_t>> tails;   // that each segment has had
    for (std::uint64_t i = 0; i < 3; ++i) {
        Segment& segment = i < 2 ? adopt(log) : adopt(log, {next_ - 1, 200, 1234});
        tails.push_back({kSegmentHeaderBytes, segment.tail});
        for (int records = 0; records < 2; ++records) {
            write(log, 100 * i);
            tails.back().push_back(segment.tail);
        }
        if (i == 1) commit(log, 200);
    }
    const auto lowered = [&](std::uint64_t segment, std::uint64_t tail) {
        std::array<std::byte, 8> right{}, wrong{};
        EXPECT_TRUE(file()->read_at(segment * kSegment + kTailOffset, right));
        store_le(wrong.data(), tail);
        EXPECT_TRUE(file()->write_at(segment * kSegment + kTailOffset, wrong));
        const auto logs = scan_file();
        EXPECT_TRUE(file()->write_at(segment * kSegment + kTailOffset, right));
        return logs;
    };
    for (const std::uint64_t segment : {0, 1})
        for (const std::uint64_t tail : tails[segment]) {
            if (segment == 0 && tail == tails[0].back()) continue;   // the right one
            const auto logs = lowered(segment, tail);
            ASSERT_EQ(logs.size(), 1u);
            EXPECT_EQ(logs.front().lost_after, std::optional<std::uint64_t>(0)) << segment << ", " << tail;
        }
    // Nothing behind the last commit was promised.
    for (const std::uint64_t tail : tails[2]) {
        const auto logs = lowered(2, tail);
        ASSERT_EQ(logs.size(), 1u);
        EXPECT_EQ(logs.front().lost_after, std::nullopt) << tail;
        EXPECT_EQ(logs.front().committed_size, 200u);
    }
}

TEST_F(DurableScanTest, segments_that_were_given_back_do_not_count_when_they_are_there_again) {
    FileLog& log = add_durable(1);
    adopt(log);
    write(log, 0);
    commit(log, 100);
    adopt(log, {3, 100, 1234});
    write(log, 0);
    commit(log, 100);
    log.declare_needed_from(1);   // and the first one is not gone
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_EQ(logs.front().lost_after, std::nullopt);
    EXPECT_THAT(sequences(logs.front()), ElementsAre(5u, 6u));
    EXPECT_THAT(logs.front().segments, ElementsAre(0u, kSegment));   // all are to be freed
}

TEST_F(DurableScanTest, a_segment_that_tells_of_its_own_release_is_damaged_and_releases_none) {
    FileLog& log = add_durable(1);
    for (std::uint64_t i = 0; i < 3; ++i) {
        adopt(log);
        write(log, 100 * i);
        commit(log, 100 * i + 100);
    }
    for (std::uint64_t segment = 0; segment < 3; ++segment)
        for (const std::uint64_t needed : {segment + 1, std::uint64_t{1} << 40, UINT64_MAX}) {
            SCOPED_TRACE(testing::Message() << needed << " in segment " << segment);
            std::array<std::byte, 8> word{};
            store_le(word.data(), needed);
            ASSERT_TRUE(file()->write_at(segment * kSegment + kNeededOffset, word));
            const auto logs = scan_file();
            ASSERT_EQ(logs.size(), 1u);
            EXPECT_EQ(logs.front().target.path, "/scratch/a.h5");
            EXPECT_EQ(logs.front().lost_after, std::optional<std::uint64_t>(0));
            EXPECT_THAT(logs.front().damage, SizeIs(1));
            EXPECT_THAT(sequences(logs.front()), ElementsAre(2u, 3u, 5u, 6u, 8u, 9u));
            store_le(word.data(), std::uint64_t{0});
            ASSERT_TRUE(file()->write_at(segment * kSegment + kNeededOffset, word));
        }
    EXPECT_EQ(scan_file().front().lost_after, std::nullopt);
}

// The process died between the note and the release.
TEST_F(DurableScanTest, records_whose_file_only_a_released_segment_names_are_told) {
    FileLog& log = add_durable(1);
    adopt(log);
    write(log, 0);
    commit(log, 100);
    const std::uint64_t first = adopt(log, {3, 100, 1234}).index() * kSegment + kSegmentHeaderBytes;
    write(log, 0);
    commit(log, 100);
    log.declare_needed_from(1);
    flip(first + 20);
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_EQ(logs.front().target.path, "");
    EXPECT_THAT(logs.front().damage, SizeIs(1));
    EXPECT_TRUE(logs.front().hides_record);
    EXPECT_TRUE(logs.front().hides_commit);
}

TEST_F(DurableScanTest, a_commit_whose_record_went_with_its_segment_is_known_from_a_later_one) {
    FileLog& log = add_durable(1);
    adopt(log);
    write(log, 0);
    commit(log, 100);
    adopt(log, {3, 100, 1234});
    write(log, 100);
    log.declare_needed_from(1);
    log.segments().release_oldest();
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_EQ(logs.front().commit_sequence, 3u);
    EXPECT_EQ(logs.front().committed_size, 100u);
    EXPECT_EQ(logs.front().commit_time_ns, 1234u);
    EXPECT_EQ(logs.front().lost_after, std::nullopt);
}

TEST_F(DurableScanTest, a_commit_from_an_earlier_use_of_the_segment_does_not_count) {
    FileLog& log = add_durable(1);
    adopt(log);
    write(log, 0);
    commit(log, 100);   // number 3
    FileLog& other = add_durable(2);
    adopt(other);
    const std::uint64_t at = other.segments().newest()->tail;
    commit(other, 999999);   // number 5, in the second segment
    std::vector<std::byte> old(64);
    ASSERT_TRUE(file()->read_at(kSegment + at, old));
    other.segments().release_all();
    Segment& reused = adopt(log, {3, 100, 1234});   // the same segment, and the same place in it
    ASSERT_EQ(reused.index(), 1u);
    ASSERT_EQ(reused.tail, at);
    commit(log, 100);   // number 7: it gets lost, and the old one shows through
    ASSERT_TRUE(file()->write_at(kSegment + at, old));
    const auto logs = scan_file();
    ASSERT_EQ(logs.size(), 1u);
    EXPECT_EQ(logs.front().commit_sequence, 3u);
    EXPECT_EQ(logs.front().committed_size, 100u);
    EXPECT_EQ(logs.front().lost_after, std::nullopt);
}

TEST(LargeSegmentTest, payloads_without_a_checksum_are_passed_over_and_what_lies_behind_them_is_seen) {
    constexpr std::uint64_t kLarge = 1 << 20;
    const auto directory = io::make_memory_directory("/area");
    SegmentPool pool(std::move(directory->open_file("log", io::OpenMode::kCreateNew)).value(),
                     PoolLimits{4 * kLarge, kLarge, 0}, {1, 2, {}});
    FileLog log(pool, 1, LogTarget{1, 1, "/a"}, false);
    log.adopt(log.acquire().value(), {}, 1);
    std::array<std::vector<std::byte>, 3> payloads{test::bytes_of(300'000, 1), test::bytes_of(100, 2),
                                                   test::bytes_of(200'000, 3)};
    std::vector<std::uint64_t> at;
    for (std::size_t i = 0; i < payloads.size(); ++i) {
        at.push_back(log.segments().newest()->tail);
        log.append_data(1'000'000 * i, payloads[i], DataClass::kRaw, i + 2, 0);
    }
    log.append_marker(RecordKind::kCommit, 2'200'000, 5);
    const auto file = std::move(directory->open_file("log", io::OpenMode::kReadWrite)).value();
    const auto look = [&] {
        auto logs = scan(*file);
        EXPECT_TRUE(logs);
        return std::move(logs.value().front());
    };
    const ScannedLog all = look();
    EXPECT_EQ(all.commit_sequence, 5u);
    ASSERT_EQ(all.records.size(), 4u);
    for (std::size_t i = 0; i < payloads.size(); ++i) {
        const ScannedRecord& record = all.records[i];
        EXPECT_EQ(record.header.payload_checked, i == 1);
        std::vector<std::byte> there(record.header.payload_bytes);
        ASSERT_TRUE(file->read_at(record.payload_at, there));
        EXPECT_TRUE(test::same(there, payloads[i]));
    }
    // Damage behind a payload that was passed over; behind it another one, and then the commit.
    std::byte byte{};
    ASSERT_TRUE(file->read_at(at[1] + 70, std::span(&byte, 1)));
    byte ^= std::byte{1};
    ASSERT_TRUE(file->write_at(at[1] + 70, std::span(&byte, 1)));
    const ScannedLog damaged = look();
    EXPECT_EQ(damaged.records.size(), 1u);
    EXPECT_EQ(damaged.lost_after, 0u) << "a commit is hidden";
    EXPECT_EQ(damaged.unread_bytes, log.segments().newest()->tail - at[1]);
    log.segments().abandon();
}

}   // namespace
}   // namespace forebay::log
