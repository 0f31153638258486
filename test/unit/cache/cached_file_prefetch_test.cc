// What is fetched of a cached file before it is asked for.
#include <thread>

#include "unit/cache/cached_file_steps.h"

namespace forebay::cache {
namespace {

TEST_F(CachedFileTest, what_was_fetched_unasked_and_is_not_read_is_counted) {
    const auto file = open(replica());
    (void)read(*file, 9 * kUnitBytes, kBlockBytes);
    file->await_stored();
    EXPECT_EQ(file->attached()->unread_bytes(), 0u) << "that was asked for";
    const std::vector<ByteRange> wanted{{0, 2 * kUnitBytes}, {5 * kUnitBytes, 5 * kUnitBytes + kBlockBytes}};
    ASSERT_TRUE(file->attached()->prefetcher().prefetch(wanted));
    (void)tasks_.wait_all();
    EXPECT_EQ(file->attached()->unread_bytes(), 2 * kUnitBytes + kBlockBytes);
    for (int turn = 0; turn < 2; ++turn) (void)read(*file, kUnitBytes - 1, 2 * kBlockBytes);
    EXPECT_EQ(file->attached()->unread_bytes(), 2 * kUnitBytes - 2 * kBlockBytes)
        << "the last of the first unit, two of the next";
}

TEST_F(CachedFileTest, what_is_prefetched_is_read_from_the_file_once_and_in_the_order_that_was_asked_for) {
    const auto file = open(replica());
    const std::vector<ByteRange> wanted{{5 * kUnitBytes, 7 * kUnitBytes}, {0, kUnitBytes}, {kSize - 10, kOffsetMax}};
    source_->set_shut(true);
    ASSERT_TRUE(file->attached()->prefetcher().prefetch(wanted));
    EXPECT_EQ(file->attached()->prefetcher().left(), 3 * kUnitBytes + 10);
    source_->set_shut(false);
    (void)tasks_.wait_all();
    const std::uint64_t fetched = source_->bytes();
    for (const ByteRange range : {wanted[0], wanted[1], ByteRange{kSize - 10, kSize}})
        EXPECT_TRUE(same(read(*file, range.begin, range.size()), expected(range.begin, range.size())));
    EXPECT_EQ(source_->bytes(), fetched) << "nothing was read from the file twice";
    EXPECT_LE(fetched, 3 * kUnitBytes + kBlockBytes);
    EXPECT_EQ(file->counters().hit_bytes.load(), 3 * kUnitBytes + 10);
}

TEST_F(CachedFileTest, what_the_program_asks_for_overtakes_a_prefetch) {
    const auto file = open(replica());
    source_->set_shut(true);
    const ByteRange whole{0, kOffsetMax};
    ASSERT_TRUE(file->attached()->prefetcher().prefetch({&whole, 1}));
    source_->await_reads(2);   // both are held up
    std::thread reader([&] { EXPECT_TRUE(same(read(*file, kSize - 100, 100), expected(kSize - 100, 100))); });
    source_->await_reads(3);
    EXPECT_GT(file->attached()->prefetcher().left(), kSize / 2);
    source_->set_shut(false);
    reader.join();
}

TEST_F(CachedFileTest, a_prefetch_that_is_canceled_fetches_no_more) {
    const auto file = open(replica());
    source_->set_shut(true);
    const ByteRange whole{0, kOffsetMax};
    ASSERT_TRUE(file->attached()->prefetcher().prefetch({&whole, 1}));
    source_->await_reads(2);
    file->attached()->prefetcher().cancel();
    source_->set_shut(false);
    (void)tasks_.wait_all();
    EXPECT_EQ(file->attached()->prefetcher().left(), 0U);
    EXPECT_LE(source_->bytes(), std::uint64_t{2} << 20);
    ASSERT_TRUE(file->attached()->prefetcher().prefetch({&whole, 1})) << "it can be asked for again";
    (void)tasks_.wait_all();
    EXPECT_EQ(replica()->stored_bytes(), (kSize + kBlockBytes - 1) / kBlockBytes * kBlockBytes);
}

TEST_F(CachedFileTest, a_prefetch_ends_with_the_file) {
    auto file = open(replica());
    source_->set_shut(true);
    const ByteRange whole{0, kOffsetMax};
    ASSERT_TRUE(file->attached()->prefetcher().prefetch({&whole, 1}));
    source_->await_reads(2);
    file.reset();
    source_->set_shut(false);
    (void)tasks_.wait_all();
    EXPECT_LE(source_->bytes(), std::uint64_t{2} << 20);
}

TEST_F(CachedFileTest, a_prefetch_of_what_cannot_be_stored_ends) {
    CachePolicy policy = policy_of();
    policy.now_ns = early;
    const auto file = open(replica(), policy);
    const ByteRange whole{0, kOffsetMax};
    ASSERT_TRUE(file->attached()->prefetcher().prefetch({&whole, 1}));
    (void)tasks_.wait_all();
    EXPECT_EQ(file->attached()->prefetcher().left(), 0U);
    EXPECT_EQ(source_->bytes(), 0U);
}

std::atomic<std::uint64_t> told_ns{0};
std::uint64_t as_told() noexcept { return told_ns; }

TEST_F(CachedFileTest, the_whole_file_is_prefetched_once_it_is_old_enough) {
    CachePolicy policy = policy_of();
    policy.now_ns = as_told;
    told_ns = early();
    const auto file = open(replica(), policy);
    file->attached()->prefetcher().prefetch_all();
    EXPECT_TRUE(same(read(*file, 0, 1000), expected(0, 1000)));
    (void)tasks_.wait_all();
    EXPECT_EQ(file->attached()->prefetcher().left(), 0U) << "nobody waits for it meanwhile";
    EXPECT_EQ(source_->bytes(), 1000U);
    told_ns = later();
    EXPECT_TRUE(same(read(*file, 0, 1000), expected(0, 1000)));
    (void)tasks_.wait_all();
    const std::uint64_t fetched = source_->bytes();
    EXPECT_GE(fetched, kSize);
    EXPECT_TRUE(same(read(*file, 0, kSize), expected(0, kSize)));
    EXPECT_EQ(source_->bytes(), fetched);
}

TEST_F(CachedFileTest, more_ranges_than_can_wait_are_refused_as_a_whole) {
    const auto file = open(replica());
    const std::vector<ByteRange> wanted((std::size_t{1} << 20) + 1, ByteRange{0, 1});
    EXPECT_EQ(file->attached()->prefetcher().prefetch(wanted).code(), Code::kNoSpace);
    EXPECT_EQ(file->attached()->prefetcher().left(), 0U);
}

TEST_F(CachedFileTest, a_prefetch_after_a_restart_reads_only_what_was_lost) {
    {
        const auto file = open(replica());
        (void)read(*file, 0, 4 * kUnitBytes);
        file->await_stored();
    }
    (void)tasks_.wait_all();
    const std::uint64_t before = source_->bytes();
    const auto file = open(replica(std::byte{1}));
    const ByteRange whole{0, kOffsetMax};
    ASSERT_TRUE(file->attached()->prefetcher().prefetch({&whole, 1}));
    (void)tasks_.wait_all();
    EXPECT_EQ(source_->bytes() - before, kSize - 4 * kUnitBytes);
    EXPECT_TRUE(same(read(*file, 0, kSize), content_));
}

}   // namespace
}   // namespace forebay::cache
