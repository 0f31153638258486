// Where the target is as fast as the log, and nobody has the time to drain: large writes of those who do not drain go
// straight to the target, as far as nothing that is staged for the same place could come to it later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "io/forwarding_file.h"
#include "support/scripted_file.h"
#include "support/team_files.h"

namespace forebay {
namespace {

using stage::ByteClass;
using test::bytes_of;
using test::Participants;
using test::same;

constexpr std::uint64_t kMiB = 1 << 20;
// A target as fast as the log, and a drain that no program leaves the time for.
constexpr std::uint64_t kNoTime = std::uint64_t{1} << 50;

LoadedOptions options() {
    LoadedOptions loaded = test::small_options();
    loaded.options.size = 64 * kMiB;
    loaded.options.segment = kMiB;
    loaded.options.stripe = kMiB;
    loaded.options.patience = 0;   // the target is known not to hang
    return loaded;
}

struct Node : Participants {
    explicit Node(std::size_t count = 3, const LoadedOptions& loaded = options(),
                  std::shared_ptr<io::FaultPlan> plan = nullptr, const std::vector<std::byte>& content = {},
                  bool several_nodes = false, const Around& around = {})
        : Participants(count, loaded, std::move(plan), content, several_nodes, around) {
        group(0).target().set_memory_pace(kNoTime);
    }
    Status commit() {
        const Status outcome = Participants::commit();
        group(0).target().set_memory_pace(kNoTime);   // the drainer has said what it knows
        return outcome;
    }
    // The drainer finds out itself. A write tells nothing about the target if the machine was too busy with others
    // meanwhile.
    void find_out() {
        constexpr int kMost = 1000;
        group(0).target().set_memory_pace(std::nullopt);
        const auto bytes = bytes_of(2 * kMiB, 1);
        for (int i = 0; i < kMost && !group(1).target().memory_pace(); ++i) {
            ASSERT_TRUE(write(0, 0, bytes));
            ASSERT_TRUE(drain());
        }
        ASSERT_TRUE(group(1).target().memory_pace());
    }
    std::uint64_t through(std::size_t i) const { return file(i).counters().through; }
    std::uint64_t staged(std::size_t i) const { return file(i).counters().staged; }
};

// Sleeps in each write of one piece.
std::unique_ptr<io::File> slow(std::unique_ptr<io::File> file, std::chrono::milliseconds time) {
    return test::scripted(std::move(file), [time](const test::FileCall& call) {
        if (call.operation == io::Operation::kWrite && call.pieces == 0) std::this_thread::sleep_for(time);
        return Status::ok();
    });
}

TEST(StraightWrites, are_seen_by_all_at_once_and_by_the_target) {
    Node node;
    const auto bytes = bytes_of(3 * kMiB, 1);
    ASSERT_TRUE(node.write(1, 5 * kMiB, bytes));
    EXPECT_EQ(node.through(1), 3 * kMiB);
    EXPECT_EQ(node.staged(1), 0u);
    EXPECT_EQ(node.target().contents().size(), 8 * kMiB);
    for (std::size_t reader = 0; reader < 3; ++reader) {
        EXPECT_TRUE(same(node.read(reader, 5 * kMiB, 3 * kMiB), bytes)) << reader;
        EXPECT_EQ(node.file(reader).size(), 8 * kMiB) << reader;
    }
    ASSERT_TRUE(node.close());
    EXPECT_EQ(node.target().contents().size(), 8 * kMiB);
}

TEST(StraightWrites, are_none_where_the_target_is_waited_for) {
    Node node;
    node.group(0).target().set_memory_pace(std::nullopt);
    ASSERT_TRUE(node.write(1, 0, bytes_of(2 * kMiB, 1)));
    EXPECT_EQ(node.staged(1), 2 * kMiB);
    ASSERT_TRUE(node.close());
}

TEST(StraightWrites, are_none_where_the_target_may_hang) {
    LoadedOptions patient = options();
    patient.options.patience = 600;
    Node node(2, patient);
    ASSERT_TRUE(node.write(1, 0, bytes_of(2 * kMiB, 1)));
    EXPECT_EQ(node.staged(1), 2 * kMiB);
    ASSERT_TRUE(node.write(0, 4 * kMiB, bytes_of(2 * kMiB, 1)));
    EXPECT_EQ(node.staged(0), 2 * kMiB);
    ASSERT_TRUE(node.drain());
    EXPECT_FALSE(node.group(1).target().memory_pace());
    ASSERT_TRUE(node.close());
}

// Its segments hold what was staged, too, and are used again although metadata waits for a commit.
TEST(StraightWrites, do_not_keep_the_log_from_being_used_again) {
    LoadedOptions small = options();
    small.options.size = 8 * kMiB;
    Participants::Around around;
    std::size_t opened = 0;   // the drainer's: it must not find out that the target is fast
    around.target = [&](std::unique_ptr<io::File> file) -> std::unique_ptr<io::File> {
        if (opened++ != 0) return file;
        return slow(std::move(file), std::chrono::milliseconds(20));
    };
    Node node(2, small, nullptr, {}, false, around);
    node.listen();
    ASSERT_TRUE(node.write(0, 0, bytes_of(100, 1), ByteClass::kMetadata));
    ASSERT_TRUE(node.write(1, 4 * kMiB, bytes_of(2 * kMiB, 2)));
    ASSERT_EQ(node.through(1), 2 * kMiB);
    node.group(0).target().set_memory_pace(std::nullopt);
    for (std::uint64_t i = 0; i < 40; ++i) ASSERT_TRUE(node.write(1, (8 + i) * kMiB, bytes_of(kMiB, i)));
    EXPECT_GT(node.group(1).log().released(), 0u);
    EXPECT_EQ(node.file(0).counters().guarantee_given_up, 0u);
    ASSERT_TRUE(node.close());
}

TEST(StraightWrites, end_when_the_target_has_to_be_waited_for) {
    for (const std::size_t writer : {0, 1}) {
        Participants::Around around;
        around.target = [&](std::unique_ptr<io::File> file) -> std::unique_ptr<io::File> {
            return slow(std::move(file), std::chrono::milliseconds(200));
        };
        Node node(2, options(), nullptr, {}, false, around);
        ASSERT_TRUE(node.write(writer, 0, bytes_of(kMiB, 1)));
        EXPECT_EQ(node.through(writer), kMiB);
        EXPECT_FALSE(node.group(1 - writer).target().memory_pace()) << writer;
        ASSERT_TRUE(node.write(writer, 4 * kMiB, bytes_of(kMiB, 1)));
        EXPECT_EQ(node.staged(writer), kMiB);
        ASSERT_TRUE(node.close());
    }
}

// Tells which bytes its writes have brought it, and stops one of them.
class StoppedFile final : public io::ForwardingFile {
  public:
    struct Writes {
        std::mutex mutex;
        std::condition_variable changed;
        std::uint64_t bytes = 0;
        std::uint64_t stopped_at = 0;   // the offset; 0: none
        bool stopped = false;

        void wrote(std::uint64_t offset, std::uint64_t size) {
            std::unique_lock lock(mutex);
            stopped = offset == stopped_at && offset != 0;
            changed.notify_all();
            if (stopped) changed.wait(lock, [&] { return stopped_at == 0; });
            bytes += size;
            changed.notify_all();
        }
        void await_stopped() {
            std::unique_lock lock(mutex);
            changed.wait(lock, [&] { return stopped; });
        }
        void let_go() {
            const std::lock_guard lock(mutex);
            stopped_at = 0;
            changed.notify_all();
        }
        // False: not within a time that is long on any machine.
        bool wait_for(std::uint64_t wanted) {
            std::unique_lock lock(mutex);
            return changed.wait_for(lock, std::chrono::seconds(250), [&] { return bytes >= wanted; });
        }
    };

    StoppedFile(std::unique_ptr<io::File> file, Writes& writes) : ForwardingFile(std::move(file)), writes_(writes) {}
    Status write_at(std::uint64_t offset, io::Bytes bytes) override {
        FOREBAY_TRY(ForwardingFile::write_at(offset, bytes));
        writes_.wrote(offset, bytes.size());
        return Status::ok();
    }
    Status write_gather_at(std::uint64_t offset, std::span<const io::Bytes> pieces) override {
        FOREBAY_TRY(ForwardingFile::write_gather_at(offset, pieces));
        std::uint64_t size = 0;
        for (const io::Bytes& piece : pieces) size += piece.size();
        writes_.wrote(offset, size);
        return Status::ok();
    }

  private:
    Writes& writes_;
};

// The drain leaves what lies before its cursor until the writes in flight have ended. The last one to end may be one of
// these.
TEST(StraightWrites, leave_nothing_waiting_that_waited_for_them) {
    StoppedFile::Writes writes;
    Participants::Around around;
    std::size_t opened = 0;   // the drainer's
    around.target = [&](std::unique_ptr<io::File> file) -> std::unique_ptr<io::File> {
        if (opened++ != 0) return file;
        return std::make_unique<StoppedFile>(std::move(file), writes);
    };
    LoadedOptions loaded = options();
    loaded.options.write_max = 4 * kMiB;   // one plan takes it all
    Node node(2, loaded, nullptr, {}, false, around);
    const auto small = bytes_of(200'000, 1), straight = bytes_of(kMiB, 2);
    ASSERT_TRUE(node.write(1, 20 * kMiB, small));
    ASSERT_TRUE(node.drain());
    node.group(0).target().set_memory_pace(kNoTime);
    ASSERT_TRUE(node.write(1, 33 * kMiB, small)) << "what grows at the end waits";
    writes.stopped_at = 5 * kMiB;
    {
        std::jthread writer([&] { EXPECT_TRUE(node.write(0, 5 * kMiB, straight)); });
        writes.await_stopped();
        for (std::uint64_t i = 0; i < 8; ++i) ASSERT_TRUE(node.write(1, 10 * kMiB + i * small.size(), small));
        EXPECT_FALSE(node.file(0).state().outflow.take()) << "not beside the write in flight";
        writes.let_go();
    }
    EXPECT_EQ(node.through(0), kMiB);
    EXPECT_TRUE(writes.wait_for(small.size() + kMiB + kMiB)) << "nobody has looked again";
    ASSERT_TRUE(node.close());
}

TEST(StraightWrites, are_none_of_metadata_and_none_that_are_small) {
    Node node;
    ASSERT_TRUE(node.write(1, 0, bytes_of(kMiB, 1), ByteClass::kMetadata));
    ASSERT_TRUE(node.write(2, 8 * kMiB, bytes_of(200'000, 1)));
    EXPECT_EQ(node.through(1) + node.through(2), 0u);
    ASSERT_TRUE(node.close());
}

TEST(StraightWrites, are_none_with_several_nodes_or_where_commits_are_durable) {
    Node several(2, options(), nullptr, {}, true);
    ASSERT_TRUE(several.write(1, 0, bytes_of(kMiB, 1)));
    EXPECT_EQ(several.staged(1), kMiB);
    ASSERT_TRUE(several.close());
    LoadedOptions durable = options();
    durable.options.durability = Durability::kNode;
    Node node(2, durable);
    ASSERT_TRUE(node.write(1, 0, bytes_of(kMiB, 1)));
    EXPECT_EQ(node.staged(1), kMiB);
    ASSERT_TRUE(node.close());
}

// Whoever staged it: the drainer, the writer itself, or a third one.
TEST(StraightWrites, are_none_where_something_may_be_staged) {
    for (const std::size_t other : {0, 1, 2}) {
        Node node;
        const auto old = bytes_of(1000, 1), bytes = bytes_of(kMiB, 2);
        ASSERT_TRUE(node.write(other, kMiB + 500'000, old));
        ASSERT_TRUE(node.write(1, kMiB, bytes));
        EXPECT_EQ(node.through(1), 0u) << other;
        for (std::size_t reader = 0; reader < 3; ++reader) EXPECT_TRUE(same(node.read(reader, kMiB, kMiB), bytes));
        ASSERT_TRUE(node.close());
        const auto contents = node.target().contents();
        EXPECT_TRUE(same({contents.begin() + kMiB, contents.end()}, bytes));
    }
}

TEST(StraightWrites, leave_out_the_ends_where_neighbours_may_have_staged) {
    Node node;
    test::PlainBytes expected;
    const auto put = [&](std::size_t who, std::uint64_t offset, std::size_t size, std::uint64_t seed) {
        const auto bytes = bytes_of(size, seed);
        ASSERT_TRUE(node.write(who, offset, bytes));
        expected.write(offset, bytes);
    };
    put(0, 0, 100, 1);
    put(2, 6 * kMiB + 500'000, 100, 2);
    put(1, 100, 6 * kMiB + 500'000 - 100, 3);
    EXPECT_EQ(node.through(1), 5 * kMiB);
    EXPECT_EQ(node.staged(1), kMiB - 100 + 500'000);
    for (std::size_t reader = 0; reader < 3; ++reader)
        EXPECT_TRUE(same(node.read(reader, 0, expected.content.size()), expected.content));
    ASSERT_TRUE(node.close());
    EXPECT_TRUE(same(node.target().contents(), expected.content));
}

// What is staged later for the same place is newer, and comes to the target later.
TEST(StraightWrites, are_overwritten_by_what_is_staged_afterwards) {
    Node node;
    auto bytes = bytes_of(2 * kMiB, 1);
    ASSERT_TRUE(node.write(1, 0, bytes));
    const auto newer = bytes_of(5000, 2);
    ASSERT_TRUE(node.write(2, 700'000, newer));
    std::copy(newer.begin(), newer.end(), bytes.begin() + 700'000);
    for (std::size_t reader = 0; reader < 3; ++reader)
        EXPECT_TRUE(same(node.read(reader, 0, bytes.size()), bytes)) << reader;
    ASSERT_TRUE(node.close());
    EXPECT_TRUE(same(node.target().contents(), bytes));
}

TEST(StraightWrites, are_none_before_the_committed_end) {
    Node node;
    const auto committed = bytes_of(4 * kMiB, 1), later = bytes_of(2 * kMiB, 2);
    ASSERT_TRUE(node.write(1, 0, committed));
    ASSERT_EQ(node.through(1), committed.size());
    ASSERT_TRUE(node.commit());
    ASSERT_TRUE(node.write(1, kMiB, later));
    EXPECT_EQ(node.through(1), committed.size());
    EXPECT_TRUE(same(node.recovered(), committed)) << "what was overwritten, and not committed";
    ASSERT_TRUE(node.close());
}

TEST(StraightWrites, beyond_the_committed_end_are_gone_after_a_crash) {
    Node node;
    const auto committed = bytes_of(700'000, 1);
    ASSERT_TRUE(node.write(2, 0, committed));
    ASSERT_TRUE(node.commit());
    ASSERT_TRUE(node.write(1, 4 * kMiB, bytes_of(2 * kMiB, 2)));
    EXPECT_EQ(node.through(1), 2 * kMiB);
    EXPECT_EQ(node.target().contents().size(), 6 * kMiB);
    EXPECT_TRUE(same(node.recovered(), committed));
    ASSERT_TRUE(node.commit());
    EXPECT_EQ(node.recovered().size(), 6 * kMiB);
    ASSERT_TRUE(node.close());
}

// The cut is carried out later, by the drainer, and would take with it what others write beyond it.
TEST(StraightWrites, are_none_after_a_cut) {
    Node node;
    node.group(0).target().set_memory_pace(std::nullopt);
    ASSERT_TRUE(node.write(0, 0, bytes_of(8 * kMiB, 1)));
    node.find_out();
    ASSERT_TRUE(node.truncate(kMiB));
    EXPECT_FALSE(node.group(1).target().memory_pace());
    const auto bytes = bytes_of(2 * kMiB, 2);
    ASSERT_TRUE(node.write(1, 20 * kMiB, bytes));
    EXPECT_EQ(node.staged(1), bytes.size());
    ASSERT_TRUE(node.Participants::commit());
    ASSERT_TRUE(node.drain());
    EXPECT_FALSE(node.group(1).target().memory_pace());
    EXPECT_TRUE(same(node.read(2, 20 * kMiB, 2 * kMiB), bytes));
    EXPECT_TRUE(same(node.read(2, 2 * kMiB, 1000), std::vector<std::byte>(1000)));
    ASSERT_TRUE(node.close());
    EXPECT_EQ(node.target().contents().size(), 22 * kMiB);
}

TEST(StraightWrites, that_fail_are_staged_instead) {
    const auto plan = std::make_shared<io::FaultPlan>();
    Participants::Around around;
    std::size_t opened = 0;   // participant 1's
    around.target = [&](std::unique_ptr<io::File> file) {
        return opened++ == 1 ? io::make_fault_file(std::move(file), plan) : std::move(file);
    };
    Node node(3, options(), nullptr, {}, false, around);
    const auto staged = bytes_of(1000, 1);
    ASSERT_TRUE(node.write(1, 0, staged));
    plan->fail(io::Operation::kWrite, 1, UINT64_MAX, ENOSPC);
    const auto bytes = bytes_of(5 * kMiB, 2);
    ASSERT_TRUE(node.write(1, 4 * kMiB, bytes));
    EXPECT_EQ(plan->fired(), 1u) << "not for each part of the call";
    EXPECT_EQ(node.through(1), 0u);
    EXPECT_EQ(node.staged(1), 1000 + bytes.size());
    EXPECT_TRUE(same(node.read(2, 0, 1000), staged));
    EXPECT_TRUE(same(node.read(2, 4 * kMiB, bytes.size()), bytes));
    ASSERT_TRUE(node.close());   // the drainer's own descriptor is well
    EXPECT_EQ(node.target().contents().size(), 9 * kMiB);
}

TEST(StraightWrites, are_none_once_the_drainer_has_failed) {
    const auto plan = std::make_shared<io::FaultPlan>();
    Node node(2, options(), plan);
    node.find_out();
    plan->fail(io::Operation::kWrite, 1, UINT64_MAX, EIO);
    ASSERT_TRUE(node.write(0, 0, bytes_of(2000, 1)));
    EXPECT_FALSE(node.drain());
    EXPECT_FALSE(node.group(1).target().memory_pace());
    ASSERT_TRUE(node.write(1, 8 * kMiB, bytes_of(kMiB, 2)));
    EXPECT_EQ(node.staged(1), kMiB);
    EXPECT_FALSE(node.close());
}

// The size that is committed comes to the target in the background; others write what lies beyond it meanwhile.
TEST(StraightWrites, are_not_cut_off_by_a_commit_whose_size_comes_to_the_target_later) {
    const auto bytes = bytes_of(kMiB, 2);
    Node* there = nullptr;
    std::size_t times = 0;
    const std::function<void()> before = [&] {
        if (times++ == 0) {
            there->group(0).target().set_memory_pace(kNoTime);
            EXPECT_TRUE(there->write(1, 4 * kMiB, bytes));
        }
    };
    Participants::Around around;
    std::size_t opened = 0;   // the drainer's
    around.target = [&](std::unique_ptr<io::File> file) -> std::unique_ptr<io::File> {
        if (opened++ != 0) return file;
        return test::scripted(std::move(file), [&](const test::FileCall& call) {
            const bool lengthens = call.operation == io::Operation::kResize ||
                                   (call.operation == io::Operation::kWrite && call.pieces == 0);
            if (lengthens && call.offset + call.size == 3 * kMiB) before();
            return Status::ok();
        });
    };
    Node node(2, options(), nullptr, {}, false, around);
    there = &node;
    node.find_out();
    ASSERT_TRUE(node.truncate(3 * kMiB));
    ASSERT_TRUE(node.write(0, 0, bytes_of(1000, 1)));
    ASSERT_TRUE(node.commit());
    ASSERT_TRUE(node.drain());
    EXPECT_EQ(times, 1u) << "the target has become longer once";
    EXPECT_EQ(node.through(1), kMiB);
    EXPECT_TRUE(same(node.read(0, 4 * kMiB, kMiB), bytes));
    EXPECT_TRUE(same(node.read(1, 2 * kMiB, 1000), std::vector<std::byte>(1000)));
    ASSERT_TRUE(node.close());
    const auto contents = node.target().contents();
    ASSERT_EQ(contents.size(), 5 * kMiB);
    EXPECT_TRUE(same({contents.begin() + 4 * kMiB, contents.end()}, bytes));
}

// All at a time, with small writes of metadata in between. After the first round what was measured of the target
// decides.
TEST(StraightWrites, of_several_participants_at_a_time_reach_the_target_whole) {
    constexpr std::size_t kCount = 3, kRounds = 16, kPart = 3 * kMiB / 2;
    Node node(kCount);
    std::vector<std::vector<std::byte>> parts;   // beforehand: no time is spent between the calls
    for (std::size_t i = 0; i < kCount * kRounds; ++i) parts.push_back(bytes_of(kPart, i));
    const auto small = bytes_of(100, 99);
    const auto write = [&](std::size_t who, std::size_t round) {
        const std::size_t part = round * kCount + who;
        EXPECT_TRUE(node.write(who, part * kPart, parts[part]));
        if (round % 4 == 0) {
            EXPECT_TRUE(node.write(who, part * kPart + kPart / 2, small, ByteClass::kMetadata));
        }
    };
    for (std::size_t who = 0; who < kCount; ++who) {
        node.group(0).target().set_memory_pace(kNoTime);
        write(who, 0);
        EXPECT_GT(node.through(who), 0u) << who;
    }
    node.listen();
    {
        std::vector<std::jthread> threads;
        for (std::size_t who = 0; who < kCount; ++who)
            threads.emplace_back([&, who] {
                for (std::size_t round = 1; round < kRounds; ++round) write(who, round);
            });
    }
    test::PlainBytes expected;
    for (std::size_t part = 0; part < parts.size(); ++part) {
        expected.write(part * kPart, parts[part]);
        if (part / kCount % 4 == 0) expected.write(part * kPart + kPart / 2, small);
    }
    for (std::size_t reader = 0; reader < kCount; ++reader)
        EXPECT_TRUE(same(node.read(reader, 0, expected.content.size()), expected.content)) << reader;
    ASSERT_TRUE(node.commit());
    EXPECT_TRUE(same(node.recovered(), expected.content));
    ASSERT_TRUE(node.close());
    EXPECT_TRUE(same(node.target().contents(), expected.content));
}

TEST(StagedRegions, are_told_from_those_that_nobody_has_staged_to) {
    Node node(2);
    const auto first = [&](std::uint64_t begin, std::uint64_t end) {
        return node.group(1).target().first_unstaged({begin, end});
    };
    EXPECT_EQ(first(0, 10 * kMiB), (ByteRange{0, 10 * kMiB}));
    ASSERT_TRUE(node.write(0, 3 * kMiB - 1, bytes_of(2, 1)));
    EXPECT_EQ(first(0, 10 * kMiB), (ByteRange{0, 2 * kMiB}));
    EXPECT_EQ(first(2 * kMiB + 7, 10 * kMiB), (ByteRange{4 * kMiB, 10 * kMiB}));
    EXPECT_EQ(first(4 * kMiB + 5, 4 * kMiB + 9), (ByteRange{4 * kMiB + 5, 4 * kMiB + 9}));
    EXPECT_TRUE(first(3 * kMiB, 4 * kMiB).empty());
    EXPECT_TRUE(first(7, 7).empty());
    const std::uint64_t round = group::Exposed::kMarks * group::Exposed::kRegionBytes;
    EXPECT_TRUE(first(round + 3 * kMiB, round + 4 * kMiB).empty()) << "regions share marks";
    ASSERT_TRUE(node.close());
}

}   // namespace
}   // namespace forebay
