// What other nodes have of a file comes from them, what they do not give comes from the file, and no byte is wrong.
#include "cache/peers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "cache/attached_replica.h"
#include "cache/cached_file.h"
#include "cache/peer_patience.h"
#include "cache/peer_read.h"
#include "cache/peer_view.h"
#include "io/memory_file.h"
#include "support/memory_source.h"
#include "support/team_files.h"

namespace forebay::cache {
namespace {

using Source = test::CountedSource;
using test::bytes_of;
using test::same;

std::uint64_t later() noexcept { return 1'000'000'000'000; }
std::uint64_t standing() noexcept { return 5; }

class Unlimited final : public Account {
  public:
    bool take(std::uint64_t) noexcept override { return true; }
    void give_back(std::uint64_t) noexcept override {}
};

// The directory and the replicas of all nodes, and how they answer.
struct World {
    std::map<std::uint64_t, Peers::Node> directory;
    std::vector<std::shared_ptr<Replica>> replicas;
    PeerAnswer tell = PeerAnswer::kYes, read = PeerAnswer::kYes;
    std::uint64_t reads = 0, taken_back = 0;
};

constexpr std::uint64_t kStripe = 4 * kUnitBytes;

class PlayedPeers final : public Peers {
  public:
    PlayedPeers(World& world, Node own, std::uint64_t piece = kBlockBytes) : world_(world), own_(own), piece_(piece) {}
    bool usable() noexcept override { return true; }
    std::uint64_t piece_bytes() const noexcept override { return piece_; }
    std::uint64_t first_byte() const noexcept override { return own_ * kUnitBytes * 5; }
    Homes homes() const noexcept override { return {kStripe, own_, 2}; }
    PeerAnswer tell(ByteRange pieces, std::uint64_t, std::vector<Run>& before) noexcept override {
        EXPECT_EQ(pieces.begin % piece_, 0u);
        if (world_.tell != PeerAnswer::kYes) return world_.tell;
        before.clear();
        for (std::uint64_t at = pieces.begin; at < pieces.end; at += piece_) {
            Node holder = kNobody;
            if (const auto said = world_.directory.find(at); said != world_.directory.end()) holder = said->second;
            if (holder == own_) holder = kSelf;
            const ByteRange range{at, std::min(at + piece_, pieces.end)};
            if (!before.empty() && before.back().holder == holder) before.back().range.end = range.end;
            else before.push_back({range, holder});
            world_.directory[at] = own_;
        }
        return PeerAnswer::kYes;
    }
    void take_back(const Run& run) noexcept override {
        ++world_.taken_back;
        for (std::uint64_t at = run.range.begin; at < run.range.end; at += piece_)
            if (run.holder == kNobody) world_.directory.erase(at);
            else world_.directory[at] = run.holder;
    }
    PeerAnswer read(Node holder, ByteRange blocks, io::MutableBytes into, std::uint64_t) noexcept override {
        ++world_.reads;
        if (world_.read != PeerAnswer::kYes) {
            std::fill(into.begin(), into.end(), std::byte{0xee});   // what it holds does not count
            return world_.read;
        }
        EXPECT_EQ(into.size(), blocks.size());
        return world_.replicas[holder]->read(blocks.begin, into) == into.size() ? PeerAnswer::kYes
                                                                                : PeerAnswer::kNotThere;
    }
    void help() noexcept override {}
    void leave() noexcept override {}

  private:
    World& world_;
    const Node own_;
    const std::uint64_t piece_;
};

class PeersTest : public testing::TestWithParam<std::uint64_t> {
  protected:
    static constexpr std::uint64_t kSize = 10 * kUnitBytes + 12345;

    PeersTest() : content_(bytes_of(kSize, 1)), source_(std::make_shared<Source>(content_)) {
        const Version version = version_of({1, 2}, source_->state(io::File::Ask::kTimes).value());
        for (Peers::Node node = 0; node < 2; ++node) {
            auto folder = area_->create_directory("node" + std::to_string(node));
            world_.replicas.push_back(
                Replica::open(std::move(folder).value(), version, {}, 1, std::make_shared<Unlimited>()).value());
            const CachePolicy policy{.young_ns = 1000, .now_ns = later, .steady_ns = standing, .judge_speed = false};
            files_.push_back(std::make_unique<CachedFile>(source_, world_.replicas.back(), tasks_, policy));
            EXPECT_TRUE(files_.back()->attached()->join(std::make_shared<PlayedPeers>(world_, node, GetParam())));
        }
    }
    void prefetch(std::size_t node, ByteRange range = {0, kOffsetMax}) {
        ASSERT_TRUE(files_[node]->attached()->prefetcher().prefetch({&range, 1}));
        (void)tasks_.wait_all();
        EXPECT_EQ(files_[node]->attached()->prefetcher().left(), 0u);
    }
    bool reads_right(std::size_t node, std::uint64_t offset, std::size_t size) {
        std::vector<std::byte> bytes(size);
        const auto got = files_[node]->read_at(offset, bytes);
        EXPECT_TRUE(got) << got.status().message();
        const std::uint64_t end = std::min<std::uint64_t>(offset + size, kSize);
        bytes.resize(got ? got.value() : 0);
        files_[node]->await_stored();
        return same(bytes, {content_.begin() + static_cast<std::ptrdiff_t>(offset),
                            content_.begin() + static_cast<std::ptrdiff_t>(end)});
    }

    std::vector<std::byte> content_;
    std::shared_ptr<Source> source_;
    World world_;
    std::unique_ptr<io::Directory> area_ = io::make_memory_directory("/local/forebay-0/cache");
    task::Engine tasks_{{.threads_max = 2}};
    std::vector<std::unique_ptr<CachedFile>> files_;
};
INSTANTIATE_TEST_SUITE_P(PiecesOf, PeersTest, testing::Values(kBlockBytes, 4 * kBlockBytes, kUnitBytes));

TEST_P(PeersTest, two_nodes_that_shuffle_the_file_read_it_once) {
    std::mt19937_64 random(7);
    for (int i = 0; i < 400; ++i)
        EXPECT_TRUE(reads_right(static_cast<std::size_t>(random() % 2), random() % kSize, 1 + random() % 60'000));
    // A read waits for what a task fetches no longer than the file would take, then reads the file, and stores nothing.
    // So a little is read twice. Each turn stores at least the first gap that there is in a unit.
    const auto is_whole = [](const auto& replica) { return replica->stored_bytes() >= kSize; };
    for (std::uint64_t turn = 0; turn <= kUnitBlocks && !std::ranges::all_of(world_.replicas, is_whole); ++turn)
        for (std::size_t node = 0; node < 2; ++node) {
            (void)tasks_.wait_all();
            EXPECT_TRUE(reads_right(node, 0, kSize));
        }
    (void)tasks_.wait_all();
    EXPECT_GE(source_->bytes_, kSize);
    EXPECT_LT(source_->bytes_, 3 * kSize) << "of more than four that were asked for";
    for (const auto& file : files_) EXPECT_GT(file->counters().remote_bytes, 0u);
    std::uint64_t fetched = 0;
    for (const auto& file : files_) fetched += file->counters().fetched_bytes;
    EXPECT_EQ(fetched, source_->bytes_);
    for (const auto& replica : world_.replicas) EXPECT_GE(replica->stored_bytes(), kSize) << "both have all of it";
}

TEST_P(PeersTest, what_all_nodes_prefetch_is_read_from_the_file_once) {
    for (std::size_t node = 0; node < 2; ++node) prefetch(node);
    EXPECT_EQ(source_->bytes_, kSize);
    EXPECT_EQ(files_[0]->counters().fetched_bytes, kSize - kStripe);
    EXPECT_EQ(files_[1]->counters().fetched_bytes, kStripe) << "each has what it is the home of";
    for (int turn = 0; turn < 2; ++turn)
        for (std::size_t node = 0; node < 2; ++node) {
            (void)tasks_.wait_all();
            EXPECT_TRUE(reads_right(node, 0, kSize));
        }
    EXPECT_EQ(source_->bytes_, kSize);
    EXPECT_EQ(files_[0]->counters().remote_bytes, kStripe);
    EXPECT_EQ(files_[1]->counters().remote_bytes, kSize - kStripe);
}

TEST_P(PeersTest, ranges_that_all_nodes_prefetch_are_read_from_the_file_once) {
    const ByteRange range{kStripe - 100'000, 2 * kStripe + 5000};
    for (const std::size_t node : {1, 0, 1, 0}) prefetch(node, range);
    EXPECT_LT(source_->bytes_, range.size() + 2 * kUnitBytes);
    for (std::size_t node = 0; node < 2; ++node) {
        EXPECT_TRUE(reads_right(node, range.begin, range.size()));
        EXPECT_EQ(files_[node]->counters().missed_bytes, 0u);
    }
}

TEST_P(PeersTest, a_node_that_does_not_prefetch_reads_the_rest_when_it_is_asked_for) {
    prefetch(0);
    EXPECT_EQ(source_->bytes_, kSize - kStripe);
    for (const std::size_t node : {1, 0}) {
        EXPECT_TRUE(reads_right(node, 0, kSize));
        (void)tasks_.wait_all();
    }
    EXPECT_EQ(source_->bytes_, kSize);
}

TEST_P(PeersTest, a_prefetch_leaves_out_what_another_node_has_said_to_have) {
    EXPECT_TRUE(reads_right(1, 0, 100'000));   // node 0 is the home
    const std::uint64_t before = files_[1]->counters().fetched_bytes;
    prefetch(0);
    EXPECT_EQ(source_->bytes_, kSize - kStripe) << "the first part is node 1's";
    EXPECT_EQ(files_[0]->counters().fetched_bytes, kSize - kStripe - before);
    EXPECT_TRUE(reads_right(0, 0, 100'000));
    EXPECT_EQ(source_->bytes_, kSize - kStripe);
}

TEST_P(PeersTest, a_prefetch_that_nobody_is_told_of_reads_its_part_all_the_same) {
    for (const PeerAnswer tell : {PeerAnswer::kLate, PeerAnswer::kNotAsked}) {
        world_.tell = tell;
        for (std::size_t node = 0; node < 2; ++node) prefetch(node);
    }
    EXPECT_EQ(source_->bytes_, kSize);
    for (std::size_t node = 0; node < 2; ++node) EXPECT_TRUE(reads_right(node, 0, kSize));
}

TEST_P(PeersTest, what_was_asked_for_came_from_here_or_there_or_the_file) {
    std::uint64_t asked = 0;
    std::mt19937_64 random(8);
    for (int i = 0; i < 100; ++i) {
        const std::uint64_t at = random() % (kSize - 50'000), size = 1 + random() % 50'000;
        EXPECT_TRUE(reads_right(static_cast<std::size_t>(i % 2), at, size));
        asked += size;
    }
    std::uint64_t told = 0;
    for (const auto& file : files_)
        told += file->counters().hit_bytes + file->counters().missed_bytes + file->counters().remote_bytes;
    EXPECT_EQ(told, asked);
}

TEST_P(PeersTest, whatever_peers_answer_the_bytes_are_the_files) {
    for (const PeerAnswer tell : {PeerAnswer::kYes, PeerAnswer::kLate, PeerAnswer::kNotAsked})
        for (const PeerAnswer read : {PeerAnswer::kNotThere, PeerAnswer::kLate, PeerAnswer::kNotAsked}) {
            world_.tell = tell;
            world_.read = read;
            for (std::uint64_t unit = 0; unit < 10; ++unit)
                for (std::size_t node = 0; node < 2; ++node)
                    EXPECT_TRUE(reads_right(node, unit * kUnitBytes + 777, 100'000));
        }
    EXPECT_EQ(files_[0]->counters().remote_bytes + files_[1]->counters().remote_bytes, 0u);
}

TEST_P(PeersTest, a_file_that_fails_gives_its_error) {
    source_->failing_ = true;
    std::vector<std::byte> into(1000);
    EXPECT_FALSE(files_[0]->read_at(0, into));
    source_->failing_ = false;
    EXPECT_TRUE(reads_right(0, 0, 1000));
    EXPECT_TRUE(reads_right(1, 0, 1000));
}

TEST_P(PeersTest, a_file_that_was_left_asks_nobody) {
    EXPECT_TRUE(reads_right(0, 0, kSize));
    files_[1]->attached()->part();
    EXPECT_TRUE(reads_right(1, 0, kSize));
    EXPECT_EQ(world_.reads, 0u);
    EXPECT_FALSE(files_[1]->attached()->has_peers());
}

TEST(PeerPatienceTest, waiting_in_vain_costs_no_more_than_was_saved_and_a_little) {
    constexpr std::uint64_t kCost = 1'000'000;
    PeerPatience patience;
    std::uint64_t lost = 0, asked = 0;
    for (int i = 0; i < 100'000; ++i)
        if (const std::uint64_t bound = patience.bound_ns(kCost); bound > 0) {
            patience.late(bound);
            lost += bound;
            ++asked;
        }
    EXPECT_LT(asked, 120u);
    EXPECT_LT(lost, 150'000'000u) << "of 100 s";
}

TEST(PeerPatienceTest, a_peer_that_answers_again_is_asked_again) {
    PeerPatience patience;
    for (int i = 0; i < 5000; ++i)
        if (patience.bound_ns(1'000'000) > 0) patience.late(1'000'000);
    std::uint64_t answered = 0;
    for (int i = 0; i < 5000; ++i)
        if (patience.bound_ns(1'000'000) > 0) {
            patience.answered(1'000'000, 100'000);
            ++answered;
        }
    EXPECT_GT(answered, 3000u);
}

TEST(PeerPatienceTest, without_a_known_cost_nobody_is_asked) {
    PeerPatience patience;
    EXPECT_EQ(patience.bound_ns(0), 0u);
    EXPECT_GT(patience.bound_ns(1), 0u);
}

TEST(SourcePaceTest, a_small_request_takes_as_long_as_usual_and_a_large_one_longer) {
    SourcePace pace;
    EXPECT_EQ(pace.cost_ns(65536), 0u);
    for (int i = 0; i < 100; ++i) pace.note(65536, 800'000);
    EXPECT_NEAR(static_cast<double>(pace.cost_ns(4096)), 800'000.0, 10'000.0);
    EXPECT_NEAR(static_cast<double>(pace.cost_ns(4 * 65536)), 3'200'000.0, 200'000.0);
    pace.note(65536, UINT64_MAX);
    EXPECT_LE(pace.cost_ns(65536), 200'000'000u);
}

TEST(PeerViewTest, blocks_that_have_gone_or_may_have_do_not_count) {
    PeerView first(ByteRange{kUnitBytes - kBlockBytes, kUnitBytes + 100});
    ASSERT_EQ(first.entries.size(), 2u);
    EXPECT_EQ(first.first_unit(), 0u);
    EXPECT_EQ(first.blocks(), 2u);
    first.state = MapState::kValid;
    EXPECT_FALSE(first.all_present());
    first.entries[0].present = std::uint64_t{1} << 63;
    first.entries[1].present = 1;
    EXPECT_TRUE(first.all_present());
    PeerView second = first;
    EXPECT_TRUE(second.still(first));
    second.entries[1].generation = 1;
    EXPECT_FALSE(second.still(first)) << "it was taken away, and came back";
    second = first;
    second.entries[0].present = 0;
    EXPECT_FALSE(second.still(first));
    second = first;
    second.state = MapState::kVoid;
    EXPECT_FALSE(second.still(first));
}

TEST(PeerViewTest, bytes_that_do_not_fit_their_checksums_do_not_count) {
    auto bytes = bytes_of(2 * kBlockBytes + 100, 3);
    const auto all = io::Bytes(bytes);
    std::vector<std::uint32_t> checksums{block_checksum(all.first(kBlockBytes)),
                                         block_checksum(all.subspan(kBlockBytes, kBlockBytes)),
                                         block_checksum(all.subspan(2 * kBlockBytes))};
    EXPECT_TRUE(fit(bytes, checksums));
    EXPECT_FALSE(fit(bytes, std::span(checksums).first(2)));
    for (const std::size_t at : {std::size_t{0}, std::size_t{5000}, bytes.size() - 1}) {
        bytes[at] ^= std::byte{1};
        EXPECT_FALSE(fit(bytes, checksums)) << at;
        bytes[at] ^= std::byte{1};
    }
    checksums.push_back(0);
    EXPECT_FALSE(fit(bytes, checksums));
}

}   // namespace
}   // namespace forebay::cache
