// Random programs of several ranks on several nodes, all killed at a random point; then each node recovers, in a random
// order, and recovery is killed as well. The file must be as at the last commit that any rank had decided.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "support/seeds.h"
#include "support/team_world.h"

namespace forebay {
namespace {

using test::bytes_of;
using test::same;
using test::TeamWorld;

constexpr std::uint64_t kSpace = 40000;

class Program {
  public:
    Program(TeamWorld& world, std::uint64_t seed, std::vector<std::byte> content)
        : world_(world), random_(seed), now_(std::move(content)), committed_(now_) {}

    [[nodiscard]] std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
    [[nodiscard]] const std::vector<std::byte>& committed() const noexcept { return committed_; }
    [[nodiscard]] std::uint64_t commits() const noexcept { return commits_; }

    // Ends at a random instant.
    void run() {
        for (left_ = 1 + below(120); left_ > 0;) {
            write_strips();
            world_.meet();
            if (const std::uint64_t choice = below(6); choice == 0) commit();
            else if (choice == 1) truncate();
        }
    }

  private:
    bool step() { return left_ > 0 && left_-- > 0; }

    // Each rank has strips of its own until the next meeting.
    void write_strips() {
        const std::uint64_t width = 1 + below(3000), ranks = world_.ranks(), shift = below(ranks);
        for (std::uint64_t count = below(12); count > 0; --count) {
            const std::uint64_t rank = below(ranks);
            const std::uint64_t begin = (below(kSpace / width / ranks + 1) * ranks + (rank + shift) % ranks) * width +
                                        below(width);
            const std::uint64_t size = 1 + below(width - begin % width);
            if (!step()) return;
            const auto bytes = bytes_of(size, random_());
            ASSERT_TRUE(world_.file(rank).write_at(begin, bytes));
            if (now_.size() < begin + size) now_.resize(begin + size);
            std::copy(bytes.begin(), bytes.end(), now_.begin() + static_cast<std::ptrdiff_t>(begin));
        }
    }
    void truncate() {
        if (!step()) return;
        const std::uint64_t size = below(kSpace);
        ASSERT_TRUE(world_.file(0).resize(size));
        now_.resize(size);
        world_.meet();
    }
    // Some attempts fail on a rank, and nobody decides; some end in the midst.
    void commit() {
        const bool fails = below(4) == 0;
        for (std::size_t rank = 0; rank < world_.ranks(); ++rank) {
            if (!step()) return;
            ASSERT_TRUE(world_.journal(rank).prepare(now_.size()));
        }
        world_.meet();
        if (fails) return;
        std::vector<std::size_t> order(world_.ranks());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random_);
        for (const std::size_t rank : order) {
            if (!step()) return;
            ASSERT_TRUE(world_.journal(rank).decide());
            if (rank == order.front()) {
                committed_ = now_;
                ++commits_;
            }
            // The first to have decided may go on at once.
            if (below(3) == 0 && !now_.empty()) {
                if (!step()) return;
                const std::uint64_t at = below(now_.size());
                const auto bytes = bytes_of(1, random_());
                ASSERT_TRUE(world_.file(rank).write_at(at, bytes));
                now_[at] = bytes[0];
                world_.journal(rank).step();   // it comes to a meeting; the others follow below
                for (std::size_t other = 0; other < world_.ranks(); ++other)
                    if (other != rank) world_.journal(other).step();
                for (std::size_t each = 0; each < world_.ranks(); ++each) world_.journal(each).step();
            }
        }
    }

    TeamWorld& world_;
    std::mt19937_64 random_;
    std::vector<std::byte> now_, committed_;
    std::uint64_t commits_ = 0, left_ = 0;
};

TEST(SeveralNodes, killed_at_any_instant_come_back_to_their_last_commit_in_whatever_order_they_recover) {
    std::uint64_t commits = 0, preserved = 0, waited = 0, kills = 0;
    for (const std::uint64_t seed : test::seeds(
             "killed_at_any_instant_come_back_to_their_last_commit_in_whatever_order_they_recover", 200, {1, 2, 3})) {
        if (HasFailure()) break;
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937_64 random(seed * 7919);
        const auto below = [&](std::uint64_t limit) { return random() % limit; };
        const std::size_t nodes = 2 + below(2);
        std::vector<std::size_t> node_of;
        for (std::size_t rank = 0; rank < nodes + below(3); ++rank)
            node_of.push_back(rank < nodes ? rank : below(nodes));
        const auto before = bytes_of(below(kSpace), seed);
        TeamWorld world(node_of, before);
        Program program(world, seed, before);
        program.run();
        if (HasFailure()) return;
        const std::uint64_t counts = seed <= test::kFixedSeedMax ? 1 : 0;
        commits += counts * program.commits();
        for (std::size_t rank = 0; rank < world.ranks(); ++rank)
            preserved += counts * world.journal(rank).preserved_bytes();
        ASSERT_EQ(world.given_up, 0u);

        std::vector<std::size_t> order(nodes);
        for (std::size_t i = 0; i < nodes; ++i) order[i] = i;
        std::shuffle(order.begin(), order.end(), random);
        const auto target = world.contents();
        for (std::size_t i = 0; i < nodes; ++i) {
            // Killed now and then, at any call; begun again. It may have come to its end before.
            for (std::uint64_t tries = below(3); tries > 0 && world.left(order[i]); --tries) {
                (void)world.recover(order[i], 1 + below(60));
                kills += world.killed ? counts : 0;
            }
            const auto report = world.recover(order[i]);
            ASSERT_TRUE(report) << report.status().message();
            if (i + 1 < nodes) {
                ASSERT_EQ(report.value().files.size(), 1u);
                ASSERT_EQ(report.value().files.front().outcome, recover::Outcome::kWaiting)
                    << report.value().files.front().status.message();
                ASSERT_TRUE(same(world.contents(), target)) << "not touched before all have come";
                ASSERT_TRUE(world.left(order[i])) << "the journal stays";
                waited += counts;
            } else {
                for (const auto& file : report.value().files)
                    ASSERT_TRUE(report.value().all_well()) << file.status.message();
            }
        }
        ASSERT_TRUE(same(world.contents(), program.committed()));
        // What the earlier ones still keep goes when they look again; the file stays as it is.
        for (const std::size_t node : order)
            if (world.left(node)) {
                ASSERT_EQ(world.recovered(node).outcome, recover::Outcome::kComplete);
                ASSERT_FALSE(world.left(node));
            }
        ASSERT_TRUE(same(world.contents(), program.committed()));
        ASSERT_THAT(world.bypasses(), testing::IsEmpty());
    }
    EXPECT_GT(commits, 0u);
    EXPECT_GT(preserved, 0u) << "something had to be undone";
    EXPECT_GT(waited, 0u);
    EXPECT_GT(kills, 0u);
}

// Nodes are killed while they recover, in any order, and others go on; the file looks as if it had been written long
// after.
TEST(SeveralNodes, of_which_any_is_killed_while_it_recovers_leave_the_rest_to_whoever_comes_next) {
    std::uint64_t kills = 0, taken_over = 0;
    // With 7, 57 and 59 a node is killed while it writes, which is rare.
    for (const std::uint64_t seed :
         test::seeds("of_which_any_is_killed_while_it_recovers_leave_the_rest_to_whoever_comes_next", 150,
                     {1, 2, 3, 7, 57, 59})) {
        if (HasFailure()) break;
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937_64 random(seed * 104729);
        const auto below = [&](std::uint64_t limit) { return random() % limit; };
        const std::size_t nodes = 2 + below(2);
        std::vector<std::size_t> node_of;
        for (std::size_t rank = 0; rank < nodes + below(3); ++rank)
            node_of.push_back(rank < nodes ? rank : below(nodes));
        const auto before = bytes_of(below(kSpace), seed);
        TeamWorld world(node_of, before);
        Program program(world, seed, before);
        program.run();
        if (HasFailure()) return;
        const std::uint64_t counts = seed <= test::kFixedSeedMax ? 1 : 0;
        const auto torn = world.contents();
        const auto note_change = [&] {
            if (!same(world.contents(), torn)) world.modified_ns = UINT64_MAX / 2;
        };
        for (std::uint64_t tries = below(12); tries > 0; --tries) {
            (void)world.recover(below(nodes), 1 + below(120));
            kills += world.killed ? counts : 0;
            note_change();
        }
        taken_over += world.modified_ns != 0 && !world.bypasses().empty() ? counts : 0;
        for (std::size_t i = 0; i < 2 * nodes; ++i) {
            const auto report = world.recover(i % nodes);
            ASSERT_TRUE(report) << report.status().message();
            for (const auto& file : report.value().files) {
                ASSERT_NE(file.outcome, recover::Outcome::kRefused) << file.status.message();
                ASSERT_NE(file.outcome, recover::Outcome::kFailed) << file.status.message();
            }
            note_change();
        }
        for (std::size_t node = 0; node < nodes; ++node) ASSERT_FALSE(world.left(node)) << "node " << node;
        ASSERT_TRUE(same(world.contents(), program.committed()));
        ASSERT_THAT(world.bypasses(), testing::IsEmpty());
    }
    EXPECT_GT(kills, 0u);
    EXPECT_GT(taken_over, 0u) << "killed while it wrote";
}

}   // namespace
}   // namespace forebay
