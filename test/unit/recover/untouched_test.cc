// What shows that somebody else has changed a target, and what does not.
#include "recover/untouched.h"

#include <gtest/gtest.h>

#include <numeric>

#include "io/memory_file.h"
#include "log/target_witness.h"

namespace forebay::recover {
namespace {

using io::TimesKind;

constexpr std::uint64_t kSecond = 1'000'000'000, kNow = 1'700'000'000 * kSecond + 5;

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(seed + i * 7);
    return bytes;
}

class UntouchedTest : public testing::TestWithParam<io::TimesKind> {
  protected:
    UntouchedTest() {
        EXPECT_TRUE(target_->write_at(0, pattern(10000, 1)));
        witness_.open(io::TimesKind::kExact, rest_);
    }
    log::TargetState known(io::TimesKind kind = io::TimesKind::kExact) const {
        log::TargetState state = witness_.state();
        state.kind = kind;
        return state;
    }
    Status check(const io::FileState& now, io::TimesKind kind = io::TimesKind::kExact,
                 Death death = {kNow, false, false, false}) {
        return check_untouched(known(kind), now, *target_, death);
    }
    // A write of what the target does not hold yet.
    void begin(ByteRange range, unsigned seed) {
        const auto bytes = pattern(range.size(), seed);
        witness_.begin_write(range, std::span(bytes).first(log::sample_length(range.begin, range.size())));
    }
    void arrive(ByteRange range, unsigned seed) {
        EXPECT_TRUE(target_->write_at(range.begin, pattern(range.size(), seed)));
    }

    std::unique_ptr<io::File> target_ = io::make_memory_file("/scratch/run.h5");
    io::FileState rest_{10000, kNow, kNow, 1, 1, 0100644, 1, 7, 8};
    log::TargetWitness witness_;
};

TEST_F(UntouchedTest, at_rest_everything_has_to_be_as_it_was) {
    EXPECT_TRUE(check(rest_));
    for (const auto change : {&io::FileState::size, &io::FileState::modified_ns, &io::FileState::changed_ns})
        for (const std::uint64_t by : {std::uint64_t{1}, kSecond, std::uint64_t{0} - 1, std::uint64_t{0} - kSecond}) {
            io::FileState now = rest_;
            now.*change += by;
            EXPECT_EQ(check(now).code(), Code::kUnsupported) << by;
        }
}

TEST_F(UntouchedTest, what_moves_the_time_of_its_status_alone_is_seen) {
    io::FileState now = rest_;
    now.changed_ns += 3600 * kSecond;
    EXPECT_FALSE(check(now));
    EXPECT_TRUE(check(now, io::TimesKind::kExact, {kNow, true, false, false})) << "it has another name";
    for (const auto change :
         {&io::FileState::mode, &io::FileState::links, &io::FileState::owner, &io::FileState::group}) {
        io::FileState also = now;
        also.*change += 1;
        EXPECT_TRUE(check(also));
        also.modified_ns += 1;
        EXPECT_FALSE(check(also)) << "it was written to as well";
    }
}

TEST_F(UntouchedTest, whole_seconds_are_enough_where_no_more_is_kept) {
    io::FileState now = rest_;
    now.modified_ns -= now.modified_ns % kSecond;
    now.changed_ns -= now.changed_ns % kSecond;
    EXPECT_TRUE(check(now));
    now.modified_ns -= kSecond;
    EXPECT_FALSE(check(now));
}

TEST_F(UntouchedTest, what_was_under_way_may_have_changed_it_as_far_as_it_could) {
    begin({8000, 12000}, 9);
    io::FileState now = rest_;
    EXPECT_TRUE(check(now)) << "it had not begun";
    arrive({8000, 12000}, 9);
    now.modified_ns = now.changed_ns = witness_.state().begun_ns + 1;
    const Death death{now.modified_ns, false, false, false};
    for (const std::uint64_t size : {10000, 11000, 12000}) {
        now.size = size;
        EXPECT_TRUE(check(now, io::TimesKind::kExact, death)) << size;
    }
    for (const std::uint64_t size : {9999, 12001}) {
        now.size = size;
        EXPECT_FALSE(check(now, io::TimesKind::kExact, death)) << size;
    }
}

TEST_F(UntouchedTest, while_its_size_is_set_it_has_the_old_one_or_the_new_one) {
    witness_.begin_resize(30000);
    io::FileState now = rest_;
    now.modified_ns = now.changed_ns = witness_.state().begun_ns + 1;
    for (const std::uint64_t size : {8, 9999, 20000, 30001}) {
        now.size = size;
        EXPECT_FALSE(check(now)) << size;
    }
    for (const std::uint64_t size : {10000, 30000}) {
        now.size = size;
        EXPECT_TRUE(check(now)) << size;
    }
    witness_.end_resize();
    EXPECT_TRUE(check(now));
    now.size = 10000;
    EXPECT_FALSE(check(now)) << "it had the new one";
    now.size = 8;
    EXPECT_FALSE(check(now)) << "another program has made it anew";
}

TEST_F(UntouchedTest, a_mtime_of_zero_is_no_older_file_if_its_size_was_set) {
    io::FileState now = rest_;
    now.modified_ns = 0;
    now.changed_ns += 1;
    EXPECT_FALSE(check(now, io::TimesKind::kServed)) << "nothing was under way";
    begin({0, 100}, 9);
    EXPECT_FALSE(check(now, io::TimesKind::kServed)) << "a write was";
    witness_.end_write({0, 100}, false);
    witness_.begin_resize(10000);
    EXPECT_TRUE(check(now, io::TimesKind::kServed));
    EXPECT_FALSE(check(now)) << "a local file system gives a time";
    now.modified_ns = 1;
    EXPECT_FALSE(check(now, io::TimesKind::kServed)) << "an old time is no missing one";
    now.modified_ns = 0;
    now.changed_ns = rest_.changed_ns - 1;
    EXPECT_FALSE(check(now, io::TimesKind::kServed)) << "the status is older";
    now.changed_ns = kNow + kClocksApartNs + 1;
    EXPECT_FALSE(check(now, io::TimesKind::kServed)) << "the status is much later";
    now.mode ^= 0200;
    EXPECT_FALSE(check(now, io::TimesKind::kServed)) << "a restored file with another mode";
    now.changed_ns = kNow;
    EXPECT_TRUE(check(now, io::TimesKind::kServed));
    EXPECT_FALSE(check(now, io::TimesKind::kLazy)) << "no such file system is known";
}

TEST_F(UntouchedTest, a_write_that_begins_after_its_size_was_set_leaves_it_no_shorter) {
    witness_.begin_resize(30000);
    witness_.end_resize();
    begin({40000, 41000}, 9);
    io::FileState now = rest_;
    now.modified_ns = now.changed_ns = witness_.state().begun_ns + 1;
    now.size = 29999;
    EXPECT_FALSE(check(now));
    now.size = 30000;
    EXPECT_TRUE(check(now)) << "it had not begun";
    arrive({40000, 41000}, 9);
    now.size = 41000;
    EXPECT_TRUE(check(now));
}

TEST_F(UntouchedTest, a_backup_put_back_while_writes_were_under_way_is_seen) {
    begin({0, 10000}, 9);
    io::FileState now = rest_;
    now.changed_ns = witness_.state().begun_ns + 1;
    now.modified_ns = rest_.modified_ns - kSecond;
    EXPECT_FALSE(check(now)) << "older";
    now.modified_ns = rest_.modified_ns + 1;
    EXPECT_FALSE(check(now)) << "its time was set";
}

TEST_F(UntouchedTest, a_local_file_is_written_to_only_when_a_write_has_just_begun) {
    begin({0, 10000}, 9);
    io::FileState now = rest_;
    now.modified_ns = now.changed_ns = witness_.state().begun_ns + kBeginsWithinNs;
    EXPECT_TRUE(check(now)) << "it has its time, and the writer was killed before its first byte";
    EXPECT_FALSE(check(now, io::TimesKind::kServed)) << "a server sets both together";
    now.modified_ns = now.changed_ns = witness_.state().begun_ns + kBeginsWithinNs + 1;
    EXPECT_FALSE(check(now)) << "nothing of it has come";
    arrive({0, 10000}, 9);
    EXPECT_FALSE(check(now));
    now.modified_ns = now.changed_ns = witness_.state().begun_ns + kBeginsWithinNs;
    EXPECT_TRUE(check(now));
    // One of two has waited for the other.
    begin({20000, 20001}, 3);
    now.modified_ns = now.changed_ns = witness_.state().begun_ns + 10 * kSecond;
    now.size = 10000;
    const Death death{witness_.state().begun_ns, false, false, false};
    EXPECT_TRUE(check(now, io::TimesKind::kExact, death));
    arrive({0, 10000}, 4);
    EXPECT_FALSE(check(now, io::TimesKind::kExact, death)) << "nothing of either has come";
}

// Someone who is killed before the first byte of a write leaves what was there; whoever copies another file of the same
// size over it within the 250 ms does not.
TEST_F(UntouchedTest, where_nothing_of_a_write_has_come_all_that_was_there_before_has_to_be) {
    io::FileState now = rest_;
    const auto written_to = [&] { now.modified_ns = now.changed_ns = witness_.state().begun_ns + 1; };
    const auto before = pattern(4096, 1);   // as the target has it
    witness_.saw(0, before, witness_.state().serial);
    begin({0, 10000}, 9);
    written_to();
    EXPECT_TRUE(check(now));
    arrive({0, 10000}, 55);
    EXPECT_FALSE(check(now)) << "before the first write of all";
    arrive({0, 10000}, 9);
    EXPECT_TRUE(check(now)) << "the write";
    witness_.end_write({0, 10000});
    ASSERT_TRUE(witness_.rested(now, witness_.state().serial));
    begin({0, 10000}, 10);
    written_to();
    EXPECT_TRUE(check(now)) << "as it was at rest";
    arrive({0, 10000}, 55);
    EXPECT_FALSE(check(now)) << "after a rest";
    arrive({0, 10000}, 10);
    EXPECT_TRUE(check(now)) << "the next write";
}

TEST_F(UntouchedTest, where_nothing_of_a_write_has_come_it_has_the_size_of_before) {
    begin({10000, 10500}, 9);
    arrive({10000, 10500}, 9);
    witness_.end_write({10000, 10500});
    begin({10500, 20000}, 10);
    io::FileState now = rest_;
    now.modified_ns = now.changed_ns = witness_.state().begun_ns + 1;
    for (const auto& [size, right] : {std::pair{10000, false}, {10500, true}, {10501, false}, {20000, false}}) {
        now.size = size;
        EXPECT_EQ(check(now).is_ok(), right) << size;
    }
    arrive({10500, 15000}, 10);
    now.size = 15000;
    EXPECT_TRUE(check(now)) << "a part of it has come";
    arrive({10500, 20000}, 10);
    witness_.end_write({10500, 20000});
    for (std::uint64_t at = 20000; at < 30000; at += 1000) {   // more than it has samples of
        begin({at, at + 1000}, 11);
        arrive({at, at + 1000}, 11);
        witness_.end_write({at, at + 1000});
    }
    begin({30000, 31000}, 12);
    now.modified_ns = now.changed_ns = witness_.state().begun_ns + 1;
    for (const auto& [size, right] : {std::pair{29999, false}, {30000, true}, {30001, false}, {31000, false}}) {
        now.size = size;
        EXPECT_EQ(check(now).is_ok(), right) << size;
    }
}

TEST_F(UntouchedTest, once_a_write_has_failed_nothing_that_was_written_need_be_there) {
    begin({200, 300}, 8);   // taken by a server that has died before it was on its disk
    witness_.end_write({200, 300});
    begin({0, 100}, 9);
    witness_.end_write({0, 100}, false);
    io::FileState now = rest_;
    now.modified_ns = now.changed_ns = witness_.state().begun_ns;
    const Death death{witness_.state().begun_ns, false, false, false};
    for (const io::TimesKind kind : {io::TimesKind::kExact, io::TimesKind::kServed})
        EXPECT_TRUE(check(now, kind, death));
    EXPECT_TRUE(check(rest_)) << "nothing of it has come";
}

TEST_F(UntouchedTest, what_had_been_written_has_to_be_there_still) {
    for (const io::TimesKind kind : {io::TimesKind::kExact, io::TimesKind::kServed}) {
        begin({0, 100}, 9);
        arrive({0, 100}, 9);
        witness_.end_write({0, 100});
        begin({200, 300}, 10);
        io::FileState now = rest_;
        now.modified_ns = now.changed_ns = witness_.state().begun_ns;
        const Death death{witness_.state().begun_ns, false, false, false};
        EXPECT_TRUE(check(now, kind, death));
        arrive({0, 100}, 11);
        EXPECT_FALSE(check(now, kind, death)) << "another program's bytes";
        begin({50, 60}, 12);
        EXPECT_FALSE(check(now, kind, death)) << "nothing of anything is there";
        arrive({50, 60}, 12);
        EXPECT_TRUE(check(now, kind, death)) << "what came later may have overwritten it";
        witness_.open(io::TimesKind::kExact, rest_);
    }
}

TEST_F(UntouchedTest, where_a_server_keeps_the_times_the_clocks_may_differ) {
    begin({0, 100}, 9);
    arrive({0, 100}, 9);
    const Death death{witness_.state().begun_ns, false, false, false};
    io::FileState now = rest_;
    now.modified_ns = now.changed_ns = death.last_sign_ns + kClocksApartNs;
    EXPECT_TRUE(check(now, io::TimesKind::kServed, death));
    ++now.modified_ns;
    EXPECT_FALSE(check(now, io::TimesKind::kServed, death));
}

TEST_F(UntouchedTest, at_rest_a_server_may_only_move_the_time_of_the_status) {
    io::FileState now = rest_;
    now.changed_ns += kSecond;
    EXPECT_TRUE(check(now, io::TimesKind::kServed));
    now.changed_ns += kClocksApartNs;
    EXPECT_FALSE(check(now, io::TimesKind::kServed));
    now = rest_;
    now.modified_ns += 1;
    EXPECT_FALSE(check(now, io::TimesKind::kServed));
}

TEST_F(UntouchedTest, where_others_write_too_it_must_not_be_older_nor_much_later) {
    witness_.note_external_writers();
    io::FileState now = rest_;
    now.size = 5;
    now.modified_ns = now.changed_ns = kNow + kClocksApartNs;
    EXPECT_TRUE(check(now));
    now.modified_ns = now.changed_ns = kNow + kClocksApartNs + 1;
    EXPECT_FALSE(check(now));
    EXPECT_TRUE(check({5, kNow, now.changed_ns, 1, 1, 0100644, 1, 7, 8}, io::TimesKind::kExact,
                      {kNow, false, false, true}))
        << "another node has brought its part home";
    now.modified_ns = kNow - 1;
    EXPECT_FALSE(check(now));
    now.modified_ns = 0;
    EXPECT_FALSE(check(now));
    now.changed_ns = kNow;
    EXPECT_TRUE(check(now, io::TimesKind::kServed)) << "another process has set the size";
    EXPECT_FALSE(check(now, io::TimesKind::kServed, {kNow, false, false, true})) << "other nodes move the ctime";
}

TEST_F(UntouchedTest, late_times_may_follow_the_end_of_the_last_write) {
    io::FileState now = rest_;
    now.modified_ns = now.changed_ns = kNow + kSecond;
    EXPECT_TRUE(check(now, io::TimesKind::kLazy));
    now.modified_ns = kNow - 1;
    EXPECT_FALSE(check(now, io::TimesKind::kLazy));
    now.modified_ns = kNow + kClocksApartNs + 1;
    EXPECT_FALSE(check(now, io::TimesKind::kLazy));
}

TEST_F(UntouchedTest, after_a_restart_times_may_be_lost_but_not_be_later) {
    io::FileState now = rest_;
    now.size = 9;
    now.modified_ns = now.changed_ns = kNow - 100 * kSecond;
    const Death death{kNow, false, true, false};
    EXPECT_TRUE(check(now, io::TimesKind::kExact, death));
    now.changed_ns = kNow + kClocksApartNs + 1;
    EXPECT_FALSE(check(now, io::TimesKind::kExact, death)) << "a backup put back with its time";
}

}   // namespace
}   // namespace forebay::recover
