// What tells that another program has changed a target, and what does not.
#include "drain/target_guard.h"

#include <gtest/gtest.h>

namespace forebay::drain {
namespace {

using Found = TargetGuard::Found;
using io::FileState;
using io::TimesKind;

FileState written(std::uint64_t size, std::uint64_t time) {
    return {.size = size, .modified_ns = time, .changed_ns = time};
}

TargetGuard guard_of(TimesKind kind = TimesKind::kExact) {
    TargetGuard guard;
    guard.begin(kind, written(1000, 50), 0, 0);
    return guard;
}

TEST(TargetGuard, a_target_that_is_as_it_was_left_is_the_same) {
    TargetGuard guard = guard_of();
    EXPECT_EQ(guard.compare(written(1000, 50)), Found::kSame);
    EXPECT_FALSE(guard.changed());
}

TEST(TargetGuard, another_size_is_a_change_whatever_the_times_tell) {
    for (const auto kind : {TimesKind::kUnknown, TimesKind::kExact, TimesKind::kServed, TimesKind::kLazy}) {
        TargetGuard guard = guard_of(kind);
        EXPECT_EQ(guard.compare(written(999, 50)), Found::kChanged);
        EXPECT_EQ(guard.why(), "it has 999 bytes, and had 1000");
    }
}

TEST(TargetGuard, a_write_in_place_is_a_change_where_there_are_times) {
    TargetGuard exact = guard_of(), served = guard_of(TimesKind::kServed), lazy = guard_of(TimesKind::kLazy);
    EXPECT_EQ(exact.compare(written(1000, 51)), Found::kChanged);
    EXPECT_EQ(served.compare(written(1000, 51)), Found::kChanged);
    EXPECT_EQ(lazy.compare(written(1000, 51)), Found::kSame);
}

TEST(TargetGuard, a_change_stays_one_although_the_file_looks_as_before) {
    TargetGuard guard = guard_of();
    EXPECT_EQ(guard.compare(written(1000, 51)), Found::kChanged);
    EXPECT_EQ(guard.compare(written(1000, 50)), Found::kChanged);
    EXPECT_TRUE(guard.changed());
}

TEST(TargetGuard, another_name_mode_or_owner_is_none) {
    TargetGuard guard = guard_of();
    FileState now = written(1000, 50);
    now.changed_ns = 60;
    now.mode = 0600;
    now.links = 2;
    EXPECT_EQ(guard.compare(now), Found::kSame);
}

// A write has a time that is not before the last change, and gives it to both.
TEST(TargetGuard, times_that_no_write_can_have_given_were_set) {
    for (const std::uint64_t modified_ns : {std::uint64_t{7}, std::uint64_t{90}}) {
        TargetGuard guard = guard_of();
        FileState now = written(1000, 60);
        now.modified_ns = modified_ns;
        EXPECT_EQ(guard.compare(now), Found::kTimesSet);
        EXPECT_FALSE(guard.modified_to_keep_ns());
        guard.accept(now);
        EXPECT_EQ(guard.modified_to_keep_ns(), modified_ns);
        // Set again after the next write.
        guard.wrote(1000, true);
        now.changed_ns = 70;
        EXPECT_EQ(guard.left(now), Found::kSame);
        EXPECT_EQ(guard.modified_to_keep_ns(), modified_ns);
        EXPECT_EQ(guard.compare(now), Found::kSame);
    }
}

TEST(TargetGuard, a_mtime_of_zero_after_a_change_of_size_is_not_kept) {
    TargetGuard guard = guard_of(TimesKind::kServed);
    guard.resized(800, true);
    EXPECT_EQ(guard.left({.size = 800, .modified_ns = 0, .changed_ns = 60}), Found::kSame);
    EXPECT_FALSE(guard.modified_to_keep_ns());
    EXPECT_EQ(guard.compare({.size = 800, .modified_ns = 0, .changed_ns = 60}), Found::kSame);
    EXPECT_EQ(guard.compare(written(800, 70)), Found::kChanged) << "a write by another program";
}

TEST(TargetGuard, a_mtime_that_another_program_set_to_zero_is_a_change_where_a_server_keeps_times) {
    const FileState zero{.size = 1000, .modified_ns = 0, .changed_ns = 60};
    TargetGuard exact = guard_of(), served = guard_of(TimesKind::kServed);
    EXPECT_EQ(exact.compare(zero), Found::kTimesSet);
    EXPECT_EQ(served.compare(zero), Found::kChanged);
}

TEST(TargetGuard, a_time_that_is_set_a_second_time_is_kept_instead) {
    TargetGuard guard = guard_of();
    FileState now{.size = 1000, .modified_ns = 7, .changed_ns = 60};
    ASSERT_EQ(guard.compare(now), Found::kTimesSet);
    guard.accept(now);
    now.modified_ns = 20;
    now.changed_ns = 65;
    EXPECT_EQ(guard.compare(now), Found::kTimesSet);
    guard.accept(now);
    EXPECT_EQ(guard.modified_to_keep_ns(), 20u);
}

TEST(TargetGuard, times_that_a_write_and_a_new_name_may_have_given_are_a_change) {
    TargetGuard guard = guard_of();
    FileState now = written(1000, 70);
    now.modified_ns = 60;
    EXPECT_EQ(guard.compare(now), Found::kChanged);
}

TEST(TargetGuard, after_a_turn_the_size_has_to_be_what_its_writes_made_it) {
    TargetGuard guard = guard_of();
    guard.wrote(1500, true);
    guard.wrote(1200, true);
    EXPECT_EQ(guard.left(written(1500, 60)), Found::kSame);
    EXPECT_EQ(guard.compare(written(1500, 60)), Found::kSame);
    guard.resized(800, true);
    EXPECT_EQ(guard.left(written(800, 70)), Found::kSame);
    guard.wrote(100, true);
    EXPECT_EQ(guard.left(written(100, 80)), Found::kChanged);   // it was cut meanwhile
}

TEST(TargetGuard, a_write_that_failed_may_have_come_in_part) {
    for (const std::uint64_t size : {1000, 1234, 1500}) {
        TargetGuard guard = guard_of();
        guard.wrote(1500, false);
        EXPECT_EQ(guard.left(written(size, 60)), Found::kSame) << size;
        EXPECT_EQ(guard.compare(written(size, 60)), Found::kSame) << size;
    }
    TargetGuard guard = guard_of();
    guard.wrote(1500, false);
    EXPECT_EQ(guard.left(written(1501, 60)), Found::kChanged);
}

TEST(TargetGuard, before_its_first_look_it_knows_between_what_the_size_is) {
    TargetGuard guard;
    guard.begin(TimesKind::kServed, std::nullopt, 100, 300);
    EXPECT_EQ(guard.compare(written(200, 5)), Found::kSame);
    EXPECT_EQ(guard.compare(written(200, 6)), Found::kChanged);
    guard.begin(TimesKind::kServed, std::nullopt, 100, 300);
    EXPECT_EQ(guard.compare(written(301, 5)), Found::kChanged);
}

TEST(TargetGuard, times_that_were_set_before_its_first_look_are_kept_as_well) {
    TargetGuard guard;
    guard.begin(TimesKind::kServed, std::nullopt, 100, 300);
    guard.expect_after(50);
    guard.wrote(300, true);
    EXPECT_EQ(guard.left({.size = 300, .modified_ns = 7, .changed_ns = 60}), Found::kSame);
    EXPECT_EQ(guard.modified_to_keep_ns(), 7u);
}

}   // namespace
}   // namespace forebay::drain
