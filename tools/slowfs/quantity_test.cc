#include "quantity.h"

#include <gtest/gtest.h>

namespace forebay::slowfs {
namespace {

TEST(Quantity, sizes_have_binary_and_decimal_units) {
    EXPECT_EQ(parse_size("4096").value(), 4096U);
    EXPECT_EQ(parse_size("64KiB").value(), 65536U);
    EXPECT_EQ(parse_size("1.5M").value(), 1572864U);
    EXPECT_EQ(parse_size("2 GB").value(), 2'000'000'000U);
    for (const char* text : {"", "x", "-1", "4096q", "1e3", "inf", "nan", "99999999TiB"}) {
        EXPECT_FALSE(parse_size(text).is_ok()) << text;
    }
}

TEST(Quantity, a_bandwidth_may_be_unlimited) {
    EXPECT_EQ(parse_bandwidth("200MiB/s").value(), 200U << 20);
    EXPECT_EQ(parse_bandwidth("1GB").value(), 1'000'000'000U);
    EXPECT_EQ(parse_bandwidth("unlimited").value(), 0U);
    EXPECT_EQ(parse_bandwidth("0").value(), 0U);
    EXPECT_FALSE(parse_bandwidth("0.1B/s").is_ok());
    EXPECT_FALSE(parse_bandwidth("fast").is_ok());
}

TEST(Quantity, durations_need_their_unit) {
    EXPECT_EQ(parse_duration_ns("0.5ms").value(), 500'000);
    EXPECT_EQ(parse_duration_ns("20us").value(), 20'000);
    EXPECT_EQ(parse_duration_ns("5s").value(), 5'000'000'000);
    EXPECT_EQ(parse_duration_ns("0").value(), 0);
    EXPECT_FALSE(parse_duration_ns("5").is_ok());
    EXPECT_FALSE(parse_duration_ns("-5s").is_ok());
}

}   // namespace
}   // namespace forebay::slowfs
