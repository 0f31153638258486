#include "log/file_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <thread>

#include "base/bytes.h"
#include "base/checksum.h"
#include "base/options.h"
#include "io/fault_file.h"
#include "io/memory_file.h"
#include "io/posix_file.h"
#include "support/engine_fixture.h"
#include "support/faults.h"
#include "support/scratch_folder.h"

namespace forebay::log {
namespace {

using test::bytes_of;

constexpr std::uint64_t kSegment = 64 << 10;

class FileLogTest : public ::testing::Test {
  protected:
    FileLogTest()
        : pool_(io::make_memory_file("/area/log"), PoolLimits{8 * kSegment, kSegment, 0}, {42, 4711, {}}),
          log_(pool_, 5, LogTarget{0x21, 0x22, "/scratch/run.h5"}, false) {}

    Segment* adopt(const FileLog::LastCommit& commit = {}) {
        auto segment = log_.acquire();
        EXPECT_TRUE(segment) << segment.status().message();
        log_.adopt(segment.value(), commit, next_++);
        return segment.value();
    }
    // All records of a segment, as a reader of the published tail finds them.
    static std::vector<DecodedRecord> records(const Segment& segment) {
        std::vector<DecodedRecord> records;
        const auto header = decode_segment_header(segment.bytes());
        EXPECT_TRUE(header) << header.status().message();
        if (!header) return records;
        for (std::uint64_t at = kSegmentHeaderBytes; at < header.value().tail;) {
            auto record = decode_record(
                std::span<const std::byte>(segment.bytes()).first(header.value().tail).subspan(at), header.value().use);
            EXPECT_TRUE(record) << record.status().message();
            if (!record) return records;
            at += record.value().bytes;
            records.push_back(std::move(record).value());
        }
        return records;
    }

    SegmentPool pool_;
    FileLog log_;
    std::uint64_t next_ = 1;
};

// What the reserve counts on (stage/engine_area.cc).
TEST(FileLogRoom, of_a_segment_of_the_usual_size_is_all_but_a_sixteenth_of_it_payload) {
    const std::uint64_t segment = Options().segment;
    SegmentPool pool(io::make_memory_file("/area/log"), PoolLimits{2 * segment, segment, 0}, {42, 4711, {}});
    FileLog log(pool, 5, LogTarget{0x21, 0x22, "/scratch/run.h5"}, false);
    auto taken = log.acquire();
    ASSERT_TRUE(taken);
    log.adopt(taken.value(), {}, 1);
    EXPECT_GE(log.room(false) + log.room(false) / 16, segment);
}

TEST_F(FileLogTest, an_empty_log_has_no_room) {
    EXPECT_TRUE(log_.segments().empty());
    EXPECT_EQ(log_.segments().size(), 0u);
    EXPECT_EQ(log_.room(false), 0u);
    EXPECT_EQ(log_.room(true), 0u);
    EXPECT_FALSE(log_.marker_fits());
}

TEST_F(FileLogTest, acquiring_a_segment_does_not_touch_the_log_before_it_is_adopted) {
    auto segment = log_.acquire();
    ASSERT_TRUE(segment);
    EXPECT_TRUE(log_.segments().empty());
    log_.adopt(segment.value(), {}, 1);
    EXPECT_FALSE(log_.segments().empty());
    EXPECT_EQ(log_.segments().newest(), segment.value());
    EXPECT_EQ(log_.segments().oldest(), segment.value());
}

TEST_F(FileLogTest, every_segment_begins_with_whose_it_is_and_the_last_commit) {
    adopt();
    Segment* const second = adopt({17, 0x5000, 1234});
    const auto found = records(*second);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].header.kind, RecordKind::kOpen);
    EXPECT_EQ(found[0].header.argument, 0x5000u);
    EXPECT_EQ(found[0].header.time_ns, 1234u);
    EXPECT_TRUE(found[0].header.payload_checked);
    const auto open = decode_open_payload(found[0].payload);
    ASSERT_TRUE(open);
    EXPECT_EQ(open.value().device, 0x21u);
    EXPECT_EQ(open.value().inode, 0x22u);
    EXPECT_EQ(open.value().commit_sequence, 17u);
    EXPECT_EQ(open.value().path, "/scratch/run.h5");
}

TEST_F(FileLogTest, segments_count_upwards_in_their_log_also_after_some_were_given_back) {
    for (std::uint64_t order = 0; order < 6; ++order) {
        const auto header = decode_segment_header(adopt()->bytes());
        ASSERT_TRUE(header);
        EXPECT_EQ(header.value().order, order);
        EXPECT_EQ(header.value().log, 5u);
        if (order % 2 == 1) log_.segments().release_oldest();
    }
    log_.segments().release_all();
    EXPECT_EQ(decode_segment_header(adopt()->bytes()).value().order, 6u);
}

TEST_F(FileLogTest, data_is_found_where_the_position_says) {
    adopt();
    const auto bytes = test::bytes_of(5000, 1);
    const auto position = log_.append_data(0x1234, bytes, DataClass::kMetadata, 9, 777);
    EXPECT_EQ(position.segment, log_.segments().newest());
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), position.segment->at(position.offset)));
    const auto found = records(*log_.segments().newest());
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found[1].header.kind, RecordKind::kData);
    EXPECT_EQ(found[1].header.data_class, DataClass::kMetadata);
    EXPECT_EQ(found[1].header.sequence, 9u);
    EXPECT_EQ(found[1].header.time_ns, 777u);
    EXPECT_TRUE(found[1].header.payload_checked);
    EXPECT_THAT(found[1].extents, testing::ElementsAre(ByteRange{0x1234, 0x1234 + 5000}));
    EXPECT_TRUE(std::equal(found[1].payload.begin(), found[1].payload.end(), bytes.begin(), bytes.end()));
}

TEST_F(FileLogTest, parts_share_one_record_and_lie_one_after_the_other) {
    adopt();
    const auto first = test::bytes_of(10, 1), second = test::bytes_of(300, 2), third = test::bytes_of(1, 3);
    const FileLog::Part parts[] = {{5000, first}, {100, second}, {5005, third}};
    const auto position = log_.append_data(parts, DataClass::kMetadata, 9, 777);
    const auto found = records(*log_.segments().newest());
    ASSERT_EQ(found.size(), 2u);
    EXPECT_THAT(found[1].extents,
                testing::ElementsAre(ByteRange{5000, 5010}, ByteRange{100, 400}, ByteRange{5005, 5006}));
    std::vector<std::byte> all(first);
    all.insert(all.end(), second.begin(), second.end());
    all.insert(all.end(), third.begin(), third.end());
    EXPECT_TRUE(std::equal(found[1].payload.begin(), found[1].payload.end(), all.begin(), all.end()));
    EXPECT_TRUE(std::equal(all.begin(), all.end(), position.segment->at(position.offset)));
    EXPECT_EQ(found[1].header.payload_checksum, checksum(all));
    log_.append_data(0, first, DataClass::kRaw, 10, 778);
    EXPECT_THAT(records(*log_.segments().newest()).back().extents, testing::ElementsAre(ByteRange{0, 10}))
        << "nothing is left of the parts before";
}

TEST_F(FileLogTest, parts_that_fill_the_room_to_the_last_byte_fit) {
    adopt();
    for (const std::size_t count : {1, 2, 7, 100}) {
        const std::uint64_t tail = log_.segments().newest()->tail;
        const std::uint64_t room = std::min<std::uint64_t>(log_.room(false), 8000);
        const std::uint64_t payload = room - (count - 1) * FileLog::kPartBytes;
        const auto bytes = test::bytes_of(payload, count);
        std::vector<FileLog::Part> parts;
        for (std::size_t i = 0; i < count; ++i) {
            const std::uint64_t begin = payload * i / count, end = payload * (i + 1) / count;
            parts.push_back({begin, io::Bytes(bytes).subspan(begin, end - begin)});
        }
        log_.append_data(parts, DataClass::kRaw, 1, 0);
        EXPECT_LE(log_.segments().newest()->tail - tail, payload_offset(1) + room + kRecordAlignment - 1);
        EXPECT_EQ(records(*log_.segments().newest()).back().extents.size(), count);
    }
    while (log_.room(true) > 0) {
        const std::uint64_t room = log_.room(true);
        const auto bytes = test::bytes_of(room, room);
        const std::uint64_t half = room > FileLog::kPartBytes + 1 ? (room - FileLog::kPartBytes) / 2 : 0;
        if (half == 0) break;
        const FileLog::Part parts[] = {{0, io::Bytes(bytes).first(half)},
                                       {100, io::Bytes(bytes).last(room - FileLog::kPartBytes - half)}};
        log_.append_data(parts, DataClass::kRaw, 1, 0);
        ASSERT_LE(log_.segments().newest()->tail, kSegment);
    }
}

TEST_F(FileLogTest, large_payloads_are_checked_only_if_asked_for) {
    SegmentPool pool(io::make_memory_file("/area/log"), PoolLimits{1 << 20, 256 << 10, 0}, {});
    for (const bool check : {false, true}) {
        FileLog log(pool, 1, {}, check);
        auto segment = log.acquire();
        ASSERT_TRUE(segment);
        log.adopt(segment.value(), {}, 1);
        log.append_data(0, test::bytes_of(kCheckedPayloadMax, 1), DataClass::kRaw, 2, 0);
        log.append_data(0, test::bytes_of(kCheckedPayloadMax + 1, 2), DataClass::kRaw, 3, 0);
        const auto found = records(*segment.value());
        ASSERT_EQ(found.size(), 3u);
        EXPECT_TRUE(found[1].header.payload_checked);
        EXPECT_EQ(found[2].header.payload_checked, check);
        EXPECT_EQ(found[2].header.payload_checksum == 0, !check);
    }
}

TEST_F(FileLogTest, markers_and_through_records_carry_no_payload) {
    adopt();
    log_.append_marker(RecordKind::kTruncate, 100, 2);
    log_.append_marker(RecordKind::kCommit, 200, 3);
    log_.append_through({10, 30}, 4);
    log_.append_marker(RecordKind::kClose, 200, 5);
    const auto found = records(*log_.segments().newest());
    ASSERT_EQ(found.size(), 5u);
    EXPECT_EQ(found[1].header.kind, RecordKind::kTruncate);
    EXPECT_EQ(found[1].header.argument, 100u);
    EXPECT_EQ(found[2].header.kind, RecordKind::kCommit);
    EXPECT_EQ(found[2].header.argument, 200u);
    EXPECT_EQ(found[3].header.kind, RecordKind::kBypass);
    EXPECT_THAT(found[3].extents, testing::ElementsAre(ByteRange{10, 30}));
    EXPECT_EQ(found[4].header.kind, RecordKind::kClose);
    for (const auto& record : found) EXPECT_EQ(record.payload.empty(), record.header.kind != RecordKind::kOpen);
}

TEST_F(FileLogTest, the_slack_is_kept_from_ordinary_data) {
    adopt();
    const std::uint64_t slack = log_.room(true) - log_.room(false);
    EXPECT_GE(slack, 4 * record_bytes(1, 0));   // enough for a few markers
    log_.append_data(0, test::bytes_of(log_.room(false), 1), DataClass::kRaw, next_++, 0);
    EXPECT_EQ(log_.room(false), 0u);
    EXPECT_GE(log_.room(true) + payload_offset(1) + kRecordAlignment, slack);
    EXPECT_TRUE(log_.marker_fits());
}

// Whatever room says can be taken, to the last byte, from every fill of a segment.
TEST_F(FileLogTest, what_room_says_fits_and_never_more_than_the_segment_holds) {
    for (const bool use_slack : {false, true}) {
        for (std::size_t first = 1; first < 200; first += 7) {
            Segment* const segment = adopt();
            log_.append_data(0, test::bytes_of(first, 1), DataClass::kRaw, next_++, 0);
            std::uint64_t room = log_.room(use_slack);
            ASSERT_GT(room, 0u);
            log_.append_data(0, test::bytes_of(room, 2), DataClass::kRaw, next_++, 0);
            ASSERT_LE(segment->tail, kSegment);
            ASSERT_EQ(records(*segment).size(), 3u);
            log_.segments().release_all();
        }
    }
}

TEST_F(FileLogTest, markers_fit_until_the_segment_is_full_and_not_beyond) {
    Segment* const segment = adopt();
    std::size_t markers = 0;
    while (log_.marker_fits()) {
        log_.append_through({0, 1}, next_++);   // the larger one of both
        ++markers;
        ASSERT_LE(segment->tail, kSegment);
    }
    EXPECT_EQ(records(*segment).size(), 1 + markers);
    EXPECT_LT(kSegment - segment->tail, record_bytes(1, 0));
    EXPECT_EQ(log_.room(true), 0u);
}

TEST_F(FileLogTest, segments_go_back_oldest_first) {
    Segment* const a = adopt();
    Segment* const b = adopt();
    Segment* const c = adopt();
    EXPECT_EQ(log_.segments().size(), 3u);
    EXPECT_EQ(log_.segments().oldest(), a);
    log_.segments().release_oldest();
    EXPECT_EQ(log_.segments().oldest(), b);
    EXPECT_EQ(log_.segments().newest(), c);
    EXPECT_EQ(decode_segment_header(a->bytes()).status().code(), Code::kNotFound);
    EXPECT_TRUE(decode_segment_header(b->bytes()));
    log_.segments().release_oldest();
    log_.segments().release_oldest();
    EXPECT_TRUE(log_.segments().empty());
    EXPECT_EQ(log_.room(true), 0u);
    EXPECT_EQ(pool_.free(), 3u);
}

TEST_F(FileLogTest, a_log_that_ends_gives_everything_back) {
    {
        FileLog other(pool_, 6, {}, false);
        for (std::uint64_t i = 0; i < 3; ++i) other.adopt(other.acquire().value(), {}, i);
        EXPECT_EQ(pool_.free(), 0u);
    }
    EXPECT_EQ(pool_.free(), 3u);
}

TEST_F(FileLogTest, a_full_pool_is_told_and_the_log_stays_as_it_is) {
    for (int i = 0; i < 8; ++i) adopt();
    const auto newest = log_.segments().newest();
    EXPECT_EQ(log_.acquire().status().code(), Code::kNoSpace);
    EXPECT_EQ(log_.segments().newest(), newest);
    log_.segments().release_oldest();
    EXPECT_EQ(decode_segment_header(adopt()->bytes()).value().order, 8u);
}

// A reader in another thread, as one in another process, sees whole records only.
TEST_F(FileLogTest, the_tail_is_published_after_the_record) {
    Segment* const segment = adopt();
    std::jthread reader([segment](const std::stop_token& stop) {
        const std::atomic_ref<std::uint64_t> published(*reinterpret_cast<std::uint64_t*>(segment->at(kTailOffset)));
        const std::span<const std::byte> bytes = segment->bytes();
        std::uint64_t at = kSegmentHeaderBytes;
        for (;;) {
            const bool last = stop.stop_requested();
            const std::uint64_t tail = little_endian(published.load(std::memory_order_acquire));
            while (at < tail) {
                const auto record = decode_record(bytes.first(tail).subspan(at), segment->use());
                ASSERT_TRUE(record) << record.status().message();
                at += record.value().bytes;
            }
            if (last) break;
        }
        EXPECT_EQ(at, segment->tail);
    });
    std::uint64_t sequence = 2;
    while (log_.room(false) >= 100) {
        log_.append_data(sequence, test::bytes_of(1 + sequence % 100, sequence), DataClass::kRaw, sequence, 0);
        ++sequence;
        if (sequence % 3 == 0) log_.append_marker(RecordKind::kCommit, sequence, sequence), ++sequence;
    }
    reader.request_stop();
    reader.join();
}

// ---- cold segments ---------------------------------------------------------------------------------

// Segments on a file that counts and fails its calls.
class ColdSegment : public ::testing::Test {
  protected:
    static constexpr std::uint64_t kLarge = 256 << 10, kPayload = kCheckedPayloadMax + 1;
    ColdSegment()
        : pool_(io::make_fault_file(io::make_memory_file("/area/log"), plan_), PoolLimits{4 * kLarge, kLarge, 0}, {}),
          log_(pool_, 7, {1, 2, "/scratch/run.h5"}, false) {
        newest_ = log_.acquire().value();
        EXPECT_TRUE(log_.adopt(newest_, {}, 1));
    }
    FileLog::Position append(std::size_t size, std::uint64_t seed) {
        return log_.append_data(1000 * seed, bytes_of(size, seed), DataClass::kRaw, ++sequence_, 0);
    }
    static bool holds(const FileLog::Position& position, std::size_t size, std::uint64_t seed) {
        const auto expected = bytes_of(size, seed);
        return position.segment != nullptr &&
               std::memcmp(position.segment->at(position.offset), expected.data(), size) == 0;
    }

    std::shared_ptr<io::FaultPlan> plan_ = std::make_shared<io::FaultPlan>();
    SegmentPool pool_;
    FileLog log_;
    Segment* newest_ = nullptr;
    std::uint64_t sequence_ = 1;
};

TEST_F(ColdSegment, takes_large_payloads_without_being_touched) {
    EXPECT_FALSE(newest_->warm());
    const auto first = append(kPayload, 1), second = append(kPayload, 2);
    EXPECT_TRUE(holds(first, kPayload, 1));
    EXPECT_TRUE(holds(second, kPayload, 2));
    EXPECT_FALSE(newest_->warm());
}

TEST_F(ColdSegment, is_touched_for_a_small_payload_and_keeps_what_it_holds) {
    const auto large = append(kPayload, 1);
    const auto small = append(100, 2);
    EXPECT_TRUE(newest_->warm());
    const auto later = append(kPayload, 3);
    EXPECT_TRUE(holds(large, kPayload, 1));
    EXPECT_TRUE(holds(small, 100, 2));
    EXPECT_TRUE(holds(later, kPayload, 3));
}

TEST_F(ColdSegment, has_the_parts_of_a_record_one_after_the_other) {
    const auto one = bytes_of(kPayload, 1), other = bytes_of(1000, 2);
    const FileLog::Part parts[] = {{0, one}, {1 << 20, other}};
    const auto position = log_.append_data(parts, DataClass::kRaw, 2, 0);
    EXPECT_FALSE(newest_->warm());
    EXPECT_TRUE(holds(position, one.size(), 1));
    EXPECT_TRUE(holds({position.segment, position.offset + one.size()}, other.size(), 2));
}

TEST_F(ColdSegment, that_cannot_be_written_has_got_nothing) {
    const std::uint64_t tail = newest_->tail;
    plan_->fail(io::Operation::kWrite, 1, 1, EIO);
    EXPECT_EQ(append(kPayload, 1).segment, nullptr);
    EXPECT_EQ(log_.fault().sys_errno(), EIO);
    EXPECT_THAT(log_.fault().message(), testing::HasSubstr("/area/log"));
    EXPECT_EQ(newest_->tail, tail);
    EXPECT_EQ(newest_->published_tail(), tail);
}

TEST_F(ColdSegment, is_cold_still_when_it_was_given_back_and_taken_again) {
    append(kPayload, 1);
    log_.segments().release_all();
    EXPECT_EQ(pool_.free(), 1u);
    Segment* const again = log_.acquire().value();
    EXPECT_EQ(again, newest_);
    EXPECT_FALSE(again->warm());
    ASSERT_TRUE(log_.adopt(again, {}, 9));
    EXPECT_TRUE(holds(append(kPayload, 4), kPayload, 4));
    EXPECT_TRUE(holds(append(50, 5), 50, 5));
    EXPECT_TRUE(again->warm());
}

// A cut stands for a page that the file system has lost.
TEST(FileLogFault, the_end_of_a_log_whose_page_is_lost_is_an_error) {
    FOREBAY_SKIP_WITHOUT_FAULTS();
    const std::string folder = test::make_scratch_folder();
    auto file = std::move(io::open_posix_directory(folder)).value()->open_file("log", io::OpenMode::kCreateNew);
    ASSERT_TRUE(file) << file.status().message();
    {
        SegmentPool pool(std::move(file).value(), PoolLimits{8 * kSegment, kSegment, 0}, {42, 4711, {}});
        FileLog log(pool, 5, LogTarget{0x21, 0x22, "/scratch/run.h5"}, false);
        EXPECT_EQ(log.segments().end_position().value(), 0u);
        auto segment = log.acquire();
        ASSERT_TRUE(segment) << segment.status().message();
        ASSERT_TRUE(log.adopt(segment.value(), {}, 1));
        EXPECT_EQ(log.segments().end_position().value(), log_position(0, segment.value()->tail, kSegment));
        std::filesystem::resize_file(folder + "/log", 0);
        const auto end = log.segments().end_position();
        EXPECT_EQ(end.status().sys_errno(), EIO) << end.status().message();
        EXPECT_NE(end.status().message().find(folder + "/log"), std::string::npos) << end.status().message();
        EXPECT_EQ(segment.value()->published_tail(), std::nullopt);
    }
    std::filesystem::remove_all(folder);
}

}   // namespace
}   // namespace forebay::log
