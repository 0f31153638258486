// Nodes that wait for each other's bytes, while the node with the bytes makes no call that would drain them.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "io/fault_file.h"
#include "support/team_files.h"
#include "support/thread_team.h"

namespace forebay {
namespace {

using namespace std::chrono_literals;
using io::FaultPlan;
using io::Operation;
using test::bytes_of;
using test::same;

// A read that no drain ends waits for ever.
constexpr auto kMuchTooLong = 20s;

// Rank 0 reads what rank 1, the only one of its node, has written. Rank 1 makes no call meanwhile.
TEST(SeveralNodes, read_bytes_whose_drain_pauses_after_failures_that_pass) {
    const auto plan = std::make_shared<FaultPlan>();
    std::promise<void> read;
    const auto bytes = bytes_of(9000, 1);
    test::Scratch scratch;
    test::ThreadTeam::run(2, [&](std::shared_ptr<file::Team> team) {
        const int rank = team->rank();
        LoadedOptions loaded = test::small_options();
        loaded.options.on_error = OnError::kRetry;
        loaded.options.node = rank == 0 ? "a" : "b";
        test::TeamMember member(team, scratch, stage::Engine::create(std::move(loaded), scratch.opener()), O_RDWR,
                                [&](std::unique_ptr<io::File> file) {
                                    return rank == 0 ? std::move(file) : io::make_fault_file(std::move(file), plan);
                                });
        ASSERT_TRUE(member.opened()) << member.opened().message();
        if (rank == 1) {
            plan->fail(Operation::kWrite, 1, 3, EIO);
            ASSERT_TRUE(member.write(0, bytes));
        }
        ASSERT_TRUE(team->barrier());
        if (rank == 0) {
            EXPECT_TRUE(same(member.read(0, bytes.size()), bytes));
            read.set_value();
        } else {
            EXPECT_EQ(read.get_future().wait_for(kMuchTooLong), std::future_status::ready);
            EXPECT_EQ(plan->fired(), 3u);
            EXPECT_TRUE(member.file().await_drained());   // else rank 0 would not come to its close
        }
        EXPECT_TRUE(member.close());
    });
    EXPECT_TRUE(same(scratch.contents(), bytes));
}

// Recovery makes a directory beside the file, whose name is 26 bytes longer.
TEST(SeveralNodes, promise_no_recovery_of_a_file_whose_name_is_too_long_for_it) {
    constexpr std::size_t kLongest = 255 - 26;
    for (const std::size_t length : {kLongest, kLongest + 1})
        for (const bool strict : {false, true}) {
            SCOPED_TRACE(testing::Message() << length << " bytes, strict " << strict);
            test::Scratch scratch({}, std::string(length, 'x'));
            ASSERT_TRUE(io::identify(scratch.target()));
            test::ThreadTeam::run(2, [&](std::shared_ptr<file::Team> team) {
                LoadedOptions loaded = test::small_options();
                loaded.options.node = team->rank() == 0 ? "a" : "b";
                loaded.options.nodes = SeveralNodes::kConsistent;
                loaded.options.strict = strict;
                test::TeamMember member(team, scratch, std::move(loaded));
                if (length > kLongest && strict) {
                    EXPECT_EQ(member.opened().code(), Code::kUnsupported);
                    return;
                }
                ASSERT_TRUE(member.opened()) << member.opened().message();
                EXPECT_EQ(member.file().keeps_journal(), length == kLongest);
                if (team->rank() == 0) {
                    EXPECT_EQ(member.warning().find("its name is too long") != std::string::npos, length > kLongest)
                        << member.warning();
                }
                EXPECT_TRUE(member.close());
            });
        }
}

// A clock that moves by a step at each look, so that a pause ends between any two looks.
class SteppingClock final : public WaitClock {
  public:
    explicit SteppingClock(std::chrono::nanoseconds step) : step_ns_(static_cast<std::uint64_t>(step.count())) {}
    [[nodiscard]] std::uint64_t now_ns() noexcept override { return now_ns_ += step_ns_; }
    [[nodiscard]] std::chrono::steady_clock::time_point wake_at(std::uint64_t) noexcept override {
        return std::chrono::steady_clock::now() + 1ms;
    }

  private:
    const std::uint64_t step_ns_;
    std::atomic<std::uint64_t> now_ns_{monotonic_ns()};
};

TEST(SeveralNodes, drain_after_a_pause_that_ends_at_any_moment) {
    for (auto step = 1ms; step < 25ms && !testing::Test::HasFailure(); ++step) {
        SCOPED_TRACE(testing::Message() << "step " << step.count() << " ms");
        const auto plan = std::make_shared<FaultPlan>();
        LoadedOptions loaded = test::small_options();
        loaded.options.on_error = OnError::kRetry;
        loaded.options.patience = 0;
        test::Participants node(2, loaded, plan, {}, true, {.clock = std::make_shared<SteppingClock>(step)});
        node.listen();
        plan->fail(Operation::kWrite, 1, 5, EIO);
        const auto bytes = bytes_of(9000, 1);
        ASSERT_TRUE(node.write(1, 0, bytes));
        auto drained = std::async(std::launch::async, [&] { return node.group(1).log().await_drained(); });
        EXPECT_EQ(drained.wait_for(kMuchTooLong), std::future_status::ready);
        if (testing::Test::HasFailure()) (void)node.drain();
        EXPECT_TRUE(drained.get());
        EXPECT_EQ(plan->fired(), 5u);
        EXPECT_TRUE(node.close());
        EXPECT_TRUE(same(node.target().contents(), bytes));
    }
}

}   // namespace
}   // namespace forebay
