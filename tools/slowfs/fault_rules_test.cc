#include "fault_rules.h"

#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay::slowfs {
namespace {

using ::testing::HasSubstr;

std::string some_path() { return "run/step.h5"; }

FaultRule parsed(std::string_view text) {
    auto rule = FaultRule::parse(text);
    EXPECT_TRUE(rule.is_ok()) << rule.status().message();
    return rule.is_ok() ? rule.value() : FaultRule{};
}

TEST(FaultRule, every_key_is_understood) {
    const FaultRule rule = parsed(
        "op=write|fallocate,errno=ENOSPC,hang=5s,after=3,count=1,offset=4KiB..8192,path=*.h5");
    EXPECT_TRUE(rule.ops.test(index_of(Op::kWrite)));
    EXPECT_TRUE(rule.ops.test(index_of(Op::kFallocate)));
    EXPECT_EQ(rule.ops.count(), 2U);
    EXPECT_EQ(rule.error, ENOSPC);
    EXPECT_TRUE(rule.hang);
    EXPECT_EQ(rule.hang_ns_max, 5'000'000'000);
    EXPECT_EQ(rule.after, 3U);
    EXPECT_EQ(rule.count, 1U);
    EXPECT_EQ(rule.offset_begin, 4096U);
    EXPECT_EQ(rule.offset_end, 8192U);
    EXPECT_EQ(rule.path, "*.h5");
}

TEST(FaultRule, the_usual_errors_are_known_by_name) {
    EXPECT_EQ(parsed("op=write,errno=EIO").error, EIO);
    EXPECT_EQ(parsed("op=write,errno=EDQUOT").error, EDQUOT);
    EXPECT_EQ(parsed("op=*,errno=ESTALE").error, ESTALE);
}

TEST(FaultRule, a_bad_rule_says_what_is_wrong_with_it) {
    const auto message = [](std::string_view text) {
        auto rule = FaultRule::parse(text);
        EXPECT_FALSE(rule.is_ok()) << text;
        return rule.status().message();
    };
    EXPECT_THAT(message(""), HasSubstr("not key=value"));
    EXPECT_THAT(message("op=write"), HasSubstr("errno=, short= and hang"));
    EXPECT_THAT(message("errno=EIO"), HasSubstr("op= is missing"));
    EXPECT_THAT(message("op=scribble,errno=EIO"), HasSubstr("unknown operation 'scribble'"));
    EXPECT_THAT(message("op=write,errno=EWRONG"), HasSubstr("'EWRONG' is not an error name"));
    EXPECT_THAT(message("op=write,errno=5"), HasSubstr("'5' is not an error name"));
    EXPECT_THAT(message("op=write,colour=red"), HasSubstr("unknown key 'colour'"));
    EXPECT_THAT(message("op=write,short=half,late"), HasSubstr("late is for op=write, with errno="));
    EXPECT_THAT(message("op=read,errno=EIO,late"), HasSubstr("late is for op=write"));
    EXPECT_THAT(message("op=write,errno=EIO,after=x"), HasSubstr("'x' is not a whole number"));
    EXPECT_THAT(message("op=write,errno=EIO,count=0"), HasSubstr("never happens"));
    EXPECT_THAT(message("op=write,errno=EIO,offset=8..8"), HasSubstr("it is empty"));
    EXPECT_THAT(message("op=write,errno=EIO,offset=8"), HasSubstr("not a range"));
    EXPECT_THAT(message("op=open,errno=EIO,offset=0..8"), HasSubstr("offset= is for"));
    EXPECT_THAT(message("op=open,short=half"), HasSubstr("short= is for"));
    EXPECT_THAT(message("op=write,short=0"), HasSubstr("above 0"));
    EXPECT_THAT(message("op=write,short=half,errno=EIO"), HasSubstr("exclude each other"));
    EXPECT_THAT(message("op=write,hang=soon"), HasSubstr("not a duration"));
    EXPECT_THAT(message("op=write,errno=EIO,"), HasSubstr("not key=value"));
}

TEST(FaultRule, a_range_is_hit_by_transfers_that_touch_it) {
    const FaultRule rule = parsed("op=write,errno=EIO,offset=100..200");
    EXPECT_FALSE(rule.matches(Op::kWrite, 0, 100, some_path));
    EXPECT_TRUE(rule.matches(Op::kWrite, 0, 101, some_path));
    EXPECT_TRUE(rule.matches(Op::kWrite, 150, 1, some_path));
    EXPECT_TRUE(rule.matches(Op::kWrite, 199, 100, some_path));
    EXPECT_FALSE(rule.matches(Op::kWrite, 200, 100, some_path));
    EXPECT_FALSE(rule.matches(Op::kRead, 150, 1, some_path));
}

TEST(FaultRule, an_open_range_has_no_end) {
    EXPECT_TRUE(parsed("op=write,errno=EIO,offset=1GiB..").matches(Op::kWrite, 1ULL << 40, 1, some_path));
    EXPECT_FALSE(parsed("op=write,errno=EIO,offset=..10").matches(Op::kWrite, 10, 1, some_path));
}

TEST(FaultRule, a_pattern_without_slash_is_about_the_last_name) {
    const auto hits = [](const std::string& pattern) {
        return parsed("op=open,errno=EIO,path=" + pattern).matches(Op::kOpen, 0, 0, some_path);
    };
    EXPECT_TRUE(hits("*.h5"));
    EXPECT_TRUE(hits("step.h5"));
    EXPECT_FALSE(hits("run*"));
    EXPECT_TRUE(hits("run/*"));
    EXPECT_TRUE(hits("/run/step.h5"));
    EXPECT_FALSE(hits("/step.h5"));
}

TEST(FaultRules, the_nth_operation_is_hit_as_often_as_said) {
    FaultRules rules;
    rules.add(parsed("op=write,errno=EIO,after=2,count=2"));
    std::vector<int> errors;
    for (int i = 0; i < 6; ++i) {
        EXPECT_EQ(rules.next(Op::kRead, 0, 1, some_path).error, 0);
        errors.push_back(rules.next(Op::kWrite, 0, 1, some_path).error);
    }
    EXPECT_THAT(errors, ::testing::ElementsAre(0, 0, EIO, EIO, 0, 0));
    ASSERT_EQ(rules.tallies().size(), 1U);
    EXPECT_EQ(rules.tallies()[0].matched, 6U);
    EXPECT_EQ(rules.tallies()[0].hit, 2U);
}

TEST(FaultRules, the_first_rule_that_wants_an_operation_has_it) {
    FaultRules rules;
    rules.add(parsed("op=write,errno=EIO,count=1"));
    rules.add(parsed("op=write,errno=ENOSPC,count=1"));
    EXPECT_EQ(rules.next(Op::kWrite, 0, 1, some_path).error, EIO);
    EXPECT_EQ(rules.next(Op::kWrite, 0, 1, some_path).error, ENOSPC);
    EXPECT_EQ(rules.next(Op::kWrite, 0, 1, some_path).error, 0);
}

TEST(FaultRules, a_short_transfer_moves_half_or_so_many_bytes_but_never_none) {
    FaultRules rules;
    rules.add(parsed("op=write,short=half"));
    EXPECT_EQ(rules.next(Op::kWrite, 0, 100, some_path).size_bytes_max, 50U);
    EXPECT_EQ(rules.next(Op::kWrite, 0, 1, some_path).size_bytes_max, 1U);
    rules.clear();
    rules.add(parsed("op=write,short=4KiB"));
    EXPECT_EQ(rules.next(Op::kWrite, 0, 100'000, some_path).size_bytes_max, 4096U);
}

TEST(FaultRules, nothing_happens_after_clear) {
    FaultRules rules;
    rules.add(parsed("op=*,errno=EIO"));
    rules.clear();
    EXPECT_EQ(rules.next(Op::kWrite, 0, 1, some_path).error, 0);
    EXPECT_TRUE(rules.tallies().empty());
}

TEST(FaultRules, a_path_is_only_asked_for_if_a_rule_has_one) {
    FaultRules rules;
    rules.add(parsed("op=write,errno=EIO"));
    rules.add(parsed("op=read,errno=EIO,path=*.h5"));
    int asked = 0;
    const auto path_of = [&] { return ++asked, some_path(); };
    (void)rules.next(Op::kWrite, 0, 1, path_of);
    EXPECT_EQ(asked, 0);
    (void)rules.next(Op::kRead, 0, 1, path_of);
    EXPECT_EQ(asked, 1);
}

}   // namespace
}   // namespace forebay::slowfs
