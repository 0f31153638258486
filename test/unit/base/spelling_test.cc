#include "base/spelling.h"

#include <gtest/gtest.h>

#include <array>

namespace {

using forebay::nearest_word;

constexpr std::array<std::string_view, 3> kWords{"status", "wait", "recover"};

TEST(Spelling, finds_the_word_that_was_meant) {
    EXPECT_EQ(nearest_word("stauts", kWords), "status");
    EXPECT_EQ(nearest_word("WAIT", kWords), "wait");
    EXPECT_EQ(nearest_word("recovr", kWords), "recover");
}

TEST(Spelling, suggests_nothing_that_is_far_from_what_was_typed) {
    EXPECT_EQ(nearest_word("xyzzy", kWords), std::nullopt);
    EXPECT_EQ(nearest_word("", kWords), std::nullopt);
    EXPECT_EQ(nearest_word("status", {}), std::nullopt);
}

}   // namespace
