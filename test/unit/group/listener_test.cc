// The listener of the drainer: which events end its sleep.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "area/process.h"
#include "group/group.h"
#include "io/futex.h"
#include "io/memory_file.h"

namespace forebay::group {
namespace {

using namespace std::chrono_literals;

// A listener that misses an event sleeps on.
constexpr auto kMuchTooLong = 20s;

bool sleeps(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    return text.substr(text.rfind(')') + 1).starts_with(" S");
}

// The drainer of a group of two. The test speaks for the other participant, which has died, through the same board.
class Listener : public testing::Test {
  protected:
    Listener() {
        group_.add_log(nullptr, 1 << 16);
        group_.add_log(nullptr, 1 << 16);
    }
    ~Listener() override { group_.stop_listening(); }

    static area::ProcessIdentity this_process() { return area::identify_this_process().value(); }
    static area::ProcessIdentity dead_process() {
        area::ProcessIdentity gone = this_process();
        ++gone.start_ticks;   // an earlier process of the same number
        return gone;
    }
    Board made_board() {
        return Board::create(std::move(directory_->open_file("board", io::OpenMode::kCreateNew)).value(), 2, 5).value();
    }
    // Starts the listener, and returns once it sleeps.
    void listen(std::function<std::optional<std::chrono::milliseconds>()> poll) {
        ASSERT_TRUE(group_.listen([this, poll = std::move(poll)](bool) {
            thread_ = ::gettid();
            ++polls_;
            return poll();
        }));
        while (header().bell.listening.load() == 0) std::this_thread::sleep_for(1ms);
        io::raise_and_wake(header().bell.doorbell);
        while (polls_ == 0 || header().bell.listening.load() == 0 || !sleeps(thread_)) std::this_thread::sleep_for(1ms);
    }
    BoardHeader& header() { return others_.header(); }

    const std::unique_ptr<io::Directory> directory_ = io::make_memory_directory("area");
    Group group_{{made_board(), 0, 0, {this_process(), dead_process()}, 1}};
    Board others_ = Board::open(std::move(directory_->open_file("board", io::OpenMode::kReadWrite)).value(), 2).value();
    std::atomic<pid_t> thread_{0};
    std::atomic<int> polls_{0};
};

TEST_F(Listener, calls_again_after_the_time_that_the_last_call_gave) {
    const auto third = std::make_shared<std::promise<void>>();
    listen([this, third]() -> std::optional<std::chrono::milliseconds> {
        if (polls_ == 3) third->set_value();
        return polls_ < 3 ? std::optional(5ms) : std::nullopt;
    });
    EXPECT_EQ(third->get_future().wait_for(kMuchTooLong), std::future_status::ready);
}

TEST_F(Listener, wakes_for_a_call_of_its_own_process) {
    const auto second = std::make_shared<std::promise<void>>();
    listen([this, second]() -> std::optional<std::chrono::milliseconds> {
        if (polls_ == 2) second->set_value();
        return std::nullopt;
    });
    group_.call_listener();
    EXPECT_EQ(second->get_future().wait_for(kMuchTooLong), std::future_status::ready);
}

TEST_F(Listener, sees_a_call_that_came_before_its_thread_began) {
    group_.call_listener();
    const auto first = std::make_shared<std::promise<void>>();
    ASSERT_TRUE(group_.listen([this, first](bool) -> std::optional<std::chrono::milliseconds> {
        if (++polls_ == 1) first->set_value();
        return std::nullopt;
    }));
    EXPECT_EQ(first->get_future().wait_for(kMuchTooLong), std::future_status::ready);
}

// For want of memory, or because a log is damaged.
TEST_F(Listener, rests_until_the_next_event_after_a_call_that_has_left_records) {
    const auto rests = [this](int polls) {
        const auto until = std::chrono::steady_clock::now() + kMuchTooLong;
        while (std::chrono::steady_clock::now() < until) {
            if (polls_ >= polls && header().bell.listening.load() != 0 && sleeps(thread_)) return polls_.load();
            std::this_thread::sleep_for(1ms);
        }
        return -1;
    };
    const auto append = [this] {   // as OwnLog::appended
        header().arrivals.appended.fetch_add(100);
        if (header().bell.listening.exchange(0) != 0) io::raise_and_wake(header().bell.doorbell);
    };
    append();
    ASSERT_TRUE(group_.listen([this](bool) -> std::optional<std::chrono::milliseconds> {
        thread_ = ::gettid();
        ++polls_;
        return std::nullopt;
    }));
    EXPECT_EQ(rests(1), 1);
    append();
    EXPECT_EQ(rests(2), 2);
}

TEST_F(Listener, that_sleeps_already_forgets_the_number_of_a_process_that_died_before_it_published) {
    struct Seen {
        std::atomic<bool> awaited{false};
        std::promise<void> forgotten;
    };
    const auto seen = std::make_shared<Seen>();
    listen([this, seen]() -> std::optional<std::chrono::milliseconds> {
        if (others_.row(1).drawing.load() == 0 && seen->awaited.exchange(false)) seen->forgotten.set_value();
        return std::nullopt;
    });
    ASSERT_TRUE(group_.order().find());
    group_.order().followed();
    others_.row(1).drawing.store(group_.order().next_sequence());
    group_.order().published();   // the dead process has not
    seen->awaited = true;
    group_.order().await_complete();   // as a drain thread calls it
    EXPECT_EQ(seen->forgotten.get_future().wait_for(kMuchTooLong), std::future_status::ready);
}

}   // namespace
}   // namespace forebay::group
