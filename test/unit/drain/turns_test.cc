// Turns behind a close: when work may be taken, and who looks at the target.
#include "drain/turns.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "io/memory_file.h"
#include "io/open_existing.h"
#include "io/posix_file.h"
#include "support/noting_listener.h"
#include "support/scratch_folder.h"

namespace forebay::drain {
namespace {

class TurnsTest : public ::testing::Test {
  protected:
    TurnsTest() { target_.open(io::make_memory_file("target"), io::TimesKind::kUnknown, 1000, 0); }
    bool end() {
        return turns_.end([](TargetGuard&) {});
    }

    index::StagedBytes bytes_;
    test::NotingListener listener_{bytes_};
    Target target_{listener_};
    Turns turns_;
};

TEST_F(TurnsTest, before_a_close_work_belongs_to_no_turn) {
    EXPECT_EQ(turns_.take(), Turn::kNone);
    EXPECT_EQ(turns_.take(), Turn::kNone);
    EXPECT_FALSE(turns_.closed());
    EXPECT_TRUE(turns_.may_begin(Turn::kNone));
    EXPECT_FALSE(end()) << "nobody has to look";
}

TEST_F(TurnsTest, others_join_a_turn_after_its_first_look_and_until_its_first_end) {
    turns_.begin(target_, false);
    EXPECT_EQ(turns_.take(), Turn::kBegins);
    EXPECT_TRUE(turns_.closed()) << "the first one looks";
    turns_.admit();
    EXPECT_FALSE(turns_.closed());
    EXPECT_EQ(turns_.take(), Turn::kJoins);
    EXPECT_FALSE(end()) << "one is still at it";
    EXPECT_TRUE(turns_.closed());
    EXPECT_TRUE(end()) << "the last one looks";
    EXPECT_TRUE(turns_.closed());
    turns_.looked(true);
    EXPECT_FALSE(turns_.closed());
    EXPECT_EQ(turns_.next(), Turn::kBegins);
}

TEST_F(TurnsTest, work_that_was_taken_before_the_close_may_not_begin_after_it) {
    const Turn turn = turns_.take();
    turns_.begin(target_, false);
    EXPECT_FALSE(turns_.may_begin(turn));
    EXPECT_TRUE(turns_.closed()) << "it has to end first";
    EXPECT_TRUE(end());
    turns_.looked(true);
    EXPECT_TRUE(turns_.may_begin(turns_.take()));
}

TEST_F(TurnsTest, a_target_that_another_program_has_changed_stays_so_until_the_next_open) {
    turns_.begin(target_, false);
    EXPECT_EQ(turns_.take(), Turn::kBegins);
    EXPECT_EQ(turns_.guard().compare({.size = 999}), TargetGuard::Found::kChanged);
    EXPECT_FALSE(end()) << "nothing is left to compare";
    EXPECT_TRUE(turns_.changed());
    turns_.open(true);
    EXPECT_FALSE(turns_.changed());
    EXPECT_FALSE(turns_.on());
}

TEST_F(TurnsTest, others_open_the_file_only_after_the_lease_wherever_times_come_from) {
    const std::filesystem::path folder = test::make_scratch_folder();
    const std::string path = (folder / "target").string();
    for (const auto times : {io::TimesKind::kExact, io::TimesKind::kServed, io::TimesKind::kLazy})
        for (const bool may_lease : {true, false}) {
            target_.open(io::adopt_posix_file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644), path), times, 0,
                         0);
            turns_.open(may_lease);
            turns_.begin(target_, false);
            const int other = ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
            EXPECT_EQ(other < 0, may_lease) << static_cast<int>(times);
            if (other >= 0) ::close(other);
            turns_.let_others_open();
            EXPECT_TRUE(io::open_existing(path));
        }
    std::filesystem::remove_all(folder);
}

TEST_F(TurnsTest, a_write_that_failed_may_have_changed_the_size_up_to_its_end) {
    target_.reaches(2000);
    target_.begin_write({1000, 2000}, {});
    target_.end_write({1000, 2000}, false);
    turns_.begin(target_, false);
    EXPECT_EQ(turns_.guard().compare({.size = 1500}), TargetGuard::Found::kSame);
    EXPECT_EQ(turns_.guard().compare({.size = 2001}), TargetGuard::Found::kChanged);
}

TEST_F(TurnsTest, the_bytes_of_a_file_without_a_name_are_counted_once) {
    target_.witness().open(io::TimesKind::kServed, {.size = 1000, .modified_ns = 50, .changed_ns = 50, .links = 1});
    turns_.begin(target_, false);
    turns_.note_names({.size = 1000, .links = 1}, 500);
    EXPECT_EQ(turns_.nameless_bytes(), 0u);
    turns_.note_names({.size = 1000, .links = 0}, 400);
    turns_.note_names({.size = 1000, .links = 0}, 300);
    EXPECT_EQ(turns_.nameless_bytes(), 400u);
}

}   // namespace
}   // namespace forebay::drain
