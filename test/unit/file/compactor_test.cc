// What the participants of a node write reaches the target in few, large writes: collective buffering, morphing and
// stealing (seeds: the Compactor) across logs, and what arrives while writes are in flight is what is merged next.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "support/scripted_file.h"
#include "support/team_files.h"

namespace forebay {
namespace {

using test::bytes_of;
using test::Participants;
using test::same;

constexpr std::uint64_t kStripe = 64 << 10, kCell = 4 << 10;

LoadedOptions options() {
    LoadedOptions loaded = test::small_options();
    loaded.options.size = 32 << 20;
    loaded.options.segment = 1 << 20;
    loaded.options.stripe = kStripe;
    loaded.options.write_max = kStripe;
    return loaded;
}

struct Access {
    std::uint64_t offset, size;
    friend bool operator==(const Access&, const Access&) = default;
};

// Notes each access to a target, and holds writes up while it is shut.
class Watch {
  public:
    void shut() {
        const std::lock_guard lock(mutex_);
        shut_ = true;
    }
    void open() {
        const std::lock_guard lock(mutex_);
        shut_ = false;
        changed_.notify_all();
    }
    void await_writes(std::size_t count) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return writes_.size() >= count; });
    }
    // False: not within a time that is long on any machine.
    bool await_bytes(std::uint64_t bytes) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, std::chrono::seconds(250), [&] {
            std::uint64_t written = 0;
            for (const Access& write : writes_) written += write.size;
            return written >= bytes;
        });
    }
    void write(Access access) {
        std::unique_lock lock(mutex_);
        writes_.push_back(access);
        changed_.notify_all();
        changed_.wait(lock, [&] { return !shut_; });
    }
    void read(Access access) {
        const std::lock_guard lock(mutex_);
        reads_.push_back(access);
    }
    std::vector<Access> writes() const {
        const std::lock_guard lock(mutex_);
        return writes_;
    }
    std::vector<Access> reads() const {
        const std::lock_guard lock(mutex_);
        return reads_;
    }

  private:
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool shut_ = false;
    std::vector<Access> writes_, reads_;   // in the order in which they began
};

Participants::Around watched(const std::shared_ptr<Watch>& watch) {
    return {nullptr, [watch](std::unique_ptr<io::File> target) {
                return test::scripted(std::move(target), [watch](const test::FileCall& call) {
                    if (call.operation == io::Operation::kRead) watch->read({call.offset, call.size});
                    if (call.operation == io::Operation::kWrite) watch->write({call.offset, call.size});
                    return Status::ok();
                });
            }};
}

// Nothing that begins at a stripe goes beyond it.
bool within_stripes(const std::vector<Access>& all) {
    return std::all_of(all.begin(), all.end(),
                       [](Access one) { return one.offset % kStripe != 0 || one.size <= kStripe; });
}

std::size_t begin_in_the_midst(const std::vector<Access>& all) {
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(),
                                                  [](Access one) { return one.offset % kStripe != 0; }));
}

class Compactor : public testing::TestWithParam<std::size_t> {};

TEST_P(Compactor, cells_of_all_participants_become_one_write_for_each_stripe) {
    constexpr std::uint64_t kStripes = 40;
    const std::size_t count = GetParam();
    const auto watch = std::make_shared<Watch>();
    Participants node(count, options(), nullptr, {}, false, watched(watch));
    const auto content = bytes_of(kStripes * kStripe, 3);
    // Everybody every count-th cell, one participant after the other, so that nothing is complete before the last has
    // written. A background write that begins meanwhile does not end before that, so no second one is planned.
    watch->shut();
    for (std::size_t i = 0; i < count; ++i)
        for (std::uint64_t at = i * kCell; at < content.size(); at += count * kCell)
            ASSERT_TRUE(node.write(i, at, io::Bytes(content).subspan(at, kCell)));
    watch->open();
    ASSERT_TRUE(node.drain());
    // The one that began before the last participant wrote may have cut a stripe in two, and so may each plan (of eight
    // writes of the largest size) that follows it, as it begins where that ended.
    EXPECT_TRUE(within_stripes(watch->writes()));
    EXPECT_LE(begin_in_the_midst(watch->writes()), kStripes / 8 + 1);
    EXPECT_GE(watch->writes().size(), kStripes);
    EXPECT_LE(watch->writes().size(), kStripes + kStripes / 8 + 1);
    std::uint64_t requests = 0, staged = 0, drained = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto counters = node.file(i).counters();
        requests += counters.requests;
        staged += counters.staged;
        drained += counters.drained;
        EXPECT_EQ(counters.through, 0u);
        EXPECT_EQ(counters.target_writes, i == 0 ? watch->writes().size() : 0);
    }
    EXPECT_EQ(requests, content.size() / kCell);
    EXPECT_EQ(staged, content.size());
    EXPECT_EQ(drained, content.size());
    // Bytes that went home together with others; a cell of a stripe that was cut may have gone alone.
    EXPECT_GE(node.file(0).counters().merged, content.size() - (watch->writes().size() - kStripes) * kCell);
    EXPECT_TRUE(same(node.target().contents(), content));
    ASSERT_TRUE(node.close());
}

TEST_P(Compactor, what_several_overwrite_is_written_once_and_the_last_writer_wins) {
    constexpr std::uint64_t kRounds = 5;
    const std::size_t count = GetParam();
    const auto watch = std::make_shared<Watch>();
    Participants node(count, options(), nullptr, {}, false, watched(watch));
    test::PlainBytes expected;
    for (std::uint64_t round = 0; round < kRounds; ++round)
        for (std::size_t i = 0; i < count; ++i) {
            // Overlaps that are shifted by less than a cell, across the boundary of a stripe.
            const auto bytes = bytes_of(3 * kCell, round * 100 + i);
            const std::uint64_t at = kStripe - 2 * kCell + (i * 1000 + round * 333) % kCell;
            ASSERT_TRUE(node.write(i, at, bytes));
            expected.write(at, bytes);
        }
    ASSERT_TRUE(node.drain());
    EXPECT_TRUE(same(node.target().contents(), expected.content));
    ASSERT_EQ(watch->writes().size(), 1u);
    const std::uint64_t written = watch->writes().front().size;
    EXPECT_LT(written, 5 * kCell);
    const auto counters = node.file(0).counters();
    EXPECT_EQ(counters.superseded, kRounds * count * 3 * kCell - written);
    ASSERT_TRUE(node.close());
}

TEST_P(Compactor, what_arrives_while_a_write_is_in_flight_is_merged_next) {
    constexpr std::uint64_t kStripes = 16;
    const std::size_t count = GetParam();
    const auto watch = std::make_shared<Watch>();
    Participants node(count, options(), nullptr, {}, false, watched(watch));
    node.listen();
    const auto content = bytes_of(kStripes * kStripe, 9);
    // A stripe is complete, and drains at once, without anybody asking for it: the target takes its time.
    watch->shut();
    ASSERT_TRUE(node.write(count - 1, 0, io::Bytes(content).first(2 * kStripe)));
    watch->await_writes(1);
    // Meanwhile the others arrive in small pieces, last ones first. One write for each participant may be under way.
    for (std::uint64_t at = content.size(); at > 2 * kStripe; at -= kCell)
        ASSERT_TRUE(node.write(at / kCell % count, at - kCell, io::Bytes(content).subspan(at - kCell, kCell)));
    EXPECT_LE(watch->writes().size(), count);
    watch->open();
    ASSERT_TRUE(node.drain());
    EXPECT_GE(watch->writes().size(), kStripes);
    EXPECT_LT(watch->writes().size(), kStripes + count)
        << "not one write for each stripe, and one more for each that was under way";
    EXPECT_TRUE(same(node.target().contents(), content));
    ASSERT_TRUE(node.close());
}

// Figure 7 of the paper: what is staged is stolen from the logs, whosever they are, and only the rest is read.
TEST(CompactorOfSeveral, drains_what_waited_for_an_older_record_once_that_is_there) {
    constexpr std::uint64_t kStripes = 16;
    const auto watch = std::make_shared<Watch>();
    Participants node(3, options(), nullptr, {}, false, watched(watch));
    node.listen();
    const auto content = bytes_of(kStripes * kStripe, 11);
    // Participant 1 has drawn a number, and takes its time to append: all that is younger may have to be overwritten by
    // it.
    (void)node.group(1).order().next_sequence();
    for (std::uint64_t at = 0; at < content.size(); at += kStripe)
        ASSERT_TRUE(node.write(at / kStripe % 2 * 2, at, io::Bytes(content).subspan(at, kStripe)));
    node.file(0).membership().poll(false);
    EXPECT_TRUE(watch->writes().empty());
    node.group(1).order().published();
    node.file(0).membership().poll(false);
    EXPECT_TRUE(watch->await_bytes(content.size() - kStripe)) << "it waits for as many bytes again";
    ASSERT_TRUE(node.drain());
    EXPECT_TRUE(same(node.target().contents(), content));
    ASSERT_TRUE(node.close());
}

TEST_P(Compactor, a_read_is_split_exactly_between_all_logs_and_the_target) {
    const std::size_t count = GetParam();
    const auto watch = std::make_shared<Watch>();
    constexpr std::uint64_t kBlock = 2 * kStripe;   // longer than what is read along
    test::PlainBytes expected{bytes_of(8 * kBlock, 1)};
    Participants node(count, options(), nullptr, expected.content, false, watched(watch));
    // Blocks 1, 3 and 5 are staged, by different participants where there are several.
    for (const std::uint64_t block : {1, 3, 5}) {
        const auto bytes = bytes_of(kBlock, 10 + block);
        ASSERT_TRUE(node.write(block / 2 % count, block * kBlock, bytes));
        expected.write(block * kBlock, bytes);
    }
    const std::size_t before = watch->reads().size();
    EXPECT_TRUE(same(node.read(0, 100, 6 * kBlock), expected.read(100, 6 * kBlock)));
    const auto all = watch->reads();
    const std::vector<Access> rest(all.begin() + static_cast<std::ptrdiff_t>(before), all.end());
    // Several threads may read: in any order.
    EXPECT_THAT(rest, testing::UnorderedElementsAre(Access{100, kBlock - 100}, Access{2 * kBlock, kBlock},
                                                    Access{4 * kBlock, kBlock}, Access{6 * kBlock, 100}));
    EXPECT_EQ(node.file(0).counters().stolen, 3 * kBlock);
    ASSERT_TRUE(node.close());
}

TEST_P(Compactor, a_few_staged_bytes_between_two_gaps_are_read_along) {
    const std::size_t count = GetParam();
    const auto watch = std::make_shared<Watch>();
    test::PlainBytes expected{bytes_of(5 * kCell, 1)};
    Participants node(count, options(), nullptr, expected.content, false, watched(watch));
    for (const std::uint64_t cell : {1, 3}) {
        const auto bytes = bytes_of(kCell, 10 + cell);
        ASSERT_TRUE(node.write(cell / 2 % count, cell * kCell, bytes));
        expected.write(cell * kCell, bytes);
    }
    const std::size_t before = watch->reads().size();
    EXPECT_TRUE(same(node.read(0, 0, 5 * kCell), expected.content));
    EXPECT_EQ(watch->reads().size() - before, 1u);
    EXPECT_EQ(node.file(0).counters().stolen, 2 * kCell);
    ASSERT_TRUE(node.close());
}

INSTANTIATE_TEST_SUITE_P(participants, Compactor, testing::Values(1, 2, 4), testing::PrintToStringParamName());

}   // namespace
}   // namespace forebay
