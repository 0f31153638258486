#include "drain/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <latch>
#include <mutex>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

namespace forebay::drain {
namespace {

using ::testing::ElementsAre;
using namespace std::chrono_literals;

// How long to wait before saying that something which must happen does not.
constexpr auto kPatience = 60s;

class FunctionWork final : public Work {
  public:
    explicit FunctionWork(std::function<void()> function) : function_(std::move(function)) {}
    void run() noexcept override { function_(); }

  private:
    std::function<void()> function_;
};

// Hands out the work it was given, in order.
class ListSource final : public WorkSource {
  public:
    Taken take() override {
        const std::lock_guard lock(mutex_);
        ++takes_;
        if (work_.empty()) return {};
        auto work = std::make_unique<FunctionWork>(std::move(work_.front()));
        work_.pop_front();
        return {std::move(work), !work_.empty()};
    }
    void add(std::function<void()> work) {
        const std::lock_guard lock(mutex_);
        work_.push_back(std::move(work));
    }
    [[nodiscard]] std::size_t takes() const {
        const std::lock_guard lock(mutex_);
        return takes_;
    }
    [[nodiscard]] std::size_t left() const {
        const std::lock_guard lock(mutex_);
        return work_.size();
    }

  private:
    mutable std::mutex mutex_;
    std::deque<std::function<void()>> work_;
    std::size_t takes_ = 0;
};

// Counts down once per piece of work; `met` says whether all came at the same time.
class Meeting {
  public:
    explicit Meeting(int parties) : missing_(parties) {}
    void arrive_and_wait() {
        std::unique_lock lock(mutex_);
        if (--missing_ == 0) all_here_.notify_all();
        if (!all_here_.wait_for(lock, kPatience, [this] { return missing_ <= 0; })) failed_ = true;
    }
    [[nodiscard]] bool wait_until_met() {
        std::unique_lock lock(mutex_);
        return all_here_.wait_for(lock, kPatience, [this] { return missing_ <= 0; }) && !failed_;
    }

  private:
    std::mutex mutex_;
    std::condition_variable all_here_;
    int missing_;
    bool failed_ = false;
};

class Event {
  public:
    void set() { semaphore_.release(); }
    [[nodiscard]] bool wait() { return semaphore_.try_acquire_for(kPatience); }

  private:
    std::counting_semaphore<> semaphore_{0};
};

TEST(Scheduler, a_woken_source_has_its_work_carried_out) {
    Event done;
    const auto source = std::make_shared<ListSource>();
    Scheduler scheduler(1);
    source->add([&] { done.set(); });
    EXPECT_TRUE(scheduler.wake(source));
    EXPECT_TRUE(done.wait());
}

TEST(Scheduler, several_works_of_one_source_are_in_flight_at_a_time) {
    Meeting meeting(4);
    const auto source = std::make_shared<ListSource>();
    Scheduler scheduler(4);
    for (int i = 0; i < 4; ++i) source->add([&] { meeting.arrive_and_wait(); });
    scheduler.wake(source);
    EXPECT_TRUE(meeting.wait_until_met());
}

TEST(Scheduler, works_of_several_sources_are_in_flight_at_a_time) {
    Meeting meeting(3);
    std::vector<std::shared_ptr<ListSource>> sources;
    Scheduler scheduler(3);
    for (int i = 0; i < 3; ++i) {
        sources.push_back(std::make_shared<ListSource>());
        sources.back()->add([&] { meeting.arrive_and_wait(); });
    }
    for (const auto& source : sources) scheduler.wake(source);
    EXPECT_TRUE(meeting.wait_until_met());
}

TEST(Scheduler, no_more_works_run_at_a_time_than_there_are_threads) {
    std::atomic<int> running{0}, highest{0};
    std::latch done(200);
    const auto source = std::make_shared<ListSource>();
    Scheduler scheduler(2);
    for (int i = 0; i < 200; ++i)
        source->add([&] {
            const int now = ++running;
            int seen = highest;
            while (now > seen && !highest.compare_exchange_weak(seen, now)) {
            }
            --running;
            done.count_down();
        });
    scheduler.wake(source);
    done.wait();
    EXPECT_LE(highest, 2);
}

TEST(Scheduler, asking_for_no_threads_gives_one) {
    Event done;
    const auto source = std::make_shared<ListSource>();
    Scheduler scheduler(0);
    source->add([&] { done.set(); });
    EXPECT_TRUE(scheduler.wake(source));
    EXPECT_TRUE(done.wait());
}

TEST(Scheduler, two_sources_with_much_to_do_take_turns) {
    std::vector<char> order;   // one thread writes it
    std::latch done(20);
    Event queued;
    const auto gate = std::make_shared<ListSource>();
    const auto a = std::make_shared<ListSource>(), b = std::make_shared<ListSource>();
    Scheduler scheduler(1);
    gate->add([&] { EXPECT_TRUE(queued.wait()); });
    scheduler.wake(gate);   // holds the only thread until both sources are queued
    for (int i = 0; i < 10; ++i) {
        a->add([&] { order.push_back('a'), done.count_down(); });
        b->add([&] { order.push_back('b'), done.count_down(); });
    }
    scheduler.wake(a);
    scheduler.wake(b);
    queued.set();
    done.wait();
    EXPECT_EQ(std::string(order.begin(), order.end()), "abababababababababab");
}

TEST(Scheduler, a_source_without_work_leaves_the_queue_and_can_be_woken_again) {
    const auto source = std::make_shared<ListSource>(), other = std::make_shared<ListSource>();
    Scheduler scheduler(1);
    for (int round = 1; round <= 3; ++round) {
        // With one thread, what the other source does comes after the empty take.
        Event passed;
        scheduler.wake(source);
        other->add([&] { passed.set(); });
        scheduler.wake(other);
        ASSERT_TRUE(passed.wait());
        EXPECT_EQ(source->takes(), static_cast<std::size_t>(round));
    }
    Event done;
    source->add([&] { done.set(); });
    scheduler.wake(source);
    EXPECT_TRUE(done.wait());
}

TEST(Scheduler, waking_a_queued_source_again_queues_it_once) {
    Event holding, release, passed;
    const auto gate = std::make_shared<ListSource>();
    const auto source = std::make_shared<ListSource>(), other = std::make_shared<ListSource>();
    Scheduler scheduler(1);
    gate->add([&] {
        holding.set();
        EXPECT_TRUE(release.wait());
    });
    scheduler.wake(gate);
    ASSERT_TRUE(holding.wait());
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(scheduler.wake(source));
    other->add([&] { passed.set(); });
    scheduler.wake(other);
    release.set();
    ASSERT_TRUE(passed.wait());
    EXPECT_EQ(source->takes(), 1u);
}

TEST(Scheduler, work_may_wake_its_own_source) {
    std::atomic<int> runs{0};
    Event done;
    const auto source = std::make_shared<ListSource>();
    Scheduler scheduler(1);
    std::function<void()> again = [&] {
        if (++runs == 100) {
            done.set();
            return;
        }
        source->add(again);
        scheduler.wake(source);
    };
    source->add(again);
    scheduler.wake(source);
    EXPECT_TRUE(done.wait());
    EXPECT_EQ(runs, 100);
}

TEST(Scheduler, work_may_wake_another_source_that_it_then_waits_for) {
    Event inner, outer;
    const auto a = std::make_shared<ListSource>(), b = std::make_shared<ListSource>();
    Scheduler scheduler(2);
    a->add([&] {
        b->add([&] { inner.set(); });
        scheduler.wake(b);
        EXPECT_TRUE(inner.wait());
        outer.set();
    });
    scheduler.wake(a);
    EXPECT_TRUE(outer.wait());
}

// A thread that was notified still counts as idle until it runs: the second wake must not rely on it too.
TEST(Scheduler, two_wakes_in_a_row_are_served_by_two_threads) {
    for (int round = 0; round < 200; ++round) {
        Event first;
        Meeting meeting(2);
        const auto warm = std::make_shared<ListSource>();
        const auto a = std::make_shared<ListSource>(), b = std::make_shared<ListSource>();
        Scheduler scheduler(2);
        warm->add([&] { first.set(); });
        scheduler.wake(warm);
        ASSERT_TRUE(first.wait());   // one thread there is, and it is idle soon
        a->add([&] { meeting.arrive_and_wait(); });
        b->add([&] { meeting.arrive_and_wait(); });
        scheduler.wake(a);
        scheduler.wake(b);
        ASSERT_TRUE(meeting.wait_until_met());
    }
}

TEST(Scheduler, wakes_from_many_threads_lose_no_work) {
    constexpr int kThreads = 4, kEach = 500;
    std::latch done(kThreads * kEach);
    std::array<std::shared_ptr<ListSource>, 3> sources;
    for (auto& source : sources) source = std::make_shared<ListSource>();
    Scheduler scheduler(3);
    {
        std::vector<std::jthread> wakers;
        for (int t = 0; t < kThreads; ++t)
            wakers.emplace_back([&, t] {
                for (int i = 0; i < kEach; ++i) {
                    const auto& source = sources[static_cast<std::size_t>(t + i) % sources.size()];
                    source->add([&] { done.count_down(); });
                    EXPECT_TRUE(scheduler.wake(source));
                }
            });
    }
    done.wait();
}

TEST(Scheduler, memory_running_out_in_a_source_stops_neither_the_thread_nor_the_source) {
    class Starved final : public WorkSource {
      public:
        Taken take() override {
            if (++takes == 1) throw std::bad_alloc();
            return {std::make_unique<FunctionWork>([this] { done.set(); }), false};
        }
        std::atomic<int> takes{0};
        Event done;
    };
    const auto source = std::make_shared<Starved>();
    const auto other = std::make_shared<ListSource>();
    Event passed;
    other->add([&] { passed.set(); });
    Scheduler scheduler(1);
    scheduler.wake(source);
    scheduler.wake(other);
    ASSERT_TRUE(passed.wait());
    EXPECT_EQ(source->takes, 1);
    scheduler.wake(source);
    EXPECT_TRUE(source->done.wait());
}

TEST(Scheduler, destruction_waits_for_the_work_in_flight_and_leaves_what_is_queued) {
    std::atomic<bool> finished{false};
    Event started;
    const auto busy = std::make_shared<ListSource>(), queued = std::make_shared<ListSource>();
    {
        Event release;
        Scheduler scheduler(1);
        busy->add([&] {
            started.set();
            EXPECT_TRUE(release.wait());
            finished = true;
        });
        queued->add([] {});
        scheduler.wake(busy);
        ASSERT_TRUE(started.wait());
        scheduler.wake(queued);
        release.set();
    }
    EXPECT_TRUE(finished);
    // The one thread may still have taken it before it was told to stop.
    EXPECT_LE(queued->takes(), 1u);
}

TEST(Scheduler, destruction_with_endless_sources_does_not_hang) {
    class Endless final : public WorkSource {
      public:
        Taken take() override {
            return {std::make_unique<FunctionWork>([this] {
                        if (++runs == 100) started.set();
                    }),
                    true};
        }
        std::atomic<int> runs{0};
        Event started;
    };
    std::array<std::shared_ptr<Endless>, 5> sources;
    for (auto& source : sources) source = std::make_shared<Endless>();
    Scheduler scheduler(3);
    for (const auto& source : sources) scheduler.wake(source);
    for (const auto& source : sources) EXPECT_TRUE(source->started.wait());
}

TEST(Scheduler, destruction_while_threads_are_still_being_started_does_not_hang) {
    class Endless final : public WorkSource {
      public:
        Taken take() override {
            return {std::make_unique<FunctionWork>([this] { ran.release(); }), true};
        }
        std::counting_semaphore<> ran{0};
    };
    for (int round = 0; round < 200; ++round) {
        const auto source = std::make_shared<Endless>();
        Scheduler scheduler(8);
        scheduler.wake(source);
        source->ran.acquire();
    }
}

TEST(Scheduler, a_scheduler_that_was_never_used_ends_at_once) { const Scheduler scheduler(8); }

}   // namespace
}   // namespace forebay::drain
