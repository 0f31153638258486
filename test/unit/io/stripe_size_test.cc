// What file systems tell of their stripes.
#include "io/stripe_size.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "base/bytes.h"

namespace forebay::io {

namespace {

// A layout of Lustre: magic, pattern, object, stripe size, stripe count, generation.
std::vector<std::byte> layout(std::uint32_t magic, std::uint32_t stripe_bytes) {
    std::vector<std::byte> bytes(56);
    store_le(bytes.data(), magic);
    store_le(bytes.data() + 24, stripe_bytes);
    return bytes;
}

TEST(StripeSize, is_that_of_lustres_layout) {
    EXPECT_EQ(stripe_size(layout(0x0BD10BD0, 4 << 20), 2 << 20), 4u << 20);
    EXPECT_EQ(stripe_size(layout(0x0BD30BD0, 64 << 10), 4096), 64u << 10);
}

TEST(StripeSize, is_a_large_block_where_there_is_no_layout) {
    EXPECT_EQ(stripe_size({}, 8 << 20), 8u << 20);
    EXPECT_EQ(stripe_size({}, 64 << 10), 64u << 10);
}

TEST(StripeSize, is_not_told_by_small_blocks_or_nonsense) {
    EXPECT_EQ(stripe_size({}, 4096), 0u);
    EXPECT_EQ(stripe_size({}, 0), 0u);
    EXPECT_EQ(stripe_size({}, std::uint64_t{1} << 40), 0u);
    EXPECT_EQ(stripe_size(layout(0x12345678, 4 << 20), 4096), 0u) << "no layout that is known";
    EXPECT_EQ(stripe_size(layout(0x0BD10BD0, 0), 2 << 20), 2u << 20) << "the block size counts";
    const std::vector<std::byte> whole = layout(0x0BD10BD0, 4 << 20);
    EXPECT_EQ(stripe_size(Bytes(whole).first(28), 4096), 0u) << "cut off";
}

TEST(StripeSize, of_what_is_no_file_is_not_told) { EXPECT_EQ(ask_stripe_size(-1, 0x0BD00BD0, 0), 0u); }

}   // namespace

}   // namespace forebay::io
