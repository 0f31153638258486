// What stays in a cache that is smaller than the data, if the order of the reads names bytes again.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <thread>

#include "unit/cache/cached_file_steps.h"

namespace forebay::cache {
namespace {

constexpr std::uint64_t kUnits = 128, kRoom = kUnits / 4;
using Order = std::vector<std::uint64_t>;   // of units

// As a weighted sampler with replacement has it: the first units come most often.
Order weighted(std::size_t reads, unsigned seed) {
    std::vector<double> weights(kUnits);
    for (std::size_t i = 0; i < kUnits; ++i) weights[i] = 1.0 / std::sqrt(1.0 + static_cast<double>(i));
    std::discrete_distribution<std::uint64_t> draw(weights.begin(), weights.end());
    std::mt19937 random(seed);
    Order order(reads);
    for (std::uint64_t& unit : order) unit = draw(random);
    return order;
}

// Each unit once, in an order of its own in each epoch.
Order shuffled(std::size_t epochs, unsigned seed) {
    std::mt19937 random(seed);
    Order order;
    for (std::size_t epoch = 0; epoch < epochs; ++epoch) {
        Order one(kUnits);
        for (std::uint64_t i = 0; i < kUnits; ++i) one[i] = i;
        std::shuffle(one.begin(), one.end(), random);
        order.insert(order.end(), one.begin(), one.end());
    }
    return order;
}

// Most hits that any replacement has with room for `room` units: what is used last goes, what was just read included.
std::size_t hits_of_belady(const Order& order, std::size_t room) {
    std::vector<std::size_t> next(order.size());
    std::map<std::uint64_t, std::size_t> later;
    for (std::size_t i = order.size(); i-- > 0;) {
        const auto found = later.find(order[i]);
        next[i] = found == later.end() ? order.size() : found->second;
        later[order[i]] = i;
    }
    std::map<std::uint64_t, std::size_t> stored;   // by unit: its next use
    std::size_t hits = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
        hits += stored.count(order[i]);
        stored[order[i]] = next[i];
        if (stored.size() > room)
            stored.erase(std::ranges::max_element(stored, {}, [](const auto& one) { return one.second; }));
    }
    return hits;
}

class CachedFileReplaceTest : public CachedFileTest {
  protected:
    static constexpr std::uint64_t kBytes = kUnits * kUnitBytes;

    CachedFileReplaceTest() {
        content_ = bytes_of(kBytes, 1);
        source_ = std::make_shared<Source>(content_);
        purse_ = std::make_shared<Purse>(Presence::bytes_for(kBytes) + kRoom * kUnitBytes);
    }
    static CachePolicy policy() {
        CachePolicy policy = policy_of();
        policy.read_ahead = false;
        policy.budget_bytes = 6 * kUnitBytes;   // four and a half may be in memory
        return policy;
    }
    static ByteRange unit(std::uint64_t number) { return {number * kUnitBytes, (number + 1) * kUnitBytes}; }
    // Reads in this order, of which `known` units are told ahead each time that half of them were read.
    void read_in(CachedFile& file, const Order& order, std::size_t known) {
        std::size_t told = 0;
        for (std::size_t i = 0; i < order.size(); ++i) {
            if (told < order.size() && told - i <= known / 2) {
                std::vector<ByteRange> more;
                for (; told < order.size() && told - i < known; ++told) more.push_back(unit(order[told]));
                ASSERT_TRUE(file.attached()->prefetcher().prefetch(more));
            }
            (void)tasks_.wait_all();
            const ByteRange row = unit(order[i]);
            ASSERT_TRUE(same(read(file, row.begin, row.size()), expected(row.begin, row.size())));
        }
        (void)tasks_.wait_all();
    }
    // Reads of units that the source did not see.
    std::size_t hits_of(const Order& order) const {
        return order.size() - static_cast<std::size_t>(source_->bytes() / kUnitBytes);
    }
};

TEST_F(CachedFileReplaceTest, a_weighted_sampler_has_the_hits_that_belady_has) {
    const Order order = weighted(10 * kUnits, 1);
    const auto file = open(replica(), policy());
    read_in(*file, order, order.size());
    const std::size_t hits = hits_of(order), best = hits_of_belady(order, kRoom);
    std::printf("%zu reads: %zu hits; Belady's: %zu (with the memory's room, too: %zu); ratio %.4f\n", order.size(),
                hits, best, hits_of_belady(order, kRoom + 5), static_cast<double>(hits) / static_cast<double>(best));
    EXPECT_GE(static_cast<double>(hits), 0.98 * static_cast<double>(best));
    EXPECT_GT(file->counters().replaced_bytes, 0U);
    EXPECT_LE(replica()->stored_bytes(), kRoom * kUnitBytes);
}

TEST_F(CachedFileReplaceTest, an_order_that_is_told_in_parts_has_more_hits_than_no_replacement) {
    const Order order = weighted(10 * kUnits, 2);
    const auto file = open(replica(), policy());
    read_in(*file, order, 2 * kUnits);
    const std::size_t hits = hits_of(order), best = hits_of_belady(order, kRoom);
    std::printf("%zu reads, 256 told ahead: %zu hits; Belady's: %zu; ratio %.4f\n", order.size(), hits, best,
                static_cast<double>(hits) / static_cast<double>(best));
    EXPECT_GE(static_cast<double>(hits), 0.9 * static_cast<double>(best));
}

TEST_F(CachedFileReplaceTest, shuffled_epochs_that_are_told_one_by_one_replace_nothing) {
    const auto file = open(replica(), policy());
    const Order order = shuffled(4, 3);
    for (std::size_t epoch = 0; epoch < 4; ++epoch) {
        const auto begin = order.begin() + static_cast<std::ptrdiff_t>(epoch * kUnits);
        read_in(*file, Order(begin, begin + kUnits), kUnits);
    }
    EXPECT_EQ(file->counters().replaced_bytes, 0U);
    EXPECT_GE(hits_of(order), 3 * kRoom - 3) << "a quarter of each epoch after the first; a piece or two came twice";
}

TEST_F(CachedFileReplaceTest, threads_that_share_an_order_read_the_right_bytes) {
    const auto file = open(replica(), policy());
    const Order order = weighted(6 * kUnits, 10);
    std::vector<ByteRange> ranges;
    for (const std::uint64_t number : order) ranges.push_back(unit(number));
    ASSERT_TRUE(file->attached()->prefetcher().prefetch(ranges));
    std::atomic<std::size_t> taken{0};
    std::vector<std::thread> readers;
    for (int i = 0; i < 3; ++i)
        readers.emplace_back([&] {
            for (std::size_t at = taken++; at < ranges.size(); at = taken++)
                EXPECT_TRUE(same(read(*file, ranges[at].begin, ranges[at].size()),
                                 expected(ranges[at].begin, ranges[at].size())));
        });
    for (std::thread& reader : readers) reader.join();
    (void)tasks_.wait_all();
    EXPECT_GT(file->counters().replaced_bytes, 0U);
    EXPECT_LE(replica()->stored_bytes(), kRoom * kUnitBytes);
}

TEST_F(CachedFileReplaceTest, a_pinned_replica_stays) {
    const auto file = open(replica(), policy());
    file->attached()->replica()->use().set_pinned(true);
    read_in(*file, weighted(5 * kUnits, 4), 5 * kUnits);
    EXPECT_EQ(file->counters().aside.load(), Aside::kFull);
    EXPECT_EQ(file->counters().replaced_bytes, 0U);
}

TEST_F(CachedFileReplaceTest, nothing_is_replaced_while_another_process_has_the_replica) {
    const auto own = replica();
    const auto other = replica();   // with a number of its own, as another process has
    const auto file = open(own, policy());
    read_in(*file, weighted(5 * kUnits, 5), 5 * kUnits);
    EXPECT_EQ(file->counters().aside.load(), Aside::kFull);
    EXPECT_EQ(file->counters().replaced_bytes, 0U);
}

TEST_F(CachedFileReplaceTest, bytes_of_another_version_take_no_place) {
    const auto file = open(replica(), policy());
    const Order order = weighted(4 * kUnits, 6);
    read_in(*file, order, order.size());
    const std::vector<std::byte> newer = bytes_of(kBytes, 7);
    source_->change(newer);
    for (const std::uint64_t number : shuffled(1, 8)) {
        std::vector<ByteRange> twice{unit(number), unit(number)};
        (void)file->attached()->prefetcher().prefetch(twice);
        (void)tasks_.wait_all();
        const auto got = read(*file, number * kUnitBytes, kUnitBytes);
        const auto begin = static_cast<std::ptrdiff_t>(number * kUnitBytes);
        const bool old = same(got, expected(number * kUnitBytes, kUnitBytes));
        EXPECT_TRUE(old || std::equal(got.begin(), got.end(), newer.begin() + begin)) << "never both";
        EXPECT_FALSE(old && file->attached()->replica()->unusable());
    }
    EXPECT_TRUE(file->attached()->replica()->unusable());
}

TEST_F(CachedFileReplaceTest, rows_that_lie_anywhere_are_kept_in_whole_blocks) {
    const auto file = open(replica(), policy());
    constexpr std::uint64_t kRow = 3 * kUnitBytes / 4;
    const auto row = [](std::uint64_t number) { return ByteRange{2048 + number * kRow, 2048 + (number + 1) * kRow}; };
    const std::uint64_t rows = (kBytes - 2048) / kRow;
    std::mt19937 random(9);
    std::vector<ByteRange> order;
    for (int i = 0; i < 1000; ++i) {
        const double place = std::uniform_real_distribution<>(0, 1)(random);
        order.push_back(row(static_cast<std::uint64_t>(place * place * static_cast<double>(rows))));
    }
    ASSERT_TRUE(file->attached()->prefetcher().prefetch(order));
    for (const ByteRange range : order) {
        (void)tasks_.wait_all();
        ASSERT_TRUE(same(read(*file, range.begin, range.size()), expected(range.begin, range.size())));
    }
    (void)tasks_.wait_all();
    Order by_row;
    for (const ByteRange range : order) by_row.push_back(range.begin);
    const double hits = 1 - static_cast<double>(source_->bytes()) / (1000.0 * kRow);
    const double best = static_cast<double>(hits_of_belady(by_row, kRoom * kUnitBytes / kRow)) / 1000;
    std::printf("rows of three quarters of a unit: %.3f of the bytes are hits; of whole rows, Belady's %.3f\n", hits,
                best);
    EXPECT_GE(hits, 0.7 * best) << "a unit goes with the rows that reach into it";
    EXPECT_LE(replica()->stored_bytes(), kRoom * kUnitBytes);
}

}   // namespace
}   // namespace forebay::cache
