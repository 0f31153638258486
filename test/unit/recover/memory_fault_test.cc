// No memory: the Nth allocation of a recovery fails, for N = 1, 2, ... until none does. The next recovery does all of
// it. Includes the operators that fail for the whole test program.
#include <gtest/gtest.h>

#include "recover/file_lock.h"
#include "support/failing_allocations.h"
#include "support/no_thread.h"
#include "support/recovery_fixture.h"
#include "support/seeds.h"

namespace forebay::recover {
namespace {

using test::bytes_of;
using test::Crash;
using test::LeftBehind;
using test::RecoveryTest;
using test::same;

class MemoryFault : public RecoveryTest {
  protected:
    // What it did, or nothing: it had no memory.
    std::optional<Report> recover_without(long nth, Crash& crash, bool& hit, const Request& request = {}) {
        std::optional<Report> done;
        auto outside = crash.outside();
        if (alone_) outside.start_thread = test::no_thread;
        io::Directory* const areas[] = {&crash.area()};
        test::failing_for_ever = for_ever_;
        {
            const test::FailingAllocation failing(nth);
            try {
                auto report = recover::recover(areas, request, outside);
                hit = test::allocations_until_failure <= 0;
                if (report) done = std::move(report).value();
            } catch (const std::bad_alloc&) {
                hit = true;
            }
        }
        test::failing_for_ever = false;
        return done;
    }
    // With one thread the Nth allocation is always the same one; with two, the second may be the one that has no
    // memory.
    void each(Crash& ground, const std::vector<std::byte>& expected) {
        for (const bool alone : {true, false}) {
            alone_ = alone;
            each_allocation(ground, expected);
        }
    }
    void each_allocation(Crash& ground, const std::vector<std::byte>& expected) {
        for (for_ever_ = false;; for_ever_ = true) {
            bool hit = true;
            long nth = 0;
            while (hit) {
                nth += test::kEachNth;
                SCOPED_TRACE(testing::Message() << "allocation " << nth << (for_ever_ ? " and all later ones" : ""));
                Crash crash(ground);
                const auto report = recover_without(nth, crash, hit);
                if (report && report->all_well() && !report->files.empty()) {
                    EXPECT_TRUE(same(crash.contents(), expected));
                }
                const auto again = crash.recover();
                ASSERT_TRUE(again) << again.status().message();
                EXPECT_TRUE(again.value().all_well());
                EXPECT_TRUE(crash.left().empty());
                ASSERT_TRUE(same(crash.contents(), expected));
                ASSERT_LT(nth, 20'000);
            }
            EXPECT_GT(nth, 50);
            if (for_ever_) return;
        }
    }
    bool for_ever_ = false, alone_ = false;
};

TEST_F(MemoryFault, of_the_recovery_of_a_file_of_one_process) {
    LeftBehind& dead = process();
    auto& log = dead.open(1, 4000);
    dead.mark(log, log::RecordKind::kTruncate, 1000);
    dead.write(log, 2000, bytes_of(40'000, 1));
    dead.adopt(log);
    for (std::uint64_t i = 0; i < 20; ++i) dead.write(log, 700 * i, bytes_of(100, i), log::DataClass::kMetadata);
    dead.commit(log, 42'000);
    dead.write(log, 0, bytes_of(100, 3));
    Crash ground = crash(bytes_of(4000, 2));
    Crash whole(ground);
    (void)whole.recovered();
    each(ground, whole.contents());
}

TEST_F(MemoryFault, of_the_recovery_of_a_file_of_several_processes) {
    const log::Sharing shared{log::Sharing::Kind::kOneNode, 77};
    LeftBehind& drainer = process(100);
    LeftBehind& other = process(101);
    auto& first = drainer.open(1, 0, shared);
    auto& second = other.open(1, 0, shared);
    for (std::uint64_t i = 0; i < 5; ++i) {
        drainer.write(first, 1000 * i, bytes_of(500, i));
        other.write(second, 1000 * i + 300, bytes_of(500, 10 + i));
    }
    drainer.commit(first, 5000);
    drainer.board(77, {drainer.process, other.process});
    Crash ground = crash();
    Crash whole(ground);
    (void)whole.recovered();
    each(ground, whole.contents());
}

TEST_F(MemoryFault, of_taking_the_lock_of_a_file) {
    io::Directory* const areas[] = {area_.get()};
    bool hit = true;
    long nth = 0;
    while (hit) {
        const test::FailingAllocation failing(++nth);
        try {
            const auto lock = FileLock::take(areas, {7, 1}, io::Directory::Patience::kTry);
            hit = !lock;
        } catch (const std::bad_alloc&) {
        }
    }
    EXPECT_GT(nth, 3);
    EXPECT_TRUE(FileLock::take(areas, {7, 1}, io::Directory::Patience::kTry)) << "nobody holds it";
    remove_dead_file_locks(*area_);
    EXPECT_TRUE(area_->list().value().empty());
}

}   // namespace
}   // namespace forebay::recover
