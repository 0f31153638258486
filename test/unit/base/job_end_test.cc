#include "base/job_end.h"

#include <gtest/gtest.h>

#include <string>

namespace forebay {
namespace {

using Kind = JobEnd::Kind;
constexpr std::uint64_t kSecond = 1'000'000'000;

void expect(const std::string& text, Kind kind, std::uint64_t seconds) {
    const auto end = parse_job_end(text);
    ASSERT_TRUE(end) << text << ": " << end.status().message();
    EXPECT_EQ(end.value().kind, kind) << text;
    EXPECT_EQ(end.value().ns, seconds * kSecond) << text;
}

TEST(JobEnd, durations_have_units_or_are_seconds) {
    expect("90", Kind::kAfter, 90);
    expect("90s", Kind::kAfter, 90);
    expect("110m", Kind::kAfter, 6600);
    expect("110min", Kind::kAfter, 6600);
    expect("1.5h", Kind::kAfter, 5400);
    expect("2d", Kind::kAfter, 172800);
    expect("0", Kind::kAfter, 0);
}

TEST(JobEnd, slurm_says_seconds_since_1970) { expect("1751302800", Kind::kAt, 1751302800); }

TEST(JobEnd, a_time_may_be_in_utc) {
    expect("2025-06-30T17:00Z", Kind::kAt, 1751302800);
    expect("2025-06-30T17:00:01Z", Kind::kAt, 1751302801);
    const auto local = parse_job_end("2025-06-30T17:00");
    ASSERT_TRUE(local);
    constexpr std::uint64_t kDay = 86400 * kSecond;
    EXPECT_LE(local.value().ns, 1751302800 * kSecond + kDay);
    EXPECT_GE(local.value().ns, 1751302800 * kSecond - kDay);
}

TEST(JobEnd, nothing_and_off_are_no_end) {
    expect("", Kind::kNever, 0);
    expect("off", Kind::kNever, 0);
}

TEST(JobEnd, everything_else_is_refused) {
    for (const char* text : {"-1",
                             "+1",
                             "inf",
                             "nan",
                             "1e3",
                             "5 m",
                             "5x",
                             "m",
                             ".",
                             "soon",
                             "02:00:00",
                             "2025-06-30",
                             "2025-06-30T",
                             "2025-06-30T1",
                             "2025-13-30T17:00",
                             "2025-06-30T24:00",
                             "2025-06-30T17:00:",
                             "2025-06-30T17:00ZZ",
                             "2025-06-30T17:00+01:00",
                             "1969-01-01T00:00Z",
                             "T",
                             "99999999999999d"})
        EXPECT_FALSE(parse_job_end(text)) << text;
}

TEST(JobEnd, it_becomes_an_instant_of_the_monotonic_clock) {
    const Now now{.monotonic_ns = 1000, .realtime_ns = 50'000, .program_age_ns = 300};
    EXPECT_EQ(monotonic_end_ns({}, now), ~std::uint64_t{0});
    EXPECT_EQ(monotonic_end_ns({Kind::kAfter, 500}, now), 1200u);
    EXPECT_EQ(monotonic_end_ns({Kind::kAfter, 100}, now), 800u);
    EXPECT_EQ(monotonic_end_ns({Kind::kAt, 50'700}, now), 1700u);
    EXPECT_EQ(monotonic_end_ns({Kind::kAt, 0}, now), 0u);
    EXPECT_EQ(monotonic_end_ns({Kind::kAfter, ~std::uint64_t{0}}, now), ~std::uint64_t{0});
}

}   // namespace
}   // namespace forebay
