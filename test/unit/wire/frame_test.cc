// Frames: golden bytes, round trips, and bytes that nobody can trust.
#include "wire/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/checksum.h"
#include "support/seeds.h"

namespace forebay::wire {
namespace {

std::string hex(io::Bytes bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const std::byte byte : bytes) {
        text += kDigits[std::to_integer<unsigned>(byte) >> 4];
        text += kDigits[std::to_integer<unsigned>(byte) & 15];
    }
    return text;
}

Payload write_payload(std::span<const Part> parts) {
    Payload payload = encode(parts);
    std::size_t bytes = 0;
    for (const Part& part : parts) bytes += part.bytes;
    payload.insert(payload.end(), bytes, std::byte{7});
    return payload;
}

const std::array<Part, 2> kParts{{{4096, 3, Class::kRaw}, {0, 5, Class::kMetadata}}};

// docs/protocol.md has the same.
TEST(Frame, hello_has_its_golden_bytes) {
    const Payload payload = encode(Hello{3, 3, 7});
    EXPECT_EQ(hex(encode(Header{Type::kHello, 8, 1})) + hex(payload), "46425750030001000800000000000000"
                                                                      "010000000000000091fa1f48aa00cef2"
                                                                      "0300030007000000");
}

TEST(Frame, payloads_have_their_golden_bytes) {
    EXPECT_EQ(hex(encode(Open{true, false, {2, 3}, "/a", Purpose::kWrite, {4, 5, 6, 7}, {8, 9, false}})),
              "01000000020000000200000000000000"
              "03000000000000000400000000000000"
              "05000000000000000600000000000000"
              "07000000000000000800000000000000"
              "0900000000000000"
              "00000000000000002f61");
    EXPECT_EQ(hex(encode(Open{false, true, {2, 3}, "/a", Purpose::kWrite, {4, 5, 6, 7}, {}, 10, true})),
              "12000000020000000200000000000000"
              "03000000000000000400000000000000"
              "05000000000000000600000000000000"
              "07000000000000000000000000000000"
              "00000000000000000a000000000000002f61");
    EXPECT_EQ(hex(encode(Open{false, false, {2, 3}, "/a", Purpose::kReadCached, {4, 5, 6, 7}, {}})),
              "20000000020000000200000000000000"
              "03000000000000000400000000000000"
              "05000000000000000600000000000000"
              "07000000000000000000000000000000"
              "000000000000000000000000000000002f61");
    EXPECT_EQ(hex(write_payload(kParts)), "0200000000000000"
                                          "00100000000000000300000000000000"
                                          "00000000000000000500000001000000"
                                          "0707070707070707");
    EXPECT_EQ(hex(encode_exposed(1 << 20, kParts)), "0000100000000000"
                                                    "0200000000000000"
                                                    "00100000000000000300000000000000"
                                                    "00000000000000000500000001000000");
    EXPECT_EQ(hex(encode(ReadExposed{{5, 6}, 7})), "05000000000000000600000000000000"
                                                   "0700000000000000");
    EXPECT_EQ(hex(encode(Status(Code::kNoSpace, "full", 28))), "050000001c00000066756c6c");
    EXPECT_EQ(hex(encode(Welcome{3, 64, 8 << 20, 0x0102030405060708})), "03000000400000000000800000000000"
                                                                        "0807060504030201");
}

TEST(Frame, what_is_encoded_is_parsed_back) {
    const auto header = parse_header(encode(Header{Type::kWrite, 77, 1234567890123}));
    ASSERT_TRUE(header);
    EXPECT_EQ(header.value().type, Type::kWrite);
    EXPECT_EQ(header.value().payload_bytes, 77u);
    EXPECT_EQ(header.value().request, 1234567890123u);
    const auto open = parse_open(encode(Open{
        false, true, {5, 6}, "/scratch/run.h5", Purpose::kWrite, {1, 2, 3, 4}, {7, 16, true}}));
    ASSERT_TRUE(open) << open.status().message();
    EXPECT_TRUE(open.value().locked && !open.value().empty);
    EXPECT_EQ(open.value().identity, (io::Identity{5, 6}));
    EXPECT_EQ(open.value().path, "/scratch/run.h5");
    EXPECT_EQ(open.value().seen, (Open::Seen{1, 2, 3, 4}));
    EXPECT_EQ(open.value().team, (Open::Team{7, 16, true}));
    for (const Purpose purpose : {Purpose::kRead, Purpose::kFollow, Purpose::kReadCached}) {
        const auto other = parse_open(encode(Open{false, false, {5, 6}, "/scratch/run.h5", purpose, {}, {}}));
        ASSERT_TRUE(other) << other.status().message();
        EXPECT_EQ(other.value().purpose, purpose);
    }
    const auto continuing = parse_open(encode(Open{false, true, {}, "/a", Purpose::kWrite, {}, {}, 11, true}));
    ASSERT_TRUE(continuing) << continuing.status().message();
    EXPECT_EQ(continuing.value().writer, 11u);
    EXPECT_TRUE(continuing.value().continues && continuing.value().locked);
    const auto opened = parse_opened(encode(Opened{77, "/nls/forebay-0/1-2-3"}));
    ASSERT_TRUE(opened) << opened.status().message();
    EXPECT_EQ(opened.value().size, 77u);
    EXPECT_EQ(opened.value().log, "/nls/forebay-0/1-2-3");
    EXPECT_FALSE(parse_opened(encode(Opened{77, "relative"})));
    const auto commits = parse_commits(encode(Commits{{{1, 2, 3, 4}, {5, 6, 7, 8}}, Commits::Writer::kGone, 9}));
    ASSERT_TRUE(commits) << commits.status().message();
    ASSERT_EQ(commits.value().commits.size(), 2u);
    EXPECT_EQ(commits.value().commits[1].time_ns, 6u);
    EXPECT_EQ(commits.value().commits[1].bytes, 8u);
    EXPECT_EQ(commits.value().writer, Commits::Writer::kGone);
    EXPECT_EQ(commits.value().missed, 9u);
    const Payload payload = write_payload(kParts);
    const auto write = Write::parse(payload);
    ASSERT_TRUE(write) << write.status().message();
    ASSERT_EQ(write.value().count(), 2u);
    EXPECT_EQ(write.value().part(1).bytes, 5u);
    EXPECT_EQ(write.value().part(1).byte_class, Class::kMetadata);
    EXPECT_EQ(write.value().bytes().size(), 8u);
    Payload reserved = payload;
    reserved[4] = std::byte{1};
    EXPECT_FALSE(Write::parse(reserved));
    const Status failed = parse_failed(encode(Status(Code::kIo, std::string(10'000, 'x'), 5)));
    EXPECT_EQ(failed.code(), Code::kIo);
    EXPECT_EQ(failed.sys_errno(), 5);
    EXPECT_EQ(failed.message().size(), kTextMax);
}

TEST(Frame, a_header_that_anything_is_wrong_with_is_refused) {
    const HeaderBytes good = encode(Header{Type::kRead, 16, 9});
    for (std::size_t bit = 0; bit < kHeaderBytes * 8; ++bit) {
        HeaderBytes bad = good;
        bad[bit / 8] ^= std::byte{1} << (bit % 8);
        EXPECT_FALSE(parse_header(bad)) << "bit " << bit;
    }
}

// The checksum is no secret: whoever means harm has it right.
HeaderBytes forged(std::uint16_t type, std::uint32_t length, std::uint32_t flags) {
    HeaderBytes bytes = encode(Header{Type::kRead, length, 1});
    store_le(bytes.data() + 6, type);
    store_le(bytes.data() + 12, flags);
    store_le(bytes.data() + 24, checksum(std::span(bytes).first(24)));
    return bytes;
}

TEST(Frame, a_forged_header_is_refused_before_anything_is_made_of_its_length) {
    EXPECT_TRUE(parse_header(forged(6, static_cast<std::uint32_t>(kPayloadMax), 0)));
    EXPECT_FALSE(parse_header(forged(6, static_cast<std::uint32_t>(kPayloadMax) + 1, 0)));
    EXPECT_FALSE(parse_header(forged(6, 0xFFFFFFFF, 0)));
    EXPECT_FALSE(parse_header(forged(0, 0, 0)));
    EXPECT_TRUE(parse_header(forged(static_cast<std::uint16_t>(kLastType), 0, 0)));
    EXPECT_FALSE(parse_header(forged(static_cast<std::uint16_t>(kLastType) + 1, 0, 0)));
    EXPECT_FALSE(parse_header(forged(6, 0, 1)));
}

TEST(Frame, parts_that_do_not_fit_are_refused) {
    const auto parses = [](std::vector<Part> parts) { return Write::parse(write_payload(parts)).is_ok(); };
    EXPECT_TRUE(parses({{0x7FFFFFFFFFFFFFFE, 1, Class::kRaw}}));
    EXPECT_FALSE(parses({{0x7FFFFFFFFFFFFFFF, 1, Class::kRaw}}));
    EXPECT_FALSE(parses({{~std::uint64_t{0}, 1, Class::kRaw}}));
    EXPECT_FALSE(parses({{0, 0, Class::kRaw}}));
    EXPECT_FALSE(parses({}));
    EXPECT_FALSE(parses({{0, 1, static_cast<Class>(2)}}));
    EXPECT_FALSE(parses({{0, static_cast<std::uint32_t>(kDataMax) + 1, Class::kRaw}}));
    EXPECT_TRUE(parses(std::vector<Part>(kPartsMax, {0, 1, Class::kRaw})));
    EXPECT_FALSE(parses(std::vector<Part>(kPartsMax + 1, {0, 1, Class::kRaw})));
    Payload longer = write_payload(kParts);
    longer.push_back(std::byte{0});
    EXPECT_FALSE(Write::parse(longer));
    for (std::size_t bytes = 0; bytes + 1 < longer.size(); ++bytes)
        EXPECT_FALSE(Write::parse(io::Bytes(longer).first(bytes))) << bytes;
}

TEST(Frame, a_read_of_more_than_a_frame_is_refused) {
    EXPECT_TRUE(parse_read(encode(Read{5, static_cast<std::uint32_t>(kDataMax)})));
    EXPECT_FALSE(parse_read(encode(Read{5, static_cast<std::uint32_t>(kDataMax) + 1})));
    EXPECT_FALSE(parse_read(encode(Read{~std::uint64_t{0}, 16})));
}

TEST(Frame, what_lies_beyond_exposed_memory_is_refused) {
    const Payload memory(100);
    const auto writes = [&](std::uint64_t position, std::vector<Part> parts) {
        const Payload payload = encode_exposed(position, parts);
        const auto write = Write::parse_exposed(payload, memory);
        if (write) {
            EXPECT_EQ(write.value().bytes().data(), memory.data() + position);
        }
        return write.is_ok();
    };
    EXPECT_TRUE(writes(0, {{7, 60, Class::kRaw}, {0, 40, Class::kMetadata}}));
    EXPECT_TRUE(writes(99, {{7, 1, Class::kRaw}}));
    EXPECT_FALSE(writes(0, {{7, 60, Class::kRaw}, {0, 41, Class::kMetadata}}));
    EXPECT_FALSE(writes(100, {{7, 1, Class::kRaw}}));
    EXPECT_FALSE(writes(101, {{7, 1, Class::kRaw}}));
    EXPECT_FALSE(writes(~std::uint64_t{0}, {{7, 2, Class::kRaw}}));
    EXPECT_FALSE(writes(0, {}));
    Payload with_bytes = encode_exposed(0, kParts);
    with_bytes.push_back(std::byte{0});
    EXPECT_FALSE(Write::parse_exposed(with_bytes, memory));
    const std::vector<Part> one{{7, 1, Class::kRaw}};
    EXPECT_FALSE(Write::parse_exposed(encode_exposed(0, one), {}));
    const auto reads = [](std::uint64_t position, std::uint32_t bytes) {
        return parse_read_exposed(encode(ReadExposed{{5, bytes}, position}), 100).is_ok();
    };
    EXPECT_TRUE(reads(0, 100));
    EXPECT_TRUE(reads(100, 0));
    EXPECT_FALSE(reads(1, 100));
    EXPECT_FALSE(reads(101, 0));
    EXPECT_FALSE(reads(~std::uint64_t{0}, 100));
    EXPECT_TRUE(parse_expose(encode_size(kExposedMax)));
    EXPECT_FALSE(parse_expose(encode_size(kExposedMax + 1)));
    EXPECT_FALSE(parse_expose(encode_size(0)));
}

TEST(Frame, a_path_that_is_none_is_refused) {
    const auto parses = [](std::string path) {
        return parse_open(encode(Open{false, false, {}, std::move(path), Purpose::kWrite, {}, {}})).is_ok();
    };
    EXPECT_TRUE(parses("/" + std::string(kPathMax - 1, 'a')));
    EXPECT_FALSE(parses("/" + std::string(kPathMax, 'a')));
    EXPECT_FALSE(parses("relative"));
    EXPECT_FALSE(parses(""));
    EXPECT_FALSE(parses(std::string("/a\0b", 4)));
}

TEST(Frame, a_team_that_is_none_is_refused) {
    const auto parses = [](Open::Team team, Purpose purpose) {
        return parse_open(encode(Open{false, false, {}, "/a", purpose, {}, team})).is_ok();
    };
    EXPECT_TRUE(parses({1, kMembersMax}, Purpose::kWrite));
    EXPECT_TRUE(parses({1, 1}, Purpose::kRead));
    EXPECT_FALSE(parses({1, kMembersMax + 1}, Purpose::kWrite));
    EXPECT_FALSE(parses({0, 2}, Purpose::kWrite));
    EXPECT_FALSE(parses({2, 0}, Purpose::kWrite));
    EXPECT_FALSE(parses({1, 2}, Purpose::kFollow));
    EXPECT_FALSE(parses({1, 2}, Purpose::kReadCached));
    EXPECT_FALSE(parses({0, 0, true}, Purpose::kWrite));
    EXPECT_FALSE(parse_open(encode(Open{true, false, {}, "/a", Purpose::kWrite, {}, {1, 2, true}})));
}

TEST(Frame, a_writer_that_is_none_is_refused) {
    const auto parses = [](std::uint64_t writer, bool continues, bool empty = false, Purpose purpose = Purpose::kWrite,
                           Open::Team team = {}) {
        return parse_open(encode(Open{empty, false, {}, "/a", purpose, {}, team, writer, continues})).is_ok();
    };
    EXPECT_TRUE(parses(1, false, true));
    EXPECT_TRUE(parses(1, true));
    EXPECT_FALSE(parses(0, true));
    EXPECT_FALSE(parses(1, true, true));
    EXPECT_FALSE(parses(1, false, false, Purpose::kRead));
    EXPECT_FALSE(parses(1, false, false, Purpose::kWrite, {1, 2}));
}

// Under the address sanitizer: nothing outside of the payload is touched, and what is accepted is consistent.
void parse_everything(io::Bytes payload) {
    (void)parse_hello(payload);
    (void)parse_welcome(payload);
    (void)parse_read(payload);
    (void)parse_size_of(payload);
    (void)parse_number(payload);
    if (const auto opened = parse_opened(payload)) {
        EXPECT_LE(opened.value().log.size(), kPathMax);
    }
    (void)parse_empty(payload);
    if (const auto commits = parse_commits(payload)) {
        EXPECT_LE(commits.value().commits.size(), kCommitsMax);
    }
    EXPECT_FALSE(parse_failed(payload));
    const Payload memory(5000);
    if (const auto exposed = Write::parse_exposed(payload, memory)) {
        const io::Bytes bytes = exposed.value().bytes();
        EXPECT_LE(bytes.data() + bytes.size(), memory.data() + memory.size());
    }
    if (const auto read = parse_read_exposed(payload, memory.size())) {
        EXPECT_LE(read.value().position + read.value().read.bytes, memory.size());
    }
    if (const auto exposed = parse_expose(payload)) {
        EXPECT_LE(exposed.value(), kExposedMax);
    }
    if (const auto open = parse_open(payload)) {
        EXPECT_EQ(open.value().path.front(), '/');
        EXPECT_LE(open.value().path.size(), kPathMax);
    }
    const auto write = Write::parse(payload);
    if (!write) return;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < write.value().count(); ++i) bytes += write.value().part(i).bytes;
    EXPECT_EQ(bytes, write.value().bytes().size());
}

TEST(Frame, changed_payloads_do_no_harm) {
    const std::vector<Payload> good{encode(Hello{}),
                                    encode(Welcome{3, 64, 8 << 20, 3}),
                                    encode(Open{true, true, {1, 2}, "/scratch/x.h5", Purpose::kWrite, {}, {}}),
                                    encode(Open{false, true, {1, 2}, "/x", Purpose::kWrite, {}, {}, 5, true}),
                                    encode(Open{false, false, {1, 2}, "/x.h5", Purpose::kReadCached, {3, 4, 5, 6}, {}}),
                                    encode(Read{77, 4096}),
                                    write_payload(kParts),
                                    encode_exposed(4992, kParts),
                                    encode(ReadExposed{{77, 4096}, 904}),
                                    encode(Status(Code::kIo, "failed", 5)),
                                    encode_size(12345),
                                    encode(Opened{5, "/nls/forebay-0/1-2-3"}),
                                    encode(Commits{{{1, 2, 3, 4}, {5, 6, 7, 8}}, Commits::Writer::kClosed, 9})};
    for (const auto seed : test::seeds("wire.frame", 20)) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::mt19937_64 random(seed);
        for (int turn = 0; turn < 2000; ++turn) {
            Payload bytes = good[random() % good.size()];
            for (auto changes = random() % 4; changes > 0 && !bytes.empty(); --changes)
                bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 3 == 0 ? 0xFF : random());
            if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
            if (random() % 8 == 0) bytes.resize(bytes.size() + random() % 64);
            bytes.shrink_to_fit();
            parse_everything(bytes);
        }
    }
}

}   // namespace
}   // namespace forebay::wire
