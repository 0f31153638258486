// Golden bytes: these literals, not the encoder, are what docs/log-format.md promises. A change here is a
// change of the format and needs another version.
#include "log/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "base/checksum.h"

namespace forebay::log {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> from_hex(std::string_view hex) {
    std::vector<std::byte> bytes;
    unsigned value = 0, digits = 0;
    for (const char c : hex) {
        if (c == ' ') continue;
        value = value * 16 + static_cast<unsigned>(c >= 'a' ? c - 'a' + 10 : c - '0');
        if (++digits % 2 == 0) {
            bytes.push_back(static_cast<std::byte>(value));
            value = 0;
        }
    }
    return bytes;
}

std::vector<std::byte> text_bytes(std::string_view text) {
    std::vector<std::byte> bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
}

// ---- golden bytes ----------------------------------------------------------------------------------

constexpr std::string_view kGoldenSegmentHeader =
    "4642415953454731 05000000 11000000"   // FBAYSEG1, version, generation then
    "0000010000000000 3412000000000000"    // segment size, process id
    "9a78560000000000 a0a1a2a3a4a5a6a7"    // process start, boot id
    "a8a9aaabacadaeaf 0700000000000000"    //               log
    "0300000000000000 b56ff042a6e0ad8a"    // order, checksum
    "0000000000000000 0000000000000000"    // tail, generation
    "0000000000000000 0000000000000000"
    "0000000000000000 0000000000000000";

constexpr std::string_view kGoldenOpen =
    "46524543 01 00 0100 00000000 00000000"   // FREC, kind, class, flags, extents, zero
    "0807060504030201 4700000000000000"       // sequence, payload length
    "0010000000000000 1817161514131211"       // argument, time
    "1f05e59b560a8007 39d40cc4cb93cccc"       // payload checksum, header checksum
    "2100000000000000 2200000000000000"       // device, inode
    "2300000000000000 0100000000000000"       // last commit, sharing
    "2400000000000000"                        // group
    "2500000000000000 2600000000000000"       // birth, generation
    "2f736372617463682f72756e2e6835"          // /scratch/run.h5
    "00 0000000000000000 0000000000000000 0000000000000000 0000000000000000"
    "0000000000000000 0000000000000000 0000000000000000";

constexpr std::string_view kGoldenData = "46524543 02 01 0100 02000000 00000000"
                                         "0807060504030201 0800000000000000"
                                         "0000000000000000 1817161514131211"
                                         "cc7b721386f64e16 6edc3447d9a53dc6"
                                         "0001000000000000 0500000000000000"   // 5 bytes at 0x100
                                         "0020000000000000 0300000000000000"   // 3 bytes at 0x2000
                                         "666f726562617921"                    // forebay!
                                         "0000000000000000 0000000000000000 0000000000000000";

constexpr std::string_view kGoldenTruncate = "46524543 03 00 0000 00000000 00000000"
                                             "0807060504030201 0000000000000000"
                                             "0030000000000000 1817161514131211"
                                             "0000000000000000 bcb33b15093bed5b";

constexpr std::string_view kGoldenCommit = "46524543 04 00 0000 00000000 00000000"
                                           "0807060504030201 0000000000000000"
                                           "0030000000000000 1817161514131211"
                                           "0000000000000000 b1ff6594a25e23a4";

constexpr std::string_view kGoldenClose = "46524543 05 00 0000 00000000 00000000"
                                          "0807060504030201 0000000000000000"
                                          "0030000000000000 1817161514131211"
                                          "0000000000000000 e003f9a2bed5ae5e";

constexpr std::string_view kGoldenThrough =
    "46524543 06 00 0000 01000000 00000000"
    "0807060504030201 0000000000000000"
    "0000000000000000 1817161514131211"
    "0000000000000000 9ce4f402f63371f6"
    "0040000000000000 0010000000000000"   // 0x1000 bytes at 0x4000
    "0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000";

// The checksum of the header above: what the records below are sealed with.
constexpr std::uint64_t kGoldenUse = 0x8aade0a642f06fb5;

SegmentHeader golden_segment_header() {
    SegmentHeader header;
    header.segment_bytes = 0x10000;
    header.process = {0x1234, 0x56789a, {}};
    for (unsigned i = 0; i < 16; ++i) header.process.boot_id[i] = static_cast<std::byte>(0xa0 + i);
    header.log = 7;
    header.order = 3;
    header.taken = 0x11;
    return header;
}

struct Golden {
    const char* name;
    std::string_view hex;
    RecordKind kind;
    DataClass data_class;
    std::uint64_t argument;
    std::vector<ByteRange> extents;
    std::vector<std::byte> payload;
};
std::ostream& operator<<(std::ostream& out, const Golden& golden) { return out << golden.name; }

std::vector<Golden> golden_records() {
    return {{"open",
             kGoldenOpen,
             RecordKind::kOpen,
             DataClass::kRaw,
             0x1000,
             {},
             encode(OpenPayload{0x21, 0x22, 0x23, {Sharing::Kind::kOneNode, 0x24}, "/scratch/run.h5", {0x25, 0x26}})},
            {"data",
             kGoldenData,
             RecordKind::kData,
             DataClass::kMetadata,
             0,
             {{0x100, 0x105}, {0x2000, 0x2003}},
             text_bytes("forebay!")},
            {"truncate", kGoldenTruncate, RecordKind::kTruncate, DataClass::kRaw, 0x3000, {}, {}},
            {"commit", kGoldenCommit, RecordKind::kCommit, DataClass::kRaw, 0x3000, {}, {}},
            {"close", kGoldenClose, RecordKind::kClose, DataClass::kRaw, 0x3000, {}, {}},
            {"through", kGoldenThrough, RecordKind::kBypass, DataClass::kRaw, 0, {{0x4000, 0x5000}}, {}}};
}

std::vector<std::byte> encoded(const RecordHeader& header, std::span<const ByteRange> extents,
                               std::span<const std::byte> payload) {
    std::vector<std::byte> bytes(record_bytes(extents.size(), payload.size()));
    encode(header, extents, kGoldenUse, bytes);
    std::copy(payload.begin(), payload.end(),
              bytes.begin() + static_cast<std::ptrdiff_t>(payload_offset(extents.size())));
    return bytes;
}

TEST(Format, a_segment_header_has_the_bytes_that_the_format_says) {
    std::vector<std::byte> bytes(kSegmentHeaderBytes);
    encode(golden_segment_header(), bytes);
    std::vector<std::byte> golden = from_hex(kGoldenSegmentHeader);
    golden.resize(kSegmentHeaderBytes);   // room for two states of the target
    EXPECT_EQ(bytes, golden);
}

class GoldenRecord : public testing::TestWithParam<Golden> {};

TEST_P(GoldenRecord, has_the_bytes_that_the_format_says) {
    const Golden& golden = GetParam();
    const bool checked = !golden.payload.empty();
    const RecordHeader header{golden.kind,
                              golden.data_class,
                              checked,
                              0x0102030405060708,
                              golden.payload.size(),
                              golden.argument,
                              0x1112131415161718,
                              checked ? checksum(golden.payload) : 0};
    EXPECT_EQ(encoded(header, golden.extents, golden.payload), from_hex(golden.hex));
}

TEST_P(GoldenRecord, decodes_to_what_was_written) {
    const Golden& golden = GetParam();
    auto bytes = from_hex(golden.hex);
    const std::size_t record_end = bytes.size();
    bytes.resize(record_end + 100, std::byte{0xFF});   // what follows is of no concern
    const auto decoded = decode_record(bytes, kGoldenUse);
    ASSERT_TRUE(decoded) << decoded.status().message();
    const DecodedRecord& record = decoded.value();
    EXPECT_EQ(record.bytes, record_end);
    EXPECT_EQ(record.header.kind, golden.kind);
    EXPECT_EQ(record.header.data_class, golden.data_class);
    EXPECT_EQ(record.header.sequence, 0x0102030405060708u);
    EXPECT_EQ(record.header.argument, golden.argument);
    EXPECT_EQ(record.header.time_ns, 0x1112131415161718u);
    EXPECT_EQ(record.header.payload_checked, !golden.payload.empty());
    EXPECT_EQ(record.header.payload_bytes, golden.payload.size());
    EXPECT_EQ(record.extents, golden.extents);
    EXPECT_TRUE(std::equal(record.payload.begin(), record.payload.end(), golden.payload.begin(), golden.payload.end()));
}

TEST_P(GoldenRecord, in_another_use_of_its_segment_is_corrupt) {
    const auto bytes = from_hex(GetParam().hex);
    for (const std::uint64_t use : {std::uint64_t{0}, kGoldenUse + 1, ~kGoldenUse})
        EXPECT_EQ(decode_record(bytes, use).status().code(), Code::kCorrupt) << use;
}

// Every prefix lies in memory of its own, so that the address sanitizer sees a read beyond it.
TEST_P(GoldenRecord, is_corrupt_at_every_length_that_cuts_it_off) {
    const auto bytes = from_hex(GetParam().hex);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        const std::vector<std::byte> front(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
        EXPECT_EQ(decode_record(front, kGoldenUse).status().code(), Code::kCorrupt) << "at length " << length;
    }
}

TEST_P(GoldenRecord, with_a_flipped_bit_anywhere_but_in_the_padding_is_corrupt) {
    const Golden& golden = GetParam();
    const auto bytes = from_hex(golden.hex);
    const std::size_t padding = payload_offset(golden.extents.size()) + golden.payload.size();
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        auto flipped = bytes;
        flipped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        const auto decoded = decode_record(flipped, kGoldenUse);
        if (bit / 8 < padding) EXPECT_EQ(decoded.status().code(), Code::kCorrupt) << "bit " << bit;
        else EXPECT_TRUE(decoded) << "bit " << bit;
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, GoldenRecord, testing::ValuesIn(golden_records()),
                         [](const auto& golden) { return std::string(golden.param.name); });

// ---- segment headers -------------------------------------------------------------------------------

class SegmentHeaderTest : public testing::Test {
  protected:
    SegmentHeaderTest() : segment_(0x10000) {
        encode(golden_segment_header(), segment_);
        set_tail(kSegmentHeaderBytes);
    }
    void set_tail(std::uint64_t tail) { store_le(segment_.data() + kTailOffset, tail); }
    // Changes the header at `offset` and makes its checksum fit again.
    template <class T>
    void forge(std::size_t offset, T value) {
        store_le(segment_.data() + offset, value);
        store_le(segment_.data() + 72, checksum(std::span(segment_).first(72)));
    }
    Code code() const { return decode_segment_header(segment_).status().code(); }

    std::vector<std::byte> segment_;
};

TEST_F(SegmentHeaderTest, decodes_to_what_was_written) {
    set_tail(4096);
    const auto decoded = decode_segment_header(segment_);
    ASSERT_TRUE(decoded) << decoded.status().message();
    EXPECT_EQ(decoded.value().segment_bytes, 0x10000u);
    EXPECT_EQ(decoded.value().process, golden_segment_header().process);
    EXPECT_EQ(decoded.value().log, 7u);
    EXPECT_EQ(decoded.value().order, 3u);
    EXPECT_EQ(decoded.value().taken, 0x11u);
    EXPECT_EQ(decoded.value().use, kGoldenUse);
    EXPECT_EQ(decoded.value().tail, 4096u);
}

TEST_F(SegmentHeaderTest, encoding_leaves_tail_and_generation_alone) {
    set_tail(777);
    store_le(segment_.data() + kGenerationOffset, std::uint64_t{9});
    encode(golden_segment_header(), segment_);
    EXPECT_EQ(load_le<std::uint64_t>(segment_.data() + kTailOffset), 777u);
    EXPECT_EQ(load_le<std::uint64_t>(segment_.data() + kGenerationOffset), 9u);
}

TEST_F(SegmentHeaderTest, a_cleared_magic_means_free) {
    store_le(segment_.data(), std::uint64_t{0});
    EXPECT_EQ(code(), Code::kNotFound);
    EXPECT_EQ(decode_segment_header(std::vector<std::byte>(0x10000)).status().code(), Code::kNotFound);
}

TEST_F(SegmentHeaderTest, a_flipped_bit_under_the_checksum_is_corrupt) {
    for (std::size_t bit = 0; bit < 8 * 80; ++bit) {
        segment_[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        EXPECT_EQ(code(), Code::kCorrupt) << "bit " << bit;
        segment_[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    }
    EXPECT_EQ(code(), Code::kOk);
}

TEST_F(SegmentHeaderTest, a_segment_shorter_than_a_header_is_corrupt_at_every_length) {
    for (std::size_t length = 0; length < kSegmentHeaderBytes; ++length) {
        const std::vector<std::byte> front(segment_.begin(), segment_.begin() + static_cast<std::ptrdiff_t>(length));
        EXPECT_EQ(decode_segment_header(front).status().code(), Code::kCorrupt);
        EXPECT_EQ(decode_segment_bytes(front).status().code(), Code::kCorrupt);
    }
}

TEST_F(SegmentHeaderTest, a_tail_outside_the_segment_is_corrupt) {
    for (const std::uint64_t tail : {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{0x10001}, ~std::uint64_t{0}}) {
        set_tail(tail);
        EXPECT_EQ(code(), Code::kCorrupt) << tail;
    }
    set_tail(0x10000);
    EXPECT_EQ(code(), Code::kOk);
}

TEST_F(SegmentHeaderTest, an_unknown_version_is_refused_and_named) {
    forge(8, std::uint32_t{1});
    EXPECT_EQ(code(), Code::kUnsupported);
    EXPECT_THAT(decode_segment_header(segment_).status().message(), HasSubstr("version 1"));
    EXPECT_EQ(decode_segment_bytes(segment_).status().code(), Code::kUnsupported);
}

TEST_F(SegmentHeaderTest, a_size_that_is_not_the_segments_is_corrupt) {
    for (const std::uint64_t size :
         {std::uint64_t{0}, std::uint64_t{0xFFFF}, std::uint64_t{0x20000}, ~std::uint64_t{0}}) {
        forge(16, size);
        EXPECT_EQ(code(), Code::kCorrupt) << size;
    }
}

TEST_F(SegmentHeaderTest, the_segment_size_is_known_in_use_and_given_back_but_not_of_other_bytes) {
    EXPECT_EQ(decode_segment_bytes(segment_).value(), 0x10000u);
    store_le(segment_.data(), std::uint64_t{0});
    EXPECT_EQ(decode_segment_bytes(segment_).value(), 0x10000u);
    store_le(segment_.data(), std::uint64_t{1});
    EXPECT_EQ(decode_segment_bytes(segment_).status().code(), Code::kNotFound);
    EXPECT_EQ(decode_segment_bytes(std::vector<std::byte>(kSegmentHeaderBytes)).status().code(), Code::kNotFound);
}

// ---- hostile records -------------------------------------------------------------------------------

class HostileRecord : public testing::Test {
  protected:
    HostileRecord() : bytes_(from_hex(kGoldenData)) {}
    // Changes the record at `offset` and makes its header checksum fit again, as far as `extents` reach.
    template <class T>
    void forge(std::size_t offset, T value, std::size_t extents = 2) {
        store_le(bytes_.data() + offset, value);
        store_le(bytes_.data() + 56, XXH3_64bits_withSeed(bytes_.data() + 64, 16 * extents,
                                                          XXH3_64bits_withSeed(bytes_.data(), 56, kGoldenUse)));
    }
    std::string wrong() const {
        const auto decoded = decode_record(bytes_, kGoldenUse);
        EXPECT_EQ(decoded.status().code(), Code::kCorrupt);
        return decoded.status().message();
    }
    std::vector<std::byte> bytes_;
};

TEST_F(HostileRecord, more_extents_than_fit_are_not_read) {
    for (const std::uint32_t extents : {0xFFFFFFFFu, 0x10000000u, 5u, 4u + 1u}) {
        store_le(bytes_.data() + 8, extents);
        EXPECT_EQ(wrong(), "extent table is cut off");
    }
    forge(8, std::uint32_t{4}, 4);   // exactly to the end: no room for the payload
    EXPECT_EQ(wrong(), "payload is cut off");
}

TEST_F(HostileRecord, a_payload_length_beyond_the_tail_is_not_believed) {
    for (const std::uint64_t length :
         {~std::uint64_t{0}, ~std::uint64_t{0} - 95, std::uint64_t{1} << 63, std::uint64_t{33}}) {
        forge(24, length);
        EXPECT_EQ(wrong(), "payload is cut off");
    }
}

TEST_F(HostileRecord, extents_that_overflow_are_not_believed) {
    forge(64, ~std::uint64_t{0} - 3);   // 5 bytes from there wrap around
    EXPECT_EQ(wrong(), "extent overflows");
}

TEST_F(HostileRecord, extents_whose_sum_overflows_are_not_believed) {
    forge(64, std::uint64_t{0});
    forge(72, ~std::uint64_t{0});
    forge(80, std::uint64_t{0});
    forge(88, std::uint64_t{9});
    EXPECT_EQ(wrong(), "extent overflows");   // modulo 2^64 they would be the 8 bytes of the payload
}

TEST_F(HostileRecord, data_whose_extents_are_not_its_payload_are_not_believed) {
    forge(88, std::uint64_t{4});
    EXPECT_EQ(wrong(), "extents and payload differ in length");
}

TEST_F(HostileRecord, unknown_kinds_and_classes_are_not_believed) {
    for (const unsigned kind : {0u, 7u, 255u}) {
        forge(4, static_cast<std::uint8_t>(kind));
        EXPECT_EQ(wrong(), "record kind is unknown");
    }
    forge(4, std::uint8_t{2});
    forge(5, std::uint8_t{2});
    EXPECT_EQ(wrong(), "record class is unknown");
}

TEST_F(HostileRecord, a_payload_without_checksum_is_what_the_segment_holds) {
    forge(6, std::uint16_t{0});
    bytes_[96] = std::byte{'F'};
    const auto decoded = decode_record(bytes_, kGoldenUse);
    ASSERT_TRUE(decoded);
    EXPECT_FALSE(decoded.value().header.payload_checked);
    EXPECT_EQ(decoded.value().payload[0], std::byte{'F'});
}

TEST_F(HostileRecord, zeros_are_no_record) {
    EXPECT_EQ(decode_record(std::vector<std::byte>(4096), kGoldenUse).status().code(), Code::kCorrupt);
    EXPECT_EQ(decode_record({}, kGoldenUse).status().code(), Code::kCorrupt);
}

TEST(OpenPayload, survives_any_path_and_refuses_to_be_short) {
    for (const std::string path : {"", "/", "/a b/\xff\n.h5"}) {
        const auto decoded = decode_open_payload(encode(OpenPayload{
            1, 2, 3, {Sharing::Kind::kSeveralNodes, 4}, path, {5, 6}}));
        ASSERT_TRUE(decoded);
        EXPECT_EQ(decoded.value().path, path);
        EXPECT_EQ(decoded.value().device, 1u);
        EXPECT_EQ(decoded.value().inode, 2u);
        EXPECT_EQ(decoded.value().commit_sequence, 3u);
        EXPECT_EQ(decoded.value().sharing, (Sharing{Sharing::Kind::kSeveralNodes, 4}));
        EXPECT_EQ(decoded.value().born, (Birth{5, 6}));
    }
    for (std::size_t length = 0; length < 56; ++length)
        EXPECT_EQ(decode_open_payload(std::vector<std::byte>(length)).status().code(), Code::kCorrupt);
}

TEST(OpenPayload, of_an_unknown_kind_of_sharing_is_corrupt) {
    auto payload = encode(OpenPayload{1, 2, 3, {}, "/a"});
    ASSERT_TRUE(decode_open_payload(payload));
    payload[24] = std::byte{4};
    EXPECT_EQ(decode_open_payload(payload).status().code(), Code::kCorrupt);
}

TEST(RecordBytes, are_padded_to_whole_lines) {
    EXPECT_EQ(record_bytes(0, 0), 64u);
    EXPECT_EQ(record_bytes(1, 0), 128u);
    EXPECT_EQ(record_bytes(1, 48), 128u);
    EXPECT_EQ(record_bytes(1, 49), 192u);
    EXPECT_EQ(record_bytes(4, 0), 128u);
    EXPECT_EQ(payload_offset(3), 112u);
}

// Killed at any instant while segments are begun and given back, over and over: each is in use and whole, or free.
TEST(SegmentHeaders, whoever_dies_while_beginning_a_segment_leaves_it_free) {
    constexpr int kDeaths = 200;
    void* const shared = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    const std::span<std::byte> segment(static_cast<std::byte*>(shared), 4096);
    store_le(segment.data() + kTailOffset, std::uint64_t{kSegmentHeaderBytes});
    int in_use = 0;
    for (int death = 0; death < kDeaths; ++death) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            for (std::uint64_t order = 0;; ++order) {
                encode(SegmentHeader{segment.size(), {}, 1, order}, segment);
                std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t*>(segment.data()))
                    .store(0, std::memory_order_relaxed);
            }
        }
        ::usleep(200 + static_cast<useconds_t>(death) * 7 % 300);
        ::kill(child, SIGKILL);
        ASSERT_EQ(::waitpid(child, nullptr, 0), child);
        const auto header = decode_segment_header(segment);
        in_use += header.is_ok();
        ASSERT_TRUE(header || header.status().code() == Code::kNotFound)
            << "death " << death << ": " << header.status().message();
    }
    EXPECT_LT(in_use, kDeaths);
    ::munmap(shared, 4096);
}

}   // namespace
}   // namespace forebay::log
