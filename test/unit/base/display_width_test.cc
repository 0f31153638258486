#include "base/display_width.h"

#include <gtest/gtest.h>

#include <string>

namespace {

using forebay::begin_of_last_columns;
using forebay::bytes_in_columns;
using forebay::display_width;

TEST(DisplayWidth, counts_columns_and_not_bytes) {
    EXPECT_EQ(display_width(""), 0U);
    EXPECT_EQ(display_width("run.h5"), 6U);
    EXPECT_EQ(display_width("größe"), 5U);
    EXPECT_EQ(display_width("模拟"), 4U);
    EXPECT_EQ(display_width("e\u0301"), 1U);
    EXPECT_EQ(display_width("█░"), 2U);
    EXPECT_EQ(display_width("😀"), 2U);
}

TEST(DisplayWidth, takes_what_is_no_utf8_as_one_column_a_byte) {
    EXPECT_EQ(display_width("\xff\xfe"), 2U);
    EXPECT_EQ(display_width("a\xe6\xa8"), 3U);   // a character that is cut off
}

TEST(DisplayWidth, cuts_no_character) {
    const std::string text = "a模b";
    EXPECT_EQ(bytes_in_columns(text, 2), 1U);
    EXPECT_EQ(bytes_in_columns(text, 3), 4U);
    EXPECT_EQ(bytes_in_columns(text, 99), text.size());
    EXPECT_EQ(text.substr(begin_of_last_columns(text, 3)), "模b");
    EXPECT_EQ(text.substr(begin_of_last_columns(text, 2)), "b");
}

}   // namespace
