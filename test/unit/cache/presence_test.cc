#include "cache/presence.h"

#include <gtest/gtest.h>

#include <vector>

namespace forebay::cache {
namespace {

Version source(std::uint64_t size) { return {{1, 2}, 3, 4, size, 5, 6}; }

class Map {
  public:
    explicit Map(std::uint64_t source_bytes) : words_(Presence::bytes_for(source_bytes) / 8 + 1) {
        Presence::make(memory(), source(source_bytes), {}, 7);
    }
    io::MutableBytes memory() { return std::as_writable_bytes(std::span(words_)); }

  private:
    std::vector<std::uint64_t> words_;
};

TEST(BlockMask, has_a_bit_for_each_block_that_a_range_touches) {
    EXPECT_EQ(block_mask(0, 64), ~std::uint64_t{0});
    EXPECT_EQ(block_mask(3, 5), std::uint64_t{0b11000});
    EXPECT_EQ(block_mask(5, 5), 0u);
    EXPECT_EQ(touched_blocks(0, {0, 1}), 1u);
    EXPECT_EQ(touched_blocks(0, {4095, 4097}), 3u);
    EXPECT_EQ(touched_blocks(1, {0, kUnitBytes}), 0u);
    EXPECT_EQ(touched_blocks(1, {kUnitBytes - 1, kUnitBytes + 1}), 1u);
    EXPECT_EQ(touched_blocks(0, {0, 5 * kUnitBytes}), ~std::uint64_t{0});
    EXPECT_EQ(touched_blocks(0, {9, 9}), 0u);
}

TEST(PresenceTest, a_new_map_has_no_block_and_one_unit_for_each_256_kib) {
    Map map(3 * kUnitBytes + 1);
    const auto opened = Presence::open(map.memory());
    ASSERT_TRUE(opened) << opened.status().message();
    EXPECT_EQ(opened.value().units(), 4u);
    for (std::uint64_t unit = 0; unit < 4; ++unit) EXPECT_EQ(opened.value().present(unit), 0u);
    EXPECT_EQ(opened.value().header().source, source(3 * kUnitBytes + 1));
}

TEST(PresenceTest, a_published_block_is_seen_until_it_is_withdrawn) {
    Map map(kUnitBytes);
    const Presence presence = Presence::open(map.memory()).value();
    EXPECT_FALSE(presence.look(0, 0b11).whole);
    EXPECT_EQ(presence.publish(0, 0b01), 0b01u);
    EXPECT_EQ(presence.publish(0, 0b11), 0b10u) << "only what was not there";
    const auto seen = presence.look(0, 0b11);
    EXPECT_TRUE(seen.whole);
    EXPECT_TRUE(presence.still(0, seen));
    EXPECT_EQ(presence.withdraw(0, ~std::uint64_t{0}), 0b11u);
    EXPECT_FALSE(presence.still(0, seen)) << "who reads meanwhile has to notice";
    EXPECT_EQ(presence.publish(0, 0b11), 0b11u);
    EXPECT_FALSE(presence.still(0, seen)) << "also once it was stored anew";
}

TEST(PresenceTest, a_unit_has_one_owner_at_a_time) {
    Map map(kUnitBytes);
    const Presence presence = Presence::open(map.memory()).value();
    std::uint32_t found = 0;
    ASSERT_TRUE(presence.owners().claim(0, 7, found));
    EXPECT_FALSE(presence.owners().claim(0, 8, found));
    EXPECT_EQ(found, 7u);
    EXPECT_FALSE(presence.owners().take_over(0, 6, 8)) << "it is not that one's";
    EXPECT_TRUE(presence.owners().take_over(0, 7, 8));
    const auto arrivals = presence.header().arrivals.load();
    presence.owners().give_up(0);
    EXPECT_NE(presence.header().arrivals.load(), arrivals);
    EXPECT_TRUE(presence.owners().claim(0, 9, found));
}

TEST(PresenceTest, a_map_that_is_damaged_anywhere_in_its_header_is_none) {
    for (std::size_t at = 0; at < 96; ++at) {
        Map map(kUnitBytes);
        map.memory()[at] ^= std::byte{0x10};
        const auto opened = Presence::open(map.memory());
        if (at >= 12 && at < 16) continue;   // the state, which changes
        EXPECT_FALSE(opened) << "byte " << at;
    }
}

TEST(PresenceTest, a_map_that_is_too_short_is_none) {
    Map map(10 * kUnitBytes);
    for (const std::size_t size : {std::size_t{0}, std::size_t{100}, std::size_t{4096}, std::size_t{5000}})
        EXPECT_FALSE(Presence::open(map.memory().first(size))) << size;
}

TEST(PresenceTest, a_map_for_a_file_of_any_size_is_refused_or_fits) {
    std::vector<std::uint64_t> words(2048);
    for (const std::uint64_t size : {std::uint64_t{1} << 62, ~std::uint64_t{0}, std::uint64_t{1} << 40}) {
        std::fill(words.begin(), words.end(), 0);
        const io::MutableBytes memory = std::as_writable_bytes(std::span(words));
        Presence::make(memory, source(size), {}, 7);
        EXPECT_FALSE(Presence::open(memory)) << size;
    }
}

}   // namespace
}   // namespace forebay::cache
