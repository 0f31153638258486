// The golden bytes of the target's state (docs/log-format.md), and what a death while it is stored leaves.
#include "log/target_state.h"

#include <gtest/gtest.h>

#include <vector>

#include "log/format.h"
#include "log/target_witness.h"

namespace forebay::log {
namespace {

constexpr std::uint64_t kUse = 0x8aade0a642f06fb5;

std::vector<std::byte> from_hex(std::string_view hex) {
    std::vector<std::byte> bytes;
    unsigned value = 0, digits = 0;
    for (const char c : hex) {
        if (c == ' ') continue;
        value = value * 16 + static_cast<unsigned>(c >= 'a' ? c - 'a' + 10 : c - '0');
        if (++digits % 2 == 0) bytes.push_back(static_cast<std::byte>(std::exchange(value, 0)));
    }
    return bytes;
}

TargetState golden_state() {
    TargetState state;
    state.serial = 0x31;
    state.kind = io::TimesKind::kServed;
    state.busy = state.others_write = true;
    state.in_flight = 2;
    state.rest = {0x32, 0x33, 0x34, 0, 0, 0x35, 0x36, 0x37, 0x38};
    state.size_min = 0x39;
    state.size_max = 0x3a;
    state.begun_ns = 0x3b;
    state.mounts = 0x40;
    state.samples[0] = {0x3c, 0x2000, 0x3d, 0x1000, false};
    state.samples[1] = {0x3e, 0x40, 0x3f, 0x40, true};
    return state;
}

TEST(TargetState, has_the_bytes_that_the_format_says) {
    std::vector<std::byte> golden = from_hex(
        "3100000000000000 02 05 0000 02000000"                    // serial, kind, flags, in flight
        "3200000000000000 3300000000000000 3400000000000000"      // at rest: size, mtime, ctime
        "35000000 36000000 37000000 38000000"                     // mode, links, owner, group
        "3900000000000000 3a00000000000000 3b00000000000000"      // size from, to; begun
        "4000000000000000"                                        // mounts
        "3c00000000000000 0020000000000000 3d000000 0010 00 00"   // offset, bytes, hash, length, ended
        "3e00000000000000 4000000000000000 3f000000 4000 01 00");
    golden.resize(kStateBytes - 8);
    const auto checksum = from_hex("fcfa26b8bc66c2fd");
    golden.insert(golden.end(), checksum.begin(), checksum.end());
    const auto bytes = encode(golden_state(), kUse);
    EXPECT_EQ(std::vector(bytes.begin(), bytes.end()), golden);
    EXPECT_EQ(decode_target_state(golden, kUse), golden_state());
}

TEST(TargetState, of_another_use_or_with_a_flipped_bit_is_none) {
    const auto bytes = encode(golden_state(), kUse);
    EXPECT_FALSE(decode_target_state(bytes, kUse + 1));
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        auto flipped = bytes;
        flipped[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
        EXPECT_FALSE(decode_target_state(flipped, kUse)) << bit;
    }
    EXPECT_FALSE(decode_target_state({}, kUse));
}

// Whoever dies while it stores one leaves the one before.
TEST(TargetState, stored_up_to_any_byte_is_the_one_before_or_the_new_one) {
    TargetState state = golden_state();
    std::vector<std::byte> header(kSegmentHeaderBytes);
    const auto store = [&](const TargetState& now, std::size_t bytes) {
        const auto encoded = encode(now, kUse);
        std::copy_n(encoded.begin(), bytes, header.begin() + static_cast<std::ptrdiff_t>(state_offset(now.serial)));
    };
    EXPECT_FALSE(newest_target_state(header, kUse));
    for (int i = 0; i < 3; ++i) {
        store(state, kStateBytes);
        TargetState next = state;
        ++next.serial;
        next.rest.size = 0xffffffffffffffff;
        for (std::size_t bytes = 0; bytes < kStateBytes; ++bytes) {
            store(next, bytes);
            const auto found = newest_target_state(header, kUse);
            ASSERT_TRUE(found);
            EXPECT_TRUE(*found == state || *found == next) << bytes;
        }
        store(next, kStateBytes);
        EXPECT_EQ(newest_target_state(header, kUse), next);
        state = next;
    }
}

TEST(TargetWitness, counts_a_look_only_if_nothing_has_begun_since) {
    TargetWitness witness;
    witness.open(io::TimesKind::kExact, {.size = 10});
    EXPECT_FALSE(witness.to_be_looked_at());
    witness.begin_write({0, 20}, {});
    EXPECT_TRUE(witness.state().busy);
    EXPECT_EQ(witness.state().size_max, 20u);
    EXPECT_FALSE(witness.to_be_looked_at()) << "it is under way";
    witness.end_write({0, 20});
    ASSERT_TRUE(witness.to_be_looked_at());
    const std::uint64_t serial = witness.state().serial;
    witness.begin_write({20, 30}, {});
    witness.end_write({20, 30});
    EXPECT_FALSE(witness.rested({.size = 20}, serial));
    EXPECT_TRUE(witness.rested({.size = 30}, witness.state().serial));
    EXPECT_FALSE(witness.state().busy);
    EXPECT_EQ(witness.state().size_min, 30u);
}

TEST(TargetWitness, asks_for_what_is_there_only_as_long_as_it_knows_nothing_of_it) {
    TargetWitness witness;
    const std::vector<std::byte> sample(100);
    EXPECT_TRUE(witness.to_be_seen_before({0, 10}).empty()) << "nothing is told of the target";
    witness.open(io::TimesKind::kExact, {.size = 10000});
    EXPECT_EQ(witness.to_be_seen_before({5000, 5010}), (ByteRange{5000, 8192})) << "up to the next page";
    EXPECT_EQ(witness.to_be_seen_before({9000, 20000}), (ByteRange{9000, 10000})) << "up to the end";
    for (const std::uint64_t behind : {10000, 50000})
        EXPECT_EQ(witness.to_be_seen_before({behind, behind + 1}), (ByteRange{8192, 10000})) << "of its end";
    witness.saw(10, sample, witness.state().serial);
    EXPECT_TRUE(witness.to_be_seen_before({0, 10}).empty());
    EXPECT_EQ(witness.state().samples[0].offset, 10u);
    EXPECT_TRUE(witness.state().samples[0].ended);
    EXPECT_FALSE(witness.state().busy);
    for (const io::TimesKind kind : {io::TimesKind::kServed, io::TimesKind::kLazy, io::TimesKind::kUnknown}) {
        witness.open(kind, {.size = 1000});
        EXPECT_TRUE(witness.to_be_seen_before({0, 10}).empty());
    }
    witness.open(io::TimesKind::kExact, {.size = 0});
    EXPECT_TRUE(witness.to_be_seen_before({0, 10}).empty()) << "nothing is there";
    witness.open(io::TimesKind::kExact, {.size = 1000});
    const std::uint64_t serial = witness.state().serial;
    witness.begin_write({0, 100}, {});
    EXPECT_TRUE(witness.to_be_seen_before({200, 210}).empty()) << "a write is under way";
    witness.saw(200, sample, serial);
    EXPECT_EQ(witness.state().samples[1], WriteSample{}) << "it had begun since";
    witness.end_write({0, 100}, false);
    EXPECT_FALSE(witness.to_be_seen_before({0, 10}).empty()) << "a failed write is no sign";
}

TEST(TargetWitness, what_somebody_else_has_cut_off_is_no_sample_of_it) {
    TargetWitness witness;
    const std::vector<std::byte> sample(3096);
    witness.open(io::TimesKind::kExact, {.size = 0});
    witness.begin_write({1000, 5000}, sample);
    witness.end_write({1000, 5000});
    ASSERT_TRUE(witness.rested({.size = 2000}, witness.state().serial));
    EXPECT_EQ(witness.state().samples[0], WriteSample{});
    EXPECT_TRUE(decode_target_state(encode(witness.state(), kUse), kUse));
}

TEST(TargetWitness, at_rest_knows_what_the_writes_before_have_left) {
    TargetWitness witness;
    const std::vector<std::byte> sample(100);
    witness.open(io::TimesKind::kExact, {.size = 1000});
    witness.begin_write({1600, 2000}, sample);
    witness.end_write({1600, 2000});
    witness.begin_write({900, 2000}, sample);
    witness.end_write({900, 2000});
    witness.begin_resize(1500);
    witness.end_resize();
    ASSERT_TRUE(witness.rested({.size = 1500}, witness.state().serial));
    EXPECT_EQ(witness.state().samples[0].length, 100);
    EXPECT_EQ(witness.state().samples[0].bytes, 600u) << "the rest of it was cut off";
    EXPECT_EQ(witness.state().samples[1], WriteSample{}) << "all of it was";
    witness.begin_write({0, 100}, sample);
    TargetWitness heir;   // of one that has died meanwhile
    heir.resume(witness.state());
    ASSERT_TRUE(heir.rested({.size = 1500}, heir.state().serial));
    EXPECT_EQ(heir.state().samples, TargetState{}.samples) << "whether the last one has come nobody knows";
}

TEST(TargetWitness, forgets_samples_that_a_cut_takes_away) {
    TargetWitness witness;
    const std::vector<std::byte> sample(100);
    witness.open(io::TimesKind::kExact, {.size = 1000});
    witness.begin_write({0, 100}, sample);
    witness.end_write({0, 100});
    witness.begin_write({500, 600}, sample);
    witness.end_write({500, 600});
    witness.begin_resize(550);
    EXPECT_EQ(witness.state().samples[0].length, 0) << "a part of it may be gone";
    EXPECT_EQ(witness.state().samples[1].length, 100);
    EXPECT_TRUE(witness.state().samples[1].ended);
    EXPECT_EQ(witness.state().size_min, 550u);
}

}   // namespace
}   // namespace forebay::log
