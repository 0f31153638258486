// Peers that any thread may ask: each part of the file has a home, which gives it; what it does not give comes from the
// file, and no byte is wrong.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "cache/attached_replica.h"
#include "cache/cached_file.h"
#include "cache/peers.h"
#include "io/memory_file.h"
#include "support/memory_source.h"
#include "support/team_files.h"

namespace forebay::cache {
namespace {

using Source = test::CountedSource;
using test::bytes_of;
using test::same;

std::atomic<std::uint64_t> clock_ns{1'000'000'000'000};
std::uint64_t now() noexcept { return clock_ns; }
std::uint64_t standing() noexcept { return 5; }

class Room final : public Account {
  public:
    bool take(std::uint64_t) noexcept override { return has_room_; }
    void give_back(std::uint64_t) noexcept override {}
    std::atomic<bool> has_room_{true};
};

constexpr std::uint64_t kStripe = 4 * kUnitBytes;

// Every other stripe has another home.
class Homes final : public Peers {
  public:
    explicit Homes(const std::vector<std::byte>& content) : content_(content) {}
    bool usable() noexcept override { return true; }
    std::uint64_t piece_bytes() const noexcept override { return kBlockBytes; }
    std::uint64_t first_byte() const noexcept override { return 5 * kUnitBytes; }
    Peers::Homes homes() const noexcept override { return {kStripe, 0, 1}; }
    PeerAnswer tell(ByteRange pieces, std::uint64_t, std::vector<Run>& before) noexcept override {
        before.clear();
        for (std::uint64_t at = pieces.begin; at < pieces.end;) {
            const std::uint64_t end = std::min(pieces.end, (at / kStripe + 1) * kStripe);
            before.push_back({{at, end}, at / kStripe % 2 == 0 ? kSelf : 1});
            at = end;
        }
        return PeerAnswer::kYes;
    }
    void take_back(const Run&) noexcept override {}
    PeerAnswer read(Node, ByteRange blocks, io::MutableBytes into, std::uint64_t) noexcept override {
        if (answer_ != PeerAnswer::kYes) {
            std::fill(into.begin(), into.end(), std::byte{0xee});   // what it holds does not count
            return answer_;
        }
        bytes_ += blocks.size();
        std::copy_n(content_.begin() + static_cast<std::ptrdiff_t>(blocks.begin), blocks.size(), into.begin());
        return PeerAnswer::kYes;
    }
    void help() noexcept override {}
    void leave() noexcept override {}

    std::atomic<PeerAnswer> answer_{PeerAnswer::kYes};
    std::atomic<std::uint64_t> bytes_{0};

  private:
    const std::vector<std::byte>& content_;
};

class HomesTest : public testing::Test {
  protected:
    static constexpr std::uint64_t kSize = 10 * kUnitBytes + 12345, kTheirs = kStripe;   // of three, the second

    HomesTest() {
        clock_ns = 1'000'000'000'000;
        const Version version = version_of({1, 2}, source_->state(io::File::Ask::kTimes).value());
        auto folder = area_->create_directory("node");
        replica_ = Replica::open(std::move(folder).value(), version, {}, 1, room_).value();
        const CachePolicy policy{.young_ns = 1000, .now_ns = now, .steady_ns = standing, .judge_speed = false};
        file_ = std::make_unique<CachedFile>(source_, replica_, tasks_, policy, homes_);
    }
    bool reads_right(std::uint64_t offset, std::size_t size) {
        std::vector<std::byte> bytes(size);
        const auto got = file_->read_at(offset, bytes);
        if (!got) return false;
        bytes.resize(got.value());
        const std::uint64_t end = std::min<std::uint64_t>(offset + size, kSize);
        return same(bytes, {content_.begin() + static_cast<std::ptrdiff_t>(offset),
                            content_.begin() + static_cast<std::ptrdiff_t>(end)});
    }

    const std::vector<std::byte> content_ = bytes_of(kSize, 1);
    const std::shared_ptr<Source> source_ = std::make_shared<Source>(content_);
    const std::shared_ptr<Homes> homes_ = std::make_shared<Homes>(content_);
    const std::shared_ptr<Room> room_ = std::make_shared<Room>();
    std::unique_ptr<io::Directory> area_ = io::make_memory_directory("/local/forebay-0/cache");
    task::Engine tasks_{{.threads_max = 2}};
    std::shared_ptr<Replica> replica_;
    std::unique_ptr<CachedFile> file_;
};

TEST_F(HomesTest, what_another_node_is_the_home_of_comes_from_there_and_is_stored) {
    EXPECT_TRUE(reads_right(0, kSize));
    file_->await_stored();
    EXPECT_EQ(source_->bytes_, kSize - kTheirs);
    EXPECT_EQ(homes_->bytes_, kTheirs);
    EXPECT_EQ(file_->counters().remote_bytes, kTheirs);
    EXPECT_EQ(file_->counters().missed_bytes, kSize - kTheirs);
    EXPECT_TRUE(reads_right(0, kSize));
    EXPECT_EQ(homes_->bytes_, kTheirs) << "the second time it is here";
    EXPECT_EQ(file_->counters().hit_bytes, kSize);
}

TEST_F(HomesTest, a_prefetch_and_what_is_read_ahead_come_from_there_too) {
    file_->attached()->prefetcher().prefetch_all();
    (void)tasks_.wait_all();
    EXPECT_EQ(source_->bytes_, kSize - kTheirs);
    EXPECT_EQ(homes_->bytes_, kTheirs);
    EXPECT_EQ(file_->counters().fetched_bytes, kSize - kTheirs);
    EXPECT_TRUE(reads_right(0, kSize));
    EXPECT_EQ(file_->counters().hit_bytes, kSize);
}

TEST_F(HomesTest, what_a_home_does_not_give_comes_from_the_file) {
    homes_->answer_ = PeerAnswer::kLate;
    EXPECT_TRUE(reads_right(0, kSize));
    file_->await_stored();
    EXPECT_EQ(source_->bytes_, kSize);
    EXPECT_GT(file_->counters().late_answers, 0u);
    EXPECT_EQ(file_->counters().remote_bytes, 0u);
}

TEST_F(HomesTest, a_full_cache_leaves_them_to_their_home) {
    room_->has_room_ = false;
    for (int turn = 0; turn < 3; ++turn) {
        EXPECT_TRUE(reads_right(kStripe + 77, 1000));
        file_->await_stored();
    }
    EXPECT_EQ(file_->counters().aside, Aside::kFull);
    EXPECT_EQ(source_->bytes_, 0u);
    EXPECT_EQ(file_->counters().remote_bytes, 3000u);
}

TEST_F(HomesTest, a_young_file_is_nobody_s) {
    clock_ns = 500;
    EXPECT_TRUE(reads_right(0, kSize));
    EXPECT_EQ(source_->bytes_, kSize);
    EXPECT_EQ(homes_->bytes_, 0u);
}

TEST_F(HomesTest, a_forked_child_asks_them) {
    const pid_t child = ::fork();
    if (child == 0) {
        const bool right = reads_right(kStripe + 4321, 100'000) && source_->bytes_ == 0 && homes_->bytes_ == 100'000;
        ::_exit(right ? 0 : 1);
    }
    int ended = -1;
    EXPECT_EQ(::waitpid(child, &ended, 0), child);
    EXPECT_EQ(ended, 0);
}

TEST_F(HomesTest, one_read_of_a_forked_child_is_of_one_version) {
    const pid_t child = ::fork();
    if (child == 0) {
        const bool right = reads_right(kStripe - 1000, 3000) && homes_->bytes_ == 2000 && source_->bytes_ == 1000;
        source_->changes_ = 1;
        const bool again = reads_right(kStripe - 1000, 3000) && source_->bytes_ == 1000 + 1000 + 3000;
        ::_exit(right && again ? 0 : 1);
    }
    int ended = -1;
    EXPECT_EQ(::waitpid(child, &ended, 0), child);
    EXPECT_EQ(ended, 0) << "the bytes before the server's are the file's";
}

TEST_F(HomesTest, threads_that_read_at_once_read_right) {
    std::vector<std::jthread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread)
        threads.emplace_back([&, thread] {
            std::mt19937_64 random(thread);
            for (int turn = 0; turn < 200; ++turn) EXPECT_TRUE(reads_right(random() % kSize, 1 + random() % 60'000));
        });
    threads.clear();
    (void)tasks_.wait_all();
    EXPECT_TRUE(reads_right(0, kSize));
}

TEST_F(HomesTest, nobody_joins_them) {
    EXPECT_TRUE(file_->attached()->has_peers());
    EXPECT_FALSE(file_->attached()->join(std::make_shared<Homes>(content_)));
    file_->attached()->part();
    EXPECT_TRUE(file_->attached()->has_peers());
}

TEST_F(HomesTest, who_must_be_sure_of_the_version_is_told_of_another_one) {
    std::vector<std::byte> bytes(kSize);
    EXPECT_TRUE(file_->attached()->reader().read_version(0, io::MutableBytes(bytes).first(kUnitBytes)));
    file_->await_stored();
    source_->changes_ = 1;
    EXPECT_TRUE(file_->attached()->reader().read_version(0, io::MutableBytes(bytes).first(kUnitBytes)))
        << "it is in the replica";
    EXPECT_EQ(file_->attached()->reader().read_version(0, bytes).status().code(), Code::kUnavailable);
    EXPECT_EQ(file_->attached()->reader().read_version(0, io::MutableBytes(bytes).first(kUnitBytes)).status().code(),
              Code::kUnavailable);
    EXPECT_TRUE(file_->attached()->replica()->unusable());
}

}   // namespace
}   // namespace forebay::cache
