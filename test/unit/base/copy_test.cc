#include "base/copy.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace forebay {
namespace {

TEST(CopyLarge, copies_every_byte_and_no_other_whatever_the_alignment) {
    std::mt19937_64 random(1);
    std::vector<std::byte> from(600000 + 200);
    for (auto& byte : from) byte = static_cast<std::byte>(random());
    for (int round = 0; round < 60; ++round) {
        const std::size_t size = round % 3 == 0 ? random() % 1000 : 250000 + random() % 350000;
        const std::size_t from_at = random() % 100, to_at = random() % 100;
        std::vector<std::byte> to(size + 200, std::byte{0xEE});
        std::vector<std::byte> expected = to;
        std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(from_at), size,
                    expected.begin() + static_cast<std::ptrdiff_t>(to_at));
        copy_large(to.data() + to_at, from.data() + from_at, size);
        ASSERT_EQ(to, expected) << "size " << size << ", from " << from_at << ", to " << to_at;
    }
}

}   // namespace
}   // namespace forebay
