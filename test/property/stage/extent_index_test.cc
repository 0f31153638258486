// Records of several logs, found in any order, against an array with one entry per byte: the latest wins.
#include "stage/extent_index.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "io/memory_file.h"

namespace forebay::stage {
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
        records.push_back({{begin, begin + *rc::gen::inRange<std::uint64_t>(0, kSpace - begin + 1)}, sequence,
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
            [&](ByteRange piece, const StagedBytes& bytes) {
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

}   // namespace
}   // namespace forebay::stage
