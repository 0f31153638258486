// Random records and segments: what was encoded comes back, and no damage is taken for something else.
#include "log/format.h"

#include <gtest/gtest.h>

#include <rapidcheck/gtest.h>

#include "base/bytes.h"
#include "base/checksum.h"

namespace forebay::log {
namespace {

struct Record {
    RecordHeader header;
    std::vector<ByteRange> extents;
    std::vector<std::byte> payload;
    std::uint64_t use = 0;   // of the segment that it is in
    std::vector<std::byte> encoded;
};

Record arbitrary_record() {
    Record record;
    std::uint64_t total = 0;
    const auto extents = *rc::gen::inRange(0, 12);
    for (int i = 0; i < extents; ++i) {
        const auto size = *rc::gen::inRange<std::uint64_t>(0, 50);
        const auto begin = *rc::gen::arbitrary<std::uint64_t>() % (kOffsetMax - size);
        record.extents.push_back({begin, begin + size});
        total += size;
    }
    RecordHeader& header = record.header;
    header.kind = static_cast<RecordKind>(*rc::gen::inRange(1, 7));
    header.data_class = *rc::gen::element(DataClass::kRaw, DataClass::kMetadata);
    header.sequence = *rc::gen::arbitrary<std::uint64_t>();
    header.argument = *rc::gen::arbitrary<std::uint64_t>();
    header.time_ns = *rc::gen::arbitrary<std::uint64_t>();
    if (header.kind != RecordKind::kBypass) {
        record.payload.resize(total);
        for (auto& byte : record.payload) byte = static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
    }
    header.payload_bytes = record.payload.size();
    header.payload_checked = *rc::gen::arbitrary<bool>();
    if (header.payload_checked) header.payload_checksum = checksum(record.payload);
    record.encoded.resize(record_bytes(record.extents.size(), record.payload.size()));
    record.use = *rc::gen::arbitrary<std::uint64_t>();
    encode(header, record.extents, record.use, record.encoded);
    std::copy(record.payload.begin(), record.payload.end(),
              record.encoded.begin() + static_cast<std::ptrdiff_t>(payload_offset(record.extents.size())));
    return record;
}

bool same(const DecodedRecord& decoded, const Record& record) {
    const RecordHeader &got = decoded.header, &want = record.header;
    return got.kind == want.kind && got.data_class == want.data_class && got.payload_checked == want.payload_checked &&
           got.sequence == want.sequence && got.payload_bytes == want.payload_bytes && got.argument == want.argument &&
           got.time_ns == want.time_ns && got.payload_checksum == want.payload_checksum &&
           decoded.extents == record.extents &&
           std::equal(decoded.payload.begin(), decoded.payload.end(), record.payload.begin(), record.payload.end()) &&
           decoded.bytes == record.encoded.size();
}

RC_GTEST_PROP(RecordProperty, what_was_encoded_comes_back, ()) {
    const Record record = arbitrary_record();
    const auto decoded = decode_record(record.encoded, record.use);
    RC_ASSERT(bool(decoded));
    RC_ASSERT(same(decoded.value(), record));
}

RC_GTEST_PROP(RecordProperty, cut_off_at_any_length_it_is_corrupt, ()) {
    const Record record = arbitrary_record();
    for (std::size_t length = 0; length < record.encoded.size(); ++length) {
        const std::vector<std::byte> front(record.encoded.begin(),
                                           record.encoded.begin() + static_cast<std::ptrdiff_t>(length));
        RC_ASSERT(decode_record(front, record.use).status().code() == Code::kCorrupt);
    }
}

RC_GTEST_PROP(RecordProperty, in_another_use_of_its_segment_it_is_corrupt, (std::uint64_t use)) {
    const Record record = arbitrary_record();
    RC_PRE(use != record.use);
    RC_ASSERT(decode_record(record.encoded, use).status().code() == Code::kCorrupt);
}

RC_GTEST_PROP(RecordProperty, a_flipped_bit_is_found_unless_nothing_covers_it, ()) {
    Record record = arbitrary_record();
    const auto bit = *rc::gen::inRange<std::size_t>(0, 8 * record.encoded.size());
    record.encoded[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    const std::size_t payload = payload_offset(record.extents.size()), padding = payload + record.payload.size();
    const bool covered = bit / 8 < payload || (bit / 8 < padding && record.header.payload_checked);
    const auto decoded = decode_record(record.encoded, record.use);
    RC_ASSERT(bool(decoded) == !covered);
    if (covered) RC_ASSERT(decoded.status().code() == Code::kCorrupt);
    else if (bit / 8 >= padding) RC_ASSERT(same(decoded.value(), record));
}

// Whatever the header and the table say, as long as their checksum fits: nothing outside is looked at.
RC_GTEST_PROP(RecordProperty, hostile_counts_and_lengths_are_bounded, ()) {
    Record record = arbitrary_record();
    auto& bytes = record.encoded;
    const auto number = [] {
        return *rc::gen::oneOf(rc::gen::arbitrary<std::uint64_t>(), rc::gen::inRange<std::uint64_t>(0, 300),
                               rc::gen::map(rc::gen::inRange<std::uint64_t>(0, 300),
                                            [](std::uint64_t n) { return ~n; }));
    };
    store_le(bytes.data() + 8, static_cast<std::uint32_t>(number()));
    store_le(bytes.data() + 24, number());
    const std::uint64_t extents = load_le<std::uint32_t>(bytes.data() + 8);
    if (64 + 16 * extents <= bytes.size()) {
        for (std::uint64_t i = 0; i < extents; ++i) {
            store_le(bytes.data() + 64 + 16 * i, number());
            store_le(bytes.data() + 72 + 16 * i, number());
        }
        store_le(bytes.data() + 56, XXH3_64bits_withSeed(bytes.data() + 64, 16 * extents,
                                                         XXH3_64bits_withSeed(bytes.data(), 56, record.use)));
    }
    const auto decoded = decode_record(bytes, record.use);
    if (!decoded) {
        RC_ASSERT(decoded.status().code() == Code::kCorrupt);
        return;
    }
    RC_ASSERT(decoded.value().bytes <= bytes.size());
    RC_ASSERT(decoded.value().extents.size() == extents);
    RC_ASSERT(decoded.value().payload.data() + decoded.value().payload.size() <= bytes.data() + bytes.size());
    for (const ByteRange& extent : decoded.value().extents) RC_ASSERT(extent.begin <= extent.end);
}

RC_GTEST_PROP(RecordProperty, random_bytes_are_no_record, (const std::vector<std::uint8_t>& bytes, std::uint64_t use)) {
    RC_ASSERT(decode_record(std::as_bytes(std::span(bytes)), use).status().code() == Code::kCorrupt);
}

RC_GTEST_PROP(SegmentProperty, a_header_comes_back_and_a_flipped_bit_is_found, ()) {
    SegmentHeader header;
    header.segment_bytes = *rc::gen::inRange<std::uint64_t>(kSegmentHeaderBytes, 100000);
    header.process.pid = *rc::gen::arbitrary<std::uint64_t>();
    header.process.start_ticks = *rc::gen::arbitrary<std::uint64_t>();
    for (auto& byte : header.process.boot_id) byte = static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
    header.log = *rc::gen::arbitrary<std::uint64_t>();
    header.order = *rc::gen::arbitrary<std::uint64_t>();
    header.tail = *rc::gen::inRange<std::uint64_t>(kSegmentHeaderBytes, header.segment_bytes + 1);
    std::vector<std::byte> segment(header.segment_bytes);
    encode(header, segment);
    store_le(segment.data() + kTailOffset, header.tail);
    const auto decoded = decode_segment_header(segment);
    RC_ASSERT(bool(decoded));
    RC_ASSERT(decoded.value().process == header.process);
    RC_ASSERT(decoded.value().log == header.log);
    RC_ASSERT(decoded.value().order == header.order);
    RC_ASSERT(decoded.value().tail == header.tail);
    RC_ASSERT(decode_segment_bytes(segment).value() == header.segment_bytes);
    const auto bit = *rc::gen::inRange<std::size_t>(0, 8 * kTailOffset);
    segment[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    RC_ASSERT(decode_segment_header(segment).status().code() == Code::kCorrupt);
}

}   // namespace
}   // namespace forebay::log
