// Records of several logs, found in any order, against an array with one entry per byte: the latest wins.
#include "index/extent_index.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "io/memory_file.h"

namespace forebay::index {
namespace {

constexpr std::uint64_t kSpace = 256;

struct Record {
    ByteRange range;
    std::uint64_t sequence = 0;
    bool held = false;
};

RC_GTEST_PROP(ExtentIndexProperty, the_latest_record_wins_in_whatever_order_they_are_found, ()) {
    const auto file = io::make_memory_file("log");
    std::deque<log::Segment> segments;
    for (std::uint64_t i = 0; i < 3; ++i) segments.emplace_back(i, std::move(file->map(i * kSpace, kSpace)).value());
    std::vector<Record> records;
    const auto count = *rc::gen::inRange<std::uint64_t>(1, 40);
    for (std::uint64_t sequence = 1; sequence <= count; ++sequence) {
        const auto begin = *rc::gen::inRange<std::uint64_t>(0, kSpace);
        records.push_back({{begin, begin + *rc::gen::inRange<std::uint64_t>(0, kSpace - begin + 1)},
                           sequence,
                           *rc::gen::arbitrary<bool>()});
    }
    // Each record is found at some time; of every byte only what has been found counts.
    for (std::size_t i = records.size(); i > 1; --i)
        std::swap(records[i - 1], records[*rc::gen::inRange<std::size_t>(0, i)]);

    ExtentIndex index;
    std::vector<std::uint64_t> expected(kSpace, 0);
    std::uint64_t found = 0;
    for (const Record& record : records) {
        log::Segment& segment = segments[record.sequence % segments.size()];
        index.insert_unless_newer(record.range, {&segment, record.range.begin, record.sequence, 0},
                                  record.held ? kOffsetMax : 0, 0);
        found += record.range.size();
        for (std::uint64_t at = record.range.begin; at < record.range.end; ++at)
            expected[at] = std::max(expected[at], record.sequence);

        std::vector<std::uint64_t> got(kSpace, 0);
        index.for_each_newest(
            {0, kSpace},
            [&](ByteRange piece, const StagedPlace& bytes) {
                RC_ASSERT(bytes.offset == piece.begin);   // each byte where its record has it
                std::fill(got.begin() + static_cast<std::ptrdiff_t>(piece.begin),
                          got.begin() + static_cast<std::ptrdiff_t>(piece.end), bytes.sequence);
            },
            [](ByteRange) {});
        RC_ASSERT(got == expected);
        std::uint64_t live = 0;
        for (const log::Segment& each : segments) live += each.live_bytes;
        RC_ASSERT(live == index.pending_bytes());
        RC_ASSERT(found == index.pending_bytes() + index.superseded_bytes());
    }
}

// Bytes of all kinds of records, some of them gathered: which byte is staged, and its value, against an array.
RC_GTEST_PROP(ExtentIndexProperty, what_was_gathered_is_replaced_forgotten_and_drained_byte_by_byte, ()) {
    constexpr std::uint64_t kPlace = 2048;
    const auto file = io::make_memory_file("log");
    std::deque<log::Segment> segments;
    for (std::uint64_t i = 0; i < 3; ++i) {
        segments.emplace_back(i, std::move(file->map(i * kPlace, kPlace)).value());
        for (std::uint64_t at = 0; at < kPlace; ++at)
            *segments.back().at(at) = static_cast<std::byte>((i + 1) * 53 + at * 11);
    }
    struct Byte {
        std::uint64_t sequence = 0;   // 0: not staged
        std::byte value{};
    };
    std::vector<Byte> expected(kPlace);
    ExtentIndex index;
    Gatherer gatherer;
    std::uint64_t next = 100;
    const auto any = [](std::uint64_t limit) { return *rc::gen::inRange<std::uint64_t>(0, limit); };
    const auto any_range = [&] {
        const std::uint64_t begin = any(kPlace);
        return ByteRange{begin, begin + 1 + any(kPlace - begin)};
    };
    const auto each = [&](ByteRange range, const auto& visit) {
        for (std::uint64_t at = range.begin; at < range.end; ++at) visit(expected[at], at);
    };
    bool gathered_once = false;
    for (std::uint64_t left = 1 + any(30); left > 0; --left) {
        switch (any(7)) {
            case 0:
            case 1: {   // writers take turns, with numbers in no order among those of other records
                const std::uint64_t writers = 1 + any(3), size = 1 + any(9), count = 3 + any(20),
                                    begin = any(kPlace / 2);
                std::vector<std::vector<ByteRange>> extents(writers);
                std::vector<Gatherer::Record> records;
                for (std::uint64_t i = 0; i < count * writers; ++i)
                    extents[i % writers].push_back({begin + i * size, begin + (i + 1) * size});
                for (std::uint64_t i = 0; i < writers; ++i)
                    records.push_back({extents[i], &segments[i], any(kPlace / 4), next += 1 + any(5)});
                auto runs = gatherer.gather(records, 64 + any(kPlace));
                RC_ASSERT(runs.has_value());
                const bool nothing = index.nothing_in({begin, begin + count * writers * size});
                if (!nothing) break;
                gathered_once = true;
                for (auto& run : runs->gathered) index.insert(std::move(run));
                for (const auto& [range, record, payload] : runs->loose)
                    index.insert_unless_newer(range, {records[record].segment, payload, records[record].sequence}, 0,
                                              0);
                for (const auto& record : records) {
                    std::uint64_t from = record.payload;
                    for (const ByteRange& extent : record.extents)
                        each(extent,
                             [&](Byte& byte, std::uint64_t) { byte = {record.sequence, *record.segment->at(from++)}; });
                }
                break;
            }
            case 2:
            case 3: {
                const ByteRange range = any_range();
                log::Segment& segment = segments[any(3)];
                const std::uint64_t sequence = any(2) == 0 ? ++next : next - any(20);
                // A number is one record's.
                if (std::any_of(expected.begin(), expected.end(),
                                [&](const Byte& byte) { return byte.sequence == sequence; }))
                    break;
                next = std::max(next, sequence);
                index.insert_unless_newer(range, {&segment, range.begin, sequence}, any(2) == 0 ? 0 : kOffsetMax, 0);
                each(range, [&](Byte& byte, std::uint64_t at) {
                    if (byte.sequence < sequence) byte = {sequence, *segment.at(at)};
                });
                break;
            }
            case 4: {
                const ByteRange range = any_range();
                const std::uint64_t sequence = next - any(20);
                index.drop_older(range, sequence);
                // What is held hides what is ready: the older of two may go, and the newer one stays.
                each(range, [&](Byte& byte, std::uint64_t) {
                    if (byte.sequence < sequence) byte = {};
                });
                break;
            }
            case 5: {
                const ByteRange range = any_range();
                index.drop(range);
                each(range, [](Byte& byte, std::uint64_t) { byte = {}; });
                break;
            }
            default: index.make_held_ready(); break;
        }
        std::vector<int> got(kPlace, -1), wanted(kPlace, -1);
        index.for_each_newest(
            {0, kPlace},
            [&](ByteRange piece, const StagedPlace& bytes) {
                for (std::uint64_t i = 0; i < piece.size(); ++i)
                    got[piece.begin + i] = static_cast<int>(bytes.data()[i]);
            },
            [](ByteRange) {});
        for (std::uint64_t at = 0; at < kPlace; ++at)
            if (expected[at].sequence != 0) wanted[at] = static_cast<int>(expected[at].value);
        RC_ASSERT(got == wanted);
        std::uint64_t live = 0;
        for (const log::Segment& segment : segments) live += segment.live_bytes;
        RC_ASSERT(live == index.pending_bytes());
    }
    RC_CLASSIFY(gathered_once, "gathered");
    index.drop({0, kOffsetMax});
    for (const log::Segment& segment : segments) RC_ASSERT(segment.live_bytes == 0u);
}

}   // namespace
}   // namespace forebay::index
