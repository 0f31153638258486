// The outflow of a file, without a staged file: the index is filled by hand, and a listener notes what it is told.
#include "drain/outflow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "io/fault_file.h"
#include "io/memory_file.h"
#include "log/file_log.h"
#include "support/failing_allocations.h"
#include "support/noting_listener.h"

namespace forebay::drain {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint64_t kSegment = std::uint64_t{1} << 20;

class OutflowTest : public ::testing::Test {
  protected:
    explicit OutflowTest(OnError on_error = OnError::kFail)
        : options_([on_error] {
              Options options;
              options.on_error = on_error;
              return options;
          }()),
          directory_(io::make_memory_directory("area")),
          pool_(std::move(directory_->open_file("log", io::OpenMode::kCreateNew)).value(),
                log::PoolLimits{16 * kSegment, kSegment, 0}, {42, 4711, {}}),
          log_(pool_, 5, {1, 2, "/scratch/run.h5"}, false),
          outflow_({options_, *scheduler_, progress_}, bytes_, listener_, path_) {
        target_ = io::make_fault_file(io::make_memory_file("target"), faults_);
        const LockGuard lock(outflow_.state.mutex);
        outflow_.state.open(target_, {.local = true, .may_hang = false, .page_cache = true}, 0, 0);
    }

    // Its thread looks at the bytes until it has ended.
    ~OutflowTest() override { scheduler_.reset(); }

    // Stages `size` bytes of `value` as the newest record, free to drain.
    void stage(std::uint64_t offset, std::size_t size, char value) {
        const std::vector<std::byte> bytes(size, static_cast<std::byte>(value));
        log::Segment* const segment = log_.acquire().value();
        log_.adopt(segment, {}, sequence_++);
        const auto at = log_.append_data(offset, bytes, log::DataClass::kRaw, sequence_, 0);
        const LockGuard lock(outflow_.state.mutex);
        bytes_.index().insert({offset, offset + size},
                              {at.segment, at.offset, sequence_, static_cast<std::uint32_t>(at.segment->generation())},
                              0, 0);
        ++sequence_;
    }
    std::string read(std::uint64_t offset, std::size_t size) {
        std::string bytes(size, '\0');
        EXPECT_TRUE(target_->read_at(offset, std::as_writable_bytes(std::span(bytes))));
        return bytes;
    }
    [[nodiscard]] std::uint64_t ready_bytes() {
        const LockGuard lock(outflow_.state.mutex);
        return bytes_.ready_bytes();
    }
    Status drain() {
        const LockGuard lock(outflow_.state.mutex);
        return outflow_.drain();
    }

    const Options options_;
    std::unique_ptr<Scheduler> scheduler_ = std::make_unique<Scheduler>(1);
    Progress progress_{std::make_shared<WaitClock>()};
    const std::string path_ = "/parallel/run.h5";
    const std::shared_ptr<io::FaultPlan> faults_ = std::make_shared<io::FaultPlan>();
    std::unique_ptr<io::Directory> directory_;
    log::SegmentPool pool_;
    log::FileLog log_;
    std::shared_ptr<io::File> target_;
    index::StagedBytes bytes_;
    test::NotingListener listener_{bytes_};
    Outflow outflow_;
    std::uint64_t sequence_ = 1;
};

TEST_F(OutflowTest, pieces_that_adjoin_reach_the_target_in_one_write) {
    stage(0, 1000, 'a');
    stage(1000, 500, 'b');
    ASSERT_TRUE(drain());
    EXPECT_THAT(listener_.written_, ElementsAre(ByteRange{0, 1500}));
    EXPECT_THAT(listener_.ranges_reached(), ElementsAre(ByteRange{0, 1500}));
    EXPECT_EQ(read(0, 1500), std::string(1000, 'a') + std::string(500, 'b'));
    EXPECT_EQ(ready_bytes(), 0u);
}

TEST_F(OutflowTest, newer_bytes_wait_for_the_write_of_older_ones_in_flight) {
    stage(0, 1000, 'a');
    {
        const LockGuard lock(outflow_.state.mutex);
        outflow_.state.planner.hurry();
    }
    const WorkSource::Taken first = outflow_.take();
    ASSERT_TRUE(first);
    stage(500, 100, 'b');
    EXPECT_FALSE(outflow_.take()) << "it would race with the write of the older bytes";
    first.work->run();
    ASSERT_TRUE(drain());
    EXPECT_EQ(read(499, 102), "a" + std::string(100, 'b') + "a");
    EXPECT_EQ(ready_bytes(), 0u);
}

TEST_F(OutflowTest, a_segment_is_pinned_while_its_bytes_are_being_written) {
    stage(0, 1000, 'a');
    {
        const LockGuard lock(outflow_.state.mutex);
        outflow_.state.planner.hurry();
    }
    log::Segment* const segment = log_.segments().newest();
    const WorkSource::Taken taken = outflow_.take();
    ASSERT_TRUE(taken);
    EXPECT_EQ(segment->pins, 1u);
    taken.work->run();
    EXPECT_EQ(segment->pins, 0u);
    EXPECT_TRUE(segment->idle());
}

TEST_F(OutflowTest, after_a_failure_everything_stays_staged_until_it_is_tried_again) {
    stage(0, 1000, 'a');
    faults_->fail(io::Operation::kWrite, 1, 1000, ENOSPC);
    EXPECT_EQ(drain().sys_errno(), ENOSPC);
    EXPECT_TRUE(listener_.halted_);
    EXPECT_EQ(listener_.error_, ENOSPC);
    EXPECT_EQ(ready_bytes(), 1000u);
    EXPECT_THAT(listener_.ranges_reached(), IsEmpty());
    faults_->clear();
    {
        const LockGuard lock(outflow_.state.mutex);
        outflow_.make_good();
    }
    EXPECT_EQ(listener_.error_, 0);
    EXPECT_EQ(read(0, 1000), std::string(1000, 'a'));
    EXPECT_TRUE(drain());
}

TEST_F(OutflowTest, what_waits_for_a_thread_is_not_written_once_the_file_is_given_up) {
    stage(0, 1000, 'a');
    {
        const LockGuard lock(outflow_.state.mutex);
        outflow_.state.planner.hurry();
    }
    const WorkSource::Taken taken = outflow_.take();
    ASSERT_TRUE(taken);
    listener_.given_up_ = true;
    taken.work->run();
    EXPECT_THAT(listener_.ranges_reached(), IsEmpty());
    EXPECT_EQ(ready_bytes(), 1000u);
}

TEST_F(OutflowTest, a_paused_drain_takes_nothing_until_it_is_resumed) {
    stage(0, 2 << 20, 'a');
    {
        const LockGuard lock(outflow_.state.mutex);
        outflow_.state.planner.pause();
    }
    EXPECT_FALSE(outflow_.take());
    {
        const LockGuard lock(outflow_.state.mutex);
        EXPECT_TRUE(outflow_.state.planner.resume());
    }
    EXPECT_TRUE(outflow_.take());
}

TEST_F(OutflowTest, a_short_run_waits_for_neighbours_until_everything_is_to_go) {
    stage(0, 1000, 'a');
    EXPECT_FALSE(outflow_.take());
    {
        const LockGuard lock(outflow_.state.mutex);
        const auto wanted = outflow_.state.planner.drain_for_room();
        EXPECT_TRUE(wanted.wants_thread);
        EXPECT_TRUE(wanted.under_way);
    }
    EXPECT_TRUE(outflow_.take());
}

TEST_F(OutflowTest, bytes_behind_a_cut_wait_until_the_target_is_cut) {
    stage(0, 1000, 'a');
    ASSERT_TRUE(drain());
    {
        const LockGuard lock(outflow_.state.mutex);
        listener_.logical_size_ = listener_.committed_size_ = 400;
        EXPECT_TRUE(outflow_.committed());
        EXPECT_EQ(outflow_.state.target.cut_due(), 400u);
    }
    stage(500, 100, 'b');
    ASSERT_TRUE(drain());
    EXPECT_EQ(read(0, 600), std::string(400, 'a') + std::string(100, '\0') + std::string(100, 'b'));
}

TEST_F(OutflowTest, a_write_that_bypasses_the_log_waits_for_the_one_in_flight) {
    stage(0, 1000, 'a');
    {
        const LockGuard lock(outflow_.state.mutex);
        outflow_.state.planner.hurry();
    }
    const WorkSource::Taken taken = outflow_.take();
    ASSERT_TRUE(taken);
    std::thread drainer([&] { taken.work->run(); });
    const std::vector<std::byte> bytes(100, std::byte{'b'});
    {
        const LockGuard lock(outflow_.state.mutex);
        const auto call = outflow_.bypass.begin(500, bytes);
        ASSERT_TRUE(call);
        EXPECT_EQ(listener_.written_.size(), 1u);
        outflow_.bypass.end({500, 600}, call.value(), Status::ok());
        EXPECT_TRUE(outflow_.state.queue.idle());
        EXPECT_TRUE(outflow_.state.facts.unsynced());
    }
    drainer.join();
}

TEST_F(OutflowTest, a_target_is_unsynced_until_a_sync_that_began_later_has_succeeded) {
    const TargetFacts& facts = outflow_.state.facts;
    const auto sync = [this] {
        const LockGuard lock(outflow_.state.mutex);
        return outflow_.syncs.sync();
    };
    EXPECT_TRUE(facts.unsynced()) << "its open may have emptied it";
    for (const bool bypassed : {true, false}) {
        faults_->hang(io::Operation::kSync);
        Status synced;
        std::thread syncing([&] { synced = sync(); });
        EXPECT_TRUE(faults_->await_hanging());
        EXPECT_TRUE(facts.unsynced()) << "it may fail yet";
        if (bypassed) outflow_.state.facts.note_unsynced();
        faults_->let_go();
        syncing.join();
        EXPECT_TRUE(synced) << synced.message();
        EXPECT_EQ(facts.unsynced(), bypassed);
    }
    outflow_.state.facts.note_unsynced();
    faults_->fail(io::Operation::kSync, 1, 1, EIO);
    EXPECT_EQ(sync().sys_errno(), EIO);
    EXPECT_TRUE(facts.unsynced());
}

// The system reports a loss to one of two syncs.
TEST_F(OutflowTest, a_sync_waits_for_that_of_another_thread_and_tells_its_failure) {
    faults_->fail(io::Operation::kSync, 1, 1, EIO);
    faults_->hang(io::Operation::kSync);
    Status first, second;
    std::thread one([&] {
        const LockGuard lock(outflow_.state.mutex);
        first = outflow_.syncs.sync();
    });
    EXPECT_TRUE(faults_->await_hanging());
    std::promise<std::shared_ptr<AwaitedCall>> in_flight;
    std::thread other([&] {
        const LockGuard lock(outflow_.state.mutex);
        in_flight.set_value(outflow_.state.arrivals.sync());
        second = outflow_.syncs.sync();
    });
    {
        const auto call = in_flight.get_future().get();
        const LockGuard lock(outflow_.state.mutex);   // once the other thread waits
        EXPECT_EQ(outflow_.state.arrivals.sync(), call);
    }
    faults_->let_go();
    one.join();
    other.join();
    EXPECT_EQ(first.sys_errno(), EIO) << first.message();
    EXPECT_EQ(second.sys_errno(), EIO) << second.message();
}

// A flush drains in its own thread. A write that stayed planned would be in flight for ever.
TEST_F(OutflowTest, a_drain_without_memory_leaves_no_planned_write_behind) {
    const auto stage_some = [&] {
        for (const std::uint64_t offset : {0, 5000, 10000}) stage(offset, 1000, 'a');
    };
    stage_some();
    long allocations = 0;
    {
        const LockGuard lock(outflow_.state.mutex);
        outflow_.state.planner.demand_all();
    }
    {
        const test::CountedAllocations counted;
        const WorkSource::Taken taken = outflow_.take();
        allocations = counted.count();
        ASSERT_TRUE(taken);
        taken.work->run();
    }
    ASSERT_TRUE(drain());
    ASSERT_GT(allocations, 3);
    long thrown = 0;
    for (long nth = 1; nth <= allocations; ++nth) {
        SCOPED_TRACE(testing::Message() << "allocation " << nth);
        stage_some();
        const LockGuard lock(outflow_.state.mutex);
        try {
            const test::FailingAllocation failing(nth);
            (void)outflow_.drain();
        } catch (const std::bad_alloc&) {
            ++thrown;
            EXPECT_TRUE(outflow_.state.queue.planned().empty());
            EXPECT_TRUE(outflow_.state.queue.idle()) << "a write that bypasses the log would wait for ever";
        }
        outflow_.make_good();   // if the write itself lacked memory
        ASSERT_TRUE(outflow_.drain());
        EXPECT_EQ(bytes_.ready_bytes(), 0u);
        log_.segments().release_all();   // the log is small
    }
    EXPECT_GT(thrown, 3);
}

// A writer without room waits for this file. It would wait for ever, as no write ends.
TEST_F(OutflowTest, a_drain_thread_without_memory_pauses_and_tells_the_writers_that_wait) {
    stage(0, 1000, 'a');
    {
        const LockGuard lock(outflow_.state.mutex);
        outflow_.state.planner.demand_all();
    }
    for (int times = 1; times <= 2; ++times) {
        bool thrown = false;
        try {
            const test::FailingAllocation failing(1);
            (void)outflow_.take();
        } catch (const std::bad_alloc&) {
            thrown = true;
        }
        EXPECT_TRUE(thrown);
        EXPECT_EQ(listener_.rests_, times);
        EXPECT_EQ(listener_.pauses_, times);
        const LockGuard lock(outflow_.state.mutex);
        EXPECT_TRUE(outflow_.state.pausing()) << "the writer tries again after a pause, not at once";
        EXPECT_TRUE(outflow_.state.planner.drain_for_room().wants_thread);
    }
    ASSERT_TRUE(drain());
    EXPECT_EQ(read(0, 1000), std::string(1000, 'a'));
}

TEST_F(OutflowTest, a_writer_that_wants_room_without_memory_leaves_no_planned_write_behind) {
    for (const std::uint64_t offset : {0, 5000, 10000}) stage(offset, 1000, 'a');
    const LockGuard lock(outflow_.state.mutex);
    outflow_.state.failures.add_unreadable({{20000, 20001}});
    long thrown = 0;
    for (bool failed = true; failed;) {
        failed = false;
        try {
            const test::FailingAllocation failing(thrown + 1);
            (void)outflow_.state.planner.drain_for_room();
        } catch (const std::bad_alloc&) {
            failed = true;
            ++thrown;
            EXPECT_TRUE(outflow_.state.queue.idle());
        }
    }
    EXPECT_GT(thrown, 3);
    EXPECT_EQ(outflow_.state.queue.planned().size(), 3u);
    outflow_.state.failures.clear_unreadable();
    EXPECT_TRUE(outflow_.drain());
}

class RetryingOutflowTest : public OutflowTest {
  protected:
    RetryingOutflowTest() : OutflowTest(OnError::kRetry) {}
};

TEST_F(RetryingOutflowTest, the_listener_hears_of_each_pause) {
    stage(0, 1000, 'a');
    faults_->fail(io::Operation::kWrite, 1, 2, EIO);
    ASSERT_TRUE(drain());
    EXPECT_EQ(faults_->fired(), 2u);
    EXPECT_EQ(listener_.pauses_, 2);
    EXPECT_FALSE(listener_.halted_);
    EXPECT_EQ(read(0, 1000), std::string(1000, 'a'));
}

// A target that reports failures late.
class LateOutflowTest : public OutflowTest {
  protected:
    LateOutflowTest() {
        listener_.keeps_sent_ = true;
        const LockGuard lock(outflow_.state.mutex);
        outflow_.state.open(target_, {.may_hang = false, .page_cache = true, .reports_late = true}, 0, 0);
    }
    // Takes a write that fails, and does not begin it.
    WorkSource::Taken take_failing(std::uint64_t offset) {
        stage(offset, 500, 'x');
        {
            const LockGuard lock(outflow_.state.mutex);
            outflow_.state.planner.hurry();
        }
        faults_->fail(io::Operation::kWrite, 1, 1, EIO);
        return outflow_.take();
    }
    // Writes bytes that bypass the log.
    void bypass() {
        const std::vector<std::byte> bytes(100, std::byte{'b'});
        const LockGuard lock(outflow_.state.mutex);
        const auto call = outflow_.bypass.begin(0, bytes);
        ASSERT_TRUE(call);
        outflow_.bypass.end({0, 100}, call.value(), target_->write_at(0, bytes));
    }
    bool answered() {
        const LockGuard lock(outflow_.state.mutex);
        return outflow_.state.arrivals.sync() && outflow_.state.arrivals.sync()->answered;
    }
};

TEST_F(LateOutflowTest, a_sync_confirms_no_byte_whose_loss_an_overlapping_write_reports) {
    stage(0, 1000, 'a');
    ASSERT_TRUE(drain());
    EXPECT_EQ(ready_bytes(), 0u);
    const WorkSource::Taken failing = take_failing(5000);
    ASSERT_TRUE(failing);
    std::thread syncer([&] {
        const LockGuard lock(outflow_.state.mutex);
        EXPECT_TRUE(outflow_.syncs.sync());
    });
    while (!answered()) std::this_thread::yield();
    failing.work->run();
    syncer.join();
    EXPECT_EQ(ready_bytes(), 1500u) << "the bytes of the write, and those that were sent before";
}

TEST_F(LateOutflowTest, a_confirmation_that_fails_without_a_report_sends_the_bytes_again) {
    stage(0, 1000, 'a');
    ASSERT_TRUE(drain());
    faults_->fail(io::Operation::kFlush, 1, 1, ENOMEM);
    {
        const LockGuard lock(outflow_.state.mutex);
        EXPECT_FALSE(outflow_.confirms.await(Confirm::kClose));
    }
    EXPECT_EQ(ready_bytes(), 1000u);
    const LockGuard lock(outflow_.state.mutex);
    outflow_.make_good();
    EXPECT_EQ(bytes_.ready_bytes(), 0u);
    EXPECT_TRUE(outflow_.confirms.await(Confirm::kClose));
    EXPECT_FALSE(bytes_.index().sent().any());
}

TEST_F(LateOutflowTest, a_report_after_a_write_that_bypassed_the_log_is_never_made_good) {
    bypass();
    take_failing(5000).work->run();
    const LockGuard lock(outflow_.state.mutex);
    outflow_.make_good();
    EXPECT_FALSE(outflow_.state.failures.error());
    EXPECT_FALSE(outflow_.syncs.sync());
    EXPECT_EQ(listener_.error_, EIO);
}

TEST_F(LateOutflowTest, a_close_asks_about_writes_that_bypassed_the_log) {
    bypass();
    faults_->fail(io::Operation::kFlush, 1, 1, EIO);
    const LockGuard lock(outflow_.state.mutex);
    EXPECT_TRUE(outflow_.confirms.await(Confirm::kSync)) << "they need no room";
    EXPECT_FALSE(outflow_.confirms.await(Confirm::kClose));
    EXPECT_FALSE(outflow_.state.failures.target_lost());
    EXPECT_EQ(listener_.error_, EIO);
}

TEST_F(LateOutflowTest, a_sync_ends_the_doubt_about_writes_that_bypassed_the_log) {
    bypass();
    {
        const LockGuard lock(outflow_.state.mutex);
        ASSERT_TRUE(outflow_.syncs.sync());
    }
    take_failing(5000).work->run();
    const LockGuard lock(outflow_.state.mutex);
    outflow_.make_good();
    EXPECT_TRUE(outflow_.state.failures.error());
    EXPECT_EQ(listener_.error_, 0);
}

}   // namespace
}   // namespace forebay::drain
