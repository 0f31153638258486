// Option patience: a target that takes nothing is waited for so long, one that is slow for as long as it takes.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "support/crash.h"
#include "support/engine_fixture.h"
#include "support/jumping_clock.h"
#include "support/left_threads.h"

namespace forebay {
namespace {

using io::FaultPlan;
using io::Operation;
using stage::ByteClass;
using test::Area;
using test::Target;
using Content = std::vector<std::byte>;
using namespace std::chrono_literals;

// The time of the engine passes only while a call of the target hangs.
class Patience : public testing::Test {
  protected:
    static constexpr std::chrono::seconds kPatience{10};

    Patience() {
        test::left_on_purpose = true;
        options_ = test::small_options();
        options_.options.patience = kPatience.count();
    }
    ~Patience() override { plan_->let_go(); }   // before an engine that waits for ever is destroyed

    void start() { engine_ = stage::Engine::create(options_, area_.opener(), clock_); }
    // The engine finds often that work waits for a thread, and never that its patience is over.
    void in_short_jumps() {
        options_.options.patience = 31'536'000;
        clock_ = std::make_shared<test::JumpingClock>([plan = plan_] { return plan->hanging(); }, 1s);
    }
    // A call that was given up returns, and its thread goes on for a moment, in what is left of the engine. Nothing
    // tells when it has come to its end.
    void let_return() {
        const std::uint64_t looks = clock_->looks();
        plan_->let_go();
        EXPECT_TRUE(clock_->await_look(looks)) << "the thread notes when the call has returned";
        std::this_thread::sleep_for(10ms);
    }
    static void expect_timed_out(const Status& status, const std::string& bytes) {
        EXPECT_EQ(status.sys_errno(), ETIMEDOUT) << status.message();
        EXPECT_NE(status.message().find("/scratch/run.h5"), std::string::npos) << status.message();
        EXPECT_NE(status.message().find(bytes + " bytes"), std::string::npos) << status.message();
        EXPECT_NE(status.message().find("forebay recover"), std::string::npos) << status.message();
    }
    template <class Act>
    Status lasting(std::chrono::nanoseconds least, Act&& act) {
        const auto begin = clock_->passed();
        const Status status = act();
        EXPECT_GE(clock_->passed() - begin, least);
        return status;
    }

    LoadedOptions options_;
    Area area_;
    Target target_, other_target_{2};
    std::shared_ptr<FaultPlan> plan_ = std::make_shared<FaultPlan>();
    std::shared_ptr<test::JumpingClock> clock_ = std::make_shared<test::JumpingClock>([plan = plan_] {
        return plan->hanging();
    });
    std::unique_ptr<stage::Engine> engine_;
};

TEST_F(Patience, a_close_gives_up_and_the_log_keeps_everything) {
    start();
    const auto file = test::attach(*engine_, target_, true, plan_);
    const Content bytes = test::bytes_of(200'000, 1);
    plan_->hang(Operation::kWrite);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kRaw));
    ASSERT_TRUE(file->write(bytes.size(), bytes, ByteClass::kMetadata));
    expect_timed_out(lasting(kPatience, [&] { return engine_->detach(file, true); }), "400000");
    EXPECT_TRUE(test::same(test::read(*file, 0, bytes.size()), bytes));
    EXPECT_EQ(file->write(0, bytes, ByteClass::kRaw).sys_errno(), EBADF);
    // The engine ends while the thread is stuck.
    engine_.reset();

    test::Crash crash(*area_.shared_open(), [&] { return target_.contents(); }, target_.identity());
    ASSERT_TRUE(crash.recover());
    Content both = bytes;
    both.insert(both.end(), bytes.begin(), bytes.end());
    EXPECT_TRUE(test::same(crash.contents(), both));
    // The write comes to its end after all, and touches only what is still there.
    let_return();
}

// One thread is stuck, and the rest of the file waits for it.
TEST_F(Patience, after_a_close_that_gave_up_no_write_begins) {
    options_.options.drain_threads = 1;
    options_.options.write_max = 16 << 10;
    start();
    const auto file = test::attach(*engine_, target_, true, plan_);
    plan_->hang(Operation::kWrite);
    for (std::uint64_t i = 0; i < 10; ++i)
        ASSERT_TRUE(file->write(i * 16'384, test::bytes_of(16'384, i), ByteClass::kMetadata));
    expect_timed_out(engine_->detach(file, true), "163840");
    plan_->let_go();
    engine_->await_rest();
    EXPECT_GE(target_.contents().size(), 16'384u) << "the one that was stuck";
    EXPECT_LE(target_.contents().size(), 2u * 16'384) << "and one of a thread that came to help";
}

// Small pieces go a MiB at a time.
TEST_F(Patience, after_a_close_that_gave_up_a_write_of_small_pieces_goes_no_further) {
    constexpr std::uint64_t kMiB = 1 << 20, kPieces = 1000;
    options_.options.size = 64 * kMiB;
    options_.options.segment = kMiB;
    options_.options.stripe = options_.options.write_max = 8 * kMiB;
    start();
    const auto file = test::attach(*engine_, target_, true, plan_);
    plan_->hang(Operation::kWrite);
    for (std::uint64_t i = 0; i < kPieces; ++i)
        ASSERT_TRUE(file->write(i * 4096, test::bytes_of(4096, i), ByteClass::kMetadata));
    expect_timed_out(engine_->detach(file, true), "4096000");
    plan_->let_go();
    engine_->await_rest();
    EXPECT_EQ(target_.contents().size(), kMiB) << "the one that was stuck";
}

TEST_F(Patience, a_flush_that_drains_gives_up_and_succeeds_once_the_target_is_back) {
    options_.options.flush = OnFlush::kDrain;
    start();
    const auto file = test::attach(*engine_, target_, true, plan_);
    const Content bytes = test::bytes_of(100'000, 1);
    plan_->hang(Operation::kWrite);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kRaw));
    expect_timed_out(lasting(kPatience, [&] { return file->commit(); }), "100000");
    plan_->let_go();
    EXPECT_TRUE(file->commit());
    EXPECT_TRUE(test::same(target_.contents(), bytes));
    EXPECT_TRUE(engine_->detach(file, true));
}

TEST_F(Patience, a_write_that_waits_for_room_gives_up_and_the_file_goes_on) {
    options_.options.size = 256 << 10;
    start();
    const auto file = test::attach(*engine_, target_, true, plan_);
    plan_->hang(Operation::kWrite);
    const Content bytes = test::bytes_of(50'000, 1);
    Content now;
    Status status;
    for (int i = 0; i < 20 && status; ++i) {
        status = file->write(now.size(), bytes, ByteClass::kRaw);
        if (status) now.insert(now.end(), bytes.begin(), bytes.end());
    }
    EXPECT_EQ(status.sys_errno(), ETIMEDOUT) << status.message();
    EXPECT_NE(status.message().find("the staging log is full"), std::string::npos) << status.message();
    EXPECT_TRUE(test::same(test::read(*file, 0, now.size()), now));
    plan_->let_go();
    ASSERT_TRUE(file->write(now.size(), bytes, ByteClass::kRaw));
    now.insert(now.end(), bytes.begin(), bytes.end());
    ASSERT_TRUE(engine_->detach(file, true));
    EXPECT_TRUE(test::same(target_.contents(), now));
}

TEST_F(Patience, a_size_that_is_never_set_is_given_up_as_well) {
    start();
    const auto file = test::attach(*engine_, target_, true, plan_);
    ASSERT_TRUE(file->write(0, test::bytes_of(1000, 1), ByteClass::kRaw));
    ASSERT_TRUE(file->truncate(5000));
    plan_->hang(Operation::kResize);
    const Status closed = lasting(kPatience, [&] { return engine_->detach(file, true); });
    EXPECT_EQ(closed.sys_errno(), ETIMEDOUT) << closed.message();
    engine_.reset();
    let_return();
}

// With durability=node. The first commit syncs the target, since whoever opened it may have emptied it.
TEST_F(Patience, a_sync_that_never_returns_is_given_up_and_the_file_goes_on) {
    options_.options.durability = Durability::kNode;
    start();
    const auto file = test::attach(*engine_, target_, true, plan_);
    const Content bytes = test::bytes_of(100'000, 1);
    plan_->hang(Operation::kSync);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kMetadata));
    expect_timed_out(lasting(kPatience, [&] { return file->commit(); }), "100000");
    EXPECT_TRUE(test::same(test::read(*file, 0, bytes.size()), bytes));
    plan_->let_go();
    EXPECT_TRUE(file->commit());
    ASSERT_TRUE(engine_->detach(file, true));
    EXPECT_TRUE(test::same(target_.contents(), bytes));
}

TEST_F(Patience, a_close_whose_sync_never_returns_leaves_everything_in_the_log) {
    options_.options.durability = Durability::kNode;
    start();
    const auto file = test::attach(*engine_, target_, true, plan_);
    const Content bytes = test::bytes_of(100'000, 1);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kRaw));
    ASSERT_TRUE(file->commit());
    plan_->hang(Operation::kSync);
    EXPECT_EQ(lasting(kPatience, [&] { return engine_->detach(file, true); }).sys_errno(), ETIMEDOUT);
    engine_.reset();
    EXPECT_EQ(area_.left().size(), 1u) << "what may not be on the device is in the log still";
    test::Crash crash(*area_.shared_open(), [&] { return target_.contents(); }, target_.identity());
    ASSERT_TRUE(crash.recover());
    EXPECT_TRUE(test::same(crash.contents(), bytes));
    let_return();
}

TEST_F(Patience, a_write_that_waits_for_room_gives_up_a_sync_too) {
    options_.options.durability = Durability::kNode;
    options_.options.size = 256 << 10;
    start();
    const auto file = test::attach(*engine_, target_, true, plan_);
    ASSERT_TRUE(file->commit());
    plan_->hang(Operation::kSync);
    const Content bytes = test::bytes_of(50'000, 1);
    Content now;
    Status status;
    for (int i = 0; i < 20 && status; ++i) {
        status = file->write(now.size(), bytes, ByteClass::kRaw);
        if (status) now.insert(now.end(), bytes.begin(), bytes.end());
    }
    EXPECT_EQ(status.sys_errno(), ETIMEDOUT) << status.message();
    EXPECT_NE(status.message().find("the staging log is full"), std::string::npos) << status.message();
    EXPECT_TRUE(test::same(test::read(*file, 0, now.size()), now));
    plan_->let_go();
    ASSERT_TRUE(file->write(now.size(), bytes, ByteClass::kRaw));
    now.insert(now.end(), bytes.begin(), bytes.end());
    ASSERT_TRUE(engine_->detach(file, true));
    EXPECT_TRUE(test::same(target_.contents(), now));
}

// The system tells once that a sync has failed, and whoever asked for this one has gone.
TEST_F(Patience, the_failure_of_a_sync_that_was_given_up_is_not_forgotten) {
    options_.options.durability = Durability::kNode;
    start();
    const auto file = test::attach(*engine_, target_, true, plan_);
    ASSERT_TRUE(file->write(0, test::bytes_of(1000, 1), ByteClass::kRaw));
    plan_->fail(Operation::kSync, 1, 1, EIO);
    plan_->hang(Operation::kSync);
    EXPECT_EQ(lasting(kPatience, [&] { return file->commit(); }).sys_errno(), ETIMEDOUT);
    plan_->let_go();
    const Status told = file->commit();
    EXPECT_EQ(told.sys_errno(), EIO) << told.message();
    EXPECT_EQ(engine_->detach(file, true).sys_errno(), EIO);
}

// The open may have emptied the target, so the first commit promises that the target is on its device.
TEST_F(Patience, a_flush_counts_on_no_sync_that_another_thread_has_only_begun) {
    options_.options.durability = Durability::kNode;
    clock_ = std::make_shared<test::JumpingClock>([plan = plan_, flushing = std::this_thread::get_id()] {
        return plan->hanging() && std::this_thread::get_id() == flushing;
    });
    start();
    const auto file = test::attach(*engine_, target_, true, plan_);
    const Content bytes = test::bytes_of(300'000, 1);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kRaw));
    ASSERT_TRUE(file->drain());
    plan_->hang(Operation::kSync);
    std::thread in_want_of_room([&] { (void)file->log().drain_for_room(); });
    EXPECT_TRUE(plan_->await_hanging());
    ASSERT_TRUE(file->write(bytes.size(), bytes, ByteClass::kRaw));
    EXPECT_EQ(file->commit().sys_errno(), ETIMEDOUT);
    plan_->let_go();
    in_want_of_room.join();
    EXPECT_TRUE(file->commit());
    ASSERT_TRUE(engine_->detach(file, true));
    EXPECT_EQ(target_.contents().size(), 2 * bytes.size());
}

// All drain threads are in writes of one file.
TEST_F(Patience, a_file_whose_target_hangs_does_not_keep_the_others_from_theirs) {
    for (const std::uint64_t threads : {1u, 3u}) {
        SCOPED_TRACE(threads);
        options_.options.drain_threads = threads;
        in_short_jumps();
        start();
        Target mine, theirs(2);
        const auto hanging = test::attach(*engine_, mine, true, plan_), other = test::attach(*engine_, theirs);
        // So fast a target that several writes are in flight, before it hangs.
        const Content much = test::bytes_of(1 << 20, 1), bytes = test::bytes_of(100'000, 2);
        ASSERT_TRUE(hanging->write(0, much, ByteClass::kRaw));
        ASSERT_TRUE(hanging->drain());
        plan_->hang(Operation::kWrite);
        for (std::size_t at = 0; at < much.size(); at += 64 << 10)   // large ones would go straight to so fast a target
            ASSERT_TRUE(hanging->write(at, io::Bytes(much).subspan(at, 64 << 10), ByteClass::kRaw));
        ASSERT_TRUE(hanging->commit());
        ASSERT_TRUE(plan_->await_hanging());
        ASSERT_TRUE(other->write(0, bytes, ByteClass::kRaw));
        ASSERT_TRUE(engine_->detach(other, true));
        EXPECT_TRUE(test::same(theirs.contents(), bytes));
        plan_->let_go();
        ASSERT_TRUE(engine_->detach(hanging, true));
        EXPECT_TRUE(test::same(mine.contents(), much));
        engine_.reset();
    }
}

TEST_F(Patience, many_files_whose_targets_hang_do_not_keep_another_one_from_its_own) {
    options_.options.drain_threads = 1;
    in_short_jumps();
    start();
    constexpr std::uint64_t kHanging = 4;   // the thread that is added for the last file meets them first
    std::vector<std::unique_ptr<Target>> targets;
    std::vector<std::shared_ptr<stage::StagedFile>> files;
    const Content bytes = test::bytes_of(30'000, 1);
    plan_->hang(Operation::kWrite);
    for (std::uint64_t i = 0; i < kHanging; ++i) {
        targets.push_back(std::make_unique<Target>(10 + i));
        files.push_back(test::attach(*engine_, *targets.back(), true, plan_));
        ASSERT_TRUE(files.back()->write(0, bytes, ByteClass::kMetadata));
        ASSERT_TRUE(files.back()->commit());
    }
    const auto other = test::attach(*engine_, other_target_, true);
    ASSERT_TRUE(other->write(0, bytes, ByteClass::kRaw));
    ASSERT_TRUE(engine_->detach(other, true));
    EXPECT_TRUE(test::same(other_target_.contents(), bytes));
    plan_->let_go();
    for (const auto& file : files) EXPECT_TRUE(engine_->detach(file, true));
    for (const auto& target : targets) EXPECT_TRUE(test::same(target->contents(), bytes));
}

TEST_F(Patience, a_slow_target_that_takes_something_now_and_then_is_waited_for) {
    options_.options.write_max = 16 << 10;
    options_.options.drain_threads = 1;   // one write at a time
    clock_ = std::make_shared<test::JumpingClock>([] { return false; });
    start();
    const auto file = test::attach(*engine_, target_, true, plan_);
    constexpr std::uint64_t kWrites = 7;
    const Content bytes = test::bytes_of(kWrites * 16'384, 1);
    ASSERT_TRUE(file->write(0, bytes, ByteClass::kMetadata));
    plan_->hang(Operation::kWrite);
    std::jthread slow([&] {
        for (std::uint64_t i = 0; i < kWrites; ++i) {
            EXPECT_TRUE(plan_->await_hanging());
            // Long, and less than patience; all of them together take much longer than that.
            clock_->advance(kPatience * 2 / 3);
            EXPECT_TRUE(clock_->await_look(clock_->looks() + 1)) << "the close looks whether it has lasted too long";
            plan_->let_one_go();
        }
        plan_->let_go();
    });
    EXPECT_TRUE(lasting(4 * kPatience, [&] { return engine_->detach(file, true); }));
    EXPECT_TRUE(test::same(target_.contents(), bytes));
}

TEST_F(Patience, without_end_the_close_waits) {
    options_.options.patience = 0;
    start();
    const auto file = test::attach(*engine_, target_, true, plan_);
    ASSERT_TRUE(file->write(0, test::bytes_of(1000, 1), ByteClass::kRaw));
    plan_->hang(Operation::kWrite);
    std::atomic<bool> returns{false};
    std::jthread later([&] {
        EXPECT_TRUE(plan_->await_hanging());
        clock_->advance(std::chrono::hours(24 * 365));
        std::this_thread::sleep_for(20ms);   // a close that had an end would see by now that it has come
        returns = true;
        plan_->let_go();
    });
    EXPECT_TRUE(engine_->detach(file, true));
    EXPECT_TRUE(returns);
}

}   // namespace
}   // namespace forebay
