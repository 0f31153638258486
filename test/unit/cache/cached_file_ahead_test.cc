// What is fetched ahead into memory, in a known order, as the cache has no room for it.
#include <algorithm>
#include <random>
#include <thread>

#include "unit/cache/cached_file_steps.h"

namespace forebay::cache {
namespace {

class CachedFileAheadTest : public CachedFileTest {
  protected:
    static constexpr std::uint64_t kStored = 4 * kUnitBytes, kRow = kUnitBytes / 4 + 100;

    CachedFileAheadTest() { purse_ = std::make_shared<Purse>(Presence::bytes_for(kSize) + kStored); }

    // All rows of the file, shuffled.
    static std::vector<ByteRange> shuffled(unsigned seed) {
        std::vector<ByteRange> rows;
        for (std::uint64_t at = 0; at < kSize; at += kRow) rows.push_back({at, std::min(at + kRow, kSize)});
        std::shuffle(rows.begin(), rows.end(), std::mt19937(seed));
        return rows;
    }
    // Fills the cache from the beginning of the file on.
    std::unique_ptr<CachedFile> open_full(CachePolicy policy = policy_of()) {
        policy.read_ahead = false;
        auto file = open(replica(), policy);
        for (std::uint64_t unit = 0; unit < 5; ++unit) {
            (void)read(*file, unit * kUnitBytes, kUnitBytes);
            file->await_stored();
        }
        EXPECT_EQ(replica()->stored_bytes(), kStored);
        EXPECT_EQ(file->counters().aside.load(), Aside::kFull);
        return file;
    }
    void expect_reads(CachedFile& file, std::span<const ByteRange> rows) {
        for (const ByteRange row : rows)
            EXPECT_TRUE(same(read(file, row.begin, row.size()), expected(row.begin, row.size())));
    }
    template <class Notice>
    void expect_dropped_by(Notice notice) {
        CachePolicy policy = policy_of();
        policy.shared = std::make_shared<SharedBudget>(std::uint64_t{64} << 20);
        const auto file = open_full(policy);
        const ByteRange row{5 * kUnitBytes, 6 * kUnitBytes};
        ASSERT_TRUE(file->attached()->prefetcher().prefetch({&row, 1}));
        (void)tasks_.wait_all();
        EXPECT_FALSE(policy.shared->has(policy.shared->limit()));
        const auto own = replica();
        const std::vector<std::byte> newer = bytes_of(kSize, 3);
        source_->change(newer);
        notice(*file, *own);
        const auto got = read(*file, row.begin, row.size());
        EXPECT_TRUE(std::equal(got.begin(), got.end(), newer.begin() + static_cast<std::ptrdiff_t>(row.begin)));
        EXPECT_TRUE(policy.shared->has(policy.shared->limit()));
    }
};

TEST_F(CachedFileAheadTest, bytes_that_the_cache_has_no_room_for_are_fetched_before_they_are_read) {
    CachePolicy policy = policy_of();
    policy.shared = std::make_shared<SharedBudget>(std::uint64_t{64} << 20);
    const auto file = open_full(policy);
    for (unsigned epoch = 0; epoch < 3; ++epoch) {
        const std::vector<ByteRange> order = shuffled(epoch);
        const std::uint64_t before = source_->bytes(), hits = file->counters().hit_bytes;
        const std::uint64_t ahead = file->counters().ahead_bytes;
        ASSERT_TRUE(file->attached()->prefetcher().prefetch(order));
        (void)tasks_.wait_all();
        EXPECT_EQ(source_->bytes() - before, kSize - kStored);
        EXPECT_EQ(file->attached()->prefetcher().left(), 0U) << "nothing more can be stored";
        EXPECT_FALSE(policy.shared->has(policy.shared->limit()));
        expect_reads(*file, order);
        EXPECT_EQ(source_->bytes() - before, kSize - kStored) << "no read went to the file";
        EXPECT_EQ(file->counters().hit_bytes - hits, kStored);
        EXPECT_EQ(file->counters().ahead_bytes - ahead, kSize - kStored);
        EXPECT_TRUE(policy.shared->has(policy.shared->limit())) << "each byte is dropped once it was read";
    }
    EXPECT_EQ(replica()->stored_bytes(), kStored) << "what was stored stays";
}

TEST_F(CachedFileAheadTest, a_prefetch_that_fills_the_cache_goes_on_into_memory) {
    const auto file = open(replica());
    const std::vector<ByteRange> order = shuffled(1);
    ASSERT_TRUE(file->attached()->prefetcher().prefetch(order));
    (void)tasks_.wait_all();
    const std::uint64_t fetched = source_->bytes();
    expect_reads(*file, order);
    EXPECT_EQ(source_->bytes(), fetched);
    EXPECT_GT(file->counters().ahead_bytes, 0U);
    EXPECT_EQ(file->counters().ahead_bytes + file->counters().hit_bytes, kSize);
}

TEST_F(CachedFileAheadTest, a_prefetch_pauses_while_its_memory_is_full_and_goes_on_as_reads_make_room) {
    CachePolicy policy = policy_of();
    policy.budget_bytes = 2 * kUnitBytes;   // a unit and a half is for this
    const auto file = open_full(policy);
    const std::vector<ByteRange> order = shuffled(7);
    const std::uint64_t before = source_->bytes();
    ASSERT_TRUE(file->attached()->prefetcher().prefetch(order));
    (void)tasks_.wait_all();
    EXPECT_LE(source_->bytes() - before, policy.budget_bytes * 3 / 4);
    EXPECT_GE(source_->bytes() - before, kUnitBytes);
    for (const ByteRange row : order) {
        expect_reads(*file, {&row, 1});
        (void)tasks_.wait_all();
    }
    EXPECT_EQ(source_->bytes() - before, kSize - kStored) << "all of it came by the prefetch, and once";
    EXPECT_GT(file->counters().ahead_bytes, kSize - kStored - policy.budget_bytes);
}

TEST_F(CachedFileAheadTest, a_prefetch_pauses_while_other_files_have_the_budget) {
    CachePolicy policy = policy_of();
    policy.shared = std::make_shared<SharedBudget>(8 * kUnitBytes);
    const auto file = open_full(policy);
    ASSERT_TRUE(policy.shared->take(5 * kUnitBytes));
    const std::vector<ByteRange> order{{6 * kUnitBytes, 7 * kUnitBytes}, {8 * kUnitBytes, 9 * kUnitBytes}};
    const std::uint64_t before = source_->bytes();
    ASSERT_TRUE(file->attached()->prefetcher().prefetch(order));
    (void)tasks_.wait_all();
    EXPECT_EQ(source_->bytes(), before) << "half of it is for bytes that are to be stored";
    policy.shared->give_back(5 * kUnitBytes);
    expect_reads(*file, {order.data(), 1});
    (void)tasks_.wait_all();
    EXPECT_EQ(source_->bytes() - before, 2 * kUnitBytes) << "the read has made it go on";
    expect_reads(*file, {order.data() + 1, 1});
    EXPECT_EQ(source_->bytes() - before, 2 * kUnitBytes);
}

TEST_F(CachedFileAheadTest, a_read_waits_for_no_queue) {
    const auto file = open_full();
    const std::vector<ByteRange> order{{5 * kUnitBytes, 6 * kUnitBytes},
                                       {6 * kUnitBytes, 7 * kUnitBytes},
                                       {7 * kUnitBytes, 8 * kUnitBytes},
                                       {8 * kUnitBytes, 9 * kUnitBytes}};
    const std::uint64_t bytes = source_->bytes();
    source_->set_shut(true);
    ASSERT_TRUE(file->attached()->prefetcher().prefetch(order));
    source_->await_reads(5 + 2);   // as many as there are threads; the others wait in the queue
    std::thread reader([&] { expect_reads(*file, {order.data() + 3, 1}); });
    source_->await_reads(5 + 3);
    source_->set_shut(false);
    reader.join();
    (void)tasks_.wait_all();
    EXPECT_EQ(source_->bytes() - bytes, 4 * kUnitBytes) << "what it has read itself is not fetched again";
    expect_reads(*file, {order.data(), 3});
    EXPECT_EQ(source_->bytes() - bytes, 4 * kUnitBytes);
}

TEST_F(CachedFileAheadTest, a_read_waits_for_its_own_bytes_that_are_being_fetched) {
    CachePolicy policy = policy_of();
    policy.wait_min_ns = 60'000'000'000;
    const auto file = open_full(policy);
    const ByteRange row{5 * kUnitBytes, 6 * kUnitBytes};
    const std::uint64_t bytes = source_->bytes();
    source_->set_shut(true);
    ASSERT_TRUE(file->attached()->prefetcher().prefetch({&row, 1}));
    source_->await_reads(5 + 1);
    std::thread reader([&] { expect_reads(*file, {&row, 1}); });
    source_->set_shut(false);
    reader.join();
    EXPECT_EQ(source_->bytes() - bytes, kUnitBytes);
    EXPECT_EQ(file->counters().ahead_bytes, kUnitBytes);
}

TEST_F(CachedFileAheadTest, a_read_whose_bytes_are_long_in_coming_reads_the_file) {
    CachePolicy policy = policy_of();
    policy.wait_min_ns = 1;
    policy.shared = std::make_shared<SharedBudget>(std::uint64_t{64} << 20);
    const auto file = open_full(policy);
    const ByteRange row{5 * kUnitBytes, 6 * kUnitBytes};
    source_->set_shut(true);
    ASSERT_TRUE(file->attached()->prefetcher().prefetch({&row, 1}));
    source_->await_reads(5 + 1);
    std::thread reader([&] { expect_reads(*file, {&row, 1}); });
    source_->await_reads(5 + 2);
    source_->set_shut(false);
    reader.join();
    (void)tasks_.wait_all();
    EXPECT_TRUE(policy.shared->has(policy.shared->limit())) << "the bytes that came too late are not kept";
}

TEST_F(CachedFileAheadTest, a_read_never_combines_two_versions) {
    const auto file = open_full();
    const ByteRange row{5 * kUnitBytes, 6 * kUnitBytes};
    ASSERT_TRUE(file->attached()->prefetcher().prefetch({&row, 1}));
    (void)tasks_.wait_all();
    const std::vector<std::byte> newer = bytes_of(kSize, 2);
    source_->change(newer);
    const auto got = read(*file, row.begin, 2 * kUnitBytes);   // the second half is not in memory
    EXPECT_TRUE(std::equal(got.begin(), got.end(), newer.begin() + static_cast<std::ptrdiff_t>(row.begin)));
    EXPECT_EQ(file->counters().ahead_bytes, 0U);
    EXPECT_EQ(file->counters().aside.load(), Aside::kChanged);
}

TEST_F(CachedFileAheadTest, bytes_in_memory_go_with_their_version) {
    expect_dropped_by([](CachedFile& file, Replica&) { file.look_again(); });
}

TEST_F(CachedFileAheadTest, bytes_in_memory_go_once_another_process_has_seen_the_new_version) {
    expect_dropped_by([](CachedFile&, Replica& replica) { replica.make_void(); });
}

TEST_F(CachedFileAheadTest, bytes_of_a_file_that_changes_while_they_are_fetched_are_not_held) {
    const auto file = open_full();
    const ByteRange row{5 * kUnitBytes, 6 * kUnitBytes};
    source_->set_shut(true);
    ASSERT_TRUE(file->attached()->prefetcher().prefetch({&row, 1}));
    source_->await_reads(5 + 1);
    const std::vector<std::byte> newer = bytes_of(kSize, 4);
    source_->change(newer);
    source_->set_shut(false);
    (void)tasks_.wait_all();
    EXPECT_EQ(file->counters().aside.load(), Aside::kChanged);
    const auto got = read(*file, row.begin, row.size());
    EXPECT_TRUE(std::equal(got.begin(), got.end(), newer.begin() + static_cast<std::ptrdiff_t>(row.begin)));
    EXPECT_EQ(file->counters().ahead_bytes, 0U);
}

TEST_F(CachedFileAheadTest, a_source_that_fails_ahead_of_a_read_does_not_fail_the_read) {
    const auto file = open_full();
    const ByteRange row{5 * kUnitBytes, 6 * kUnitBytes};
    source_->set_failing(true);
    ASSERT_TRUE(file->attached()->prefetcher().prefetch({&row, 1}));
    (void)tasks_.wait_all();
    source_->set_failing(false);
    expect_reads(*file, {&row, 1});
}

TEST_F(CachedFileAheadTest, an_order_that_is_not_the_programs_ends_the_prefetch_into_memory) {
    CachePolicy policy = policy_of();
    policy.budget_bytes = 2 * kUnitBytes;
    const auto file = open_full(policy);
    const ByteRange named{7 * kUnitBytes, kSize}, other{5 * kUnitBytes, 5 * kUnitBytes + 64 * kBlockBytes};
    const std::uint64_t before = source_->bytes();
    std::uint64_t own = 0;
    for (int turn = 0; turn < 20; ++turn) {
        ASSERT_TRUE(file->attached()->prefetcher().prefetch({&named, 1}));
        (void)tasks_.wait_all();
        expect_reads(*file, {&other, 1});
        own += other.size();
    }
    (void)tasks_.wait_all();
    EXPECT_LE(source_->bytes() - before - own, 2 * policy.budget_bytes);
    EXPECT_GT(file->attached()->unread_bytes(), 0U);
}

TEST_F(CachedFileAheadTest, a_whole_file_has_no_order_and_is_not_fetched_into_memory) {
    const auto file = open_full();
    const std::uint64_t before = source_->bytes();
    const ByteRange whole{0, kOffsetMax};
    ASSERT_TRUE(file->attached()->prefetcher().prefetch({&whole, 1}));
    file->attached()->prefetcher().prefetch_all();
    (void)tasks_.wait_all();
    EXPECT_EQ(source_->bytes(), before);
    const ByteRange row{5 * kUnitBytes, 6 * kUnitBytes};
    ASSERT_TRUE(file->attached()->prefetcher().prefetch({&row, 1})) << "a part of it is, later too";
    (void)tasks_.wait_all();
    EXPECT_EQ(source_->bytes() - before, kUnitBytes);
}

TEST_F(CachedFileAheadTest, cancel_and_close_give_the_memory_back) {
    CachePolicy policy = policy_of();
    policy.shared = std::make_shared<SharedBudget>(std::uint64_t{64} << 20);
    auto file = open_full(policy);
    const std::vector<ByteRange> order = shuffled(1);
    for (const bool closes : {false, true}) {
        ASSERT_TRUE(file->attached()->prefetcher().prefetch(order));
        (void)tasks_.wait_all();
        EXPECT_FALSE(policy.shared->has(policy.shared->limit()));
        if (closes) file.reset();
        else file->attached()->prefetcher().cancel();
        EXPECT_TRUE(policy.shared->has(policy.shared->limit()));
    }
}

TEST_F(CachedFileAheadTest, a_row_that_comes_twice_is_fetched_once) {
    const auto file = open_full();
    const ByteRange row{5 * kUnitBytes, 6 * kUnitBytes};
    const std::vector<ByteRange> order{row, row};
    const std::uint64_t before = source_->bytes();
    ASSERT_TRUE(file->attached()->prefetcher().prefetch(order));
    (void)tasks_.wait_all();
    expect_reads(*file, order);
    EXPECT_EQ(source_->bytes() - before, kUnitBytes);
    EXPECT_EQ(file->counters().ahead_bytes, 2 * kUnitBytes);
}

}   // namespace
}   // namespace forebay::cache
