// A file read through its replica gives the bytes of its source, whatever the cache does; counters show where from.
#include <atomic>
#include <random>
#include <thread>

#include "unit/cache/cached_file_steps.h"

namespace forebay::cache {
namespace {

TEST_F(CachedFileTest, what_was_read_once_comes_from_the_replica) {
    const auto file = open(replica());
    EXPECT_TRUE(same(read(*file, 1000, 300'000), expected(1000, 300'000)));
    EXPECT_EQ(file->counters().hit_bytes, 0u);
    file->await_stored();
    const std::uint64_t before = source_->bytes();
    EXPECT_TRUE(same(read(*file, 1000, 300'000), expected(1000, 300'000)));
    EXPECT_EQ(source_->bytes(), before) << "the file is asked for nothing";
    EXPECT_EQ(file->counters().hit_bytes, 300'000u);
}

TEST_F(CachedFileTest, no_more_is_read_than_whole_blocks_of_what_is_asked_for) {
    const auto file = open(replica());
    (void)read(*file, 5 * kBlockBytes + 100, 3 * kBlockBytes);
    file->await_stored();
    EXPECT_EQ(source_->bytes(), 4 * kBlockBytes);
}

TEST_F(CachedFileTest, the_end_of_the_file_is_cached_and_read_short) {
    const auto file = open(replica());
    for (int turn = 0; turn < 2; ++turn) {
        EXPECT_TRUE(same(read(*file, kSize - 100, 1000), expected(kSize - 100, 1000)));
        EXPECT_EQ(read(*file, kSize, 10).size(), 0u);
        file->await_stored();
    }
    EXPECT_EQ(file->counters().hit_bytes, 100u);
}

TEST_F(CachedFileTest, a_second_process_finds_what_the_first_has_stored) {
    {
        const auto file = open(replica());
        (void)read(*file, 0, kSize);
        file->await_stored();
    }
    const std::uint64_t before = source_->bytes();
    const auto again = open(replica());
    EXPECT_TRUE(same(read(*again, 0, kSize), content_));
    EXPECT_EQ(source_->bytes(), before);
}

TEST_F(CachedFileTest, random_reads_of_several_files_of_one_replica_give_the_source) {
    std::mt19937_64 random(7);
    std::vector<std::unique_ptr<CachedFile>> files;
    for (int i = 0; i < 3; ++i) files.push_back(open(replica()));
    for (int i = 0; i < 2000; ++i) {
        const std::uint64_t at = random() % kSize;
        const std::size_t size = random() % (i % 5 == 0 ? 2'000'000 : 9000);
        ASSERT_TRUE(same(read(*files[random() % 3], at, size), expected(at, size))) << at << " " << size;
        if (i % 100 == 99)
            for (const auto& file : files) file->await_stored();
    }
    std::uint64_t hits = 0;
    for (const auto& file : files) hits += file->counters().hit_bytes;
    EXPECT_GT(hits, 10 * kSize);
}

TEST_F(CachedFileTest, threads_that_read_while_units_are_evicted_get_the_source) {
    const auto shared = replica();
    const auto file = open(shared);
    std::atomic<bool> stop{false};
    std::vector<std::jthread> readers;
    for (std::uint64_t seed = 0; seed < 3; ++seed)
        readers.emplace_back([&, seed] {
            std::mt19937_64 random(seed);
            while (!stop) {
                const std::uint64_t at = random() % kSize;
                EXPECT_TRUE(same(read(*file, at, 20'000), expected(at, 20'000)));
            }
        });
    std::mt19937_64 random(99);
    std::uint64_t evicted = 0;
    // Until both have happened often.
    while (evicted < 20 * kUnitBytes || file->counters().hit_bytes < 20 * kUnitBytes)
        if (const auto claim = Replica::claim(shared, random() % 11)) {
            if (random() % 64 == 0) evicted += shared->evict(*claim).value();
        }
    stop = true;
    readers.clear();
    file->await_stored();
    EXPECT_EQ(purse_->left() + shared->stored_bytes() + Presence::bytes_for(kSize), std::uint64_t{1} << 30);
}

TEST_F(CachedFileTest, two_readers_of_one_unit_read_the_file_once) {
    const auto shared = replica();
    const auto file = open(shared);
    const auto other = open(replica());
    source_->set_shut(true);
    std::jthread first([&] { EXPECT_TRUE(same(read(*file, 0, 8192), expected(0, 8192))); });
    source_->await_reads(1);
    EXPECT_FALSE(Replica::claim(shared, 0)) << "it is being fetched";
    source_->set_shut(false);
    first.join();
    file->await_stored();
    EXPECT_TRUE(same(read(*other, 0, 8192), expected(0, 8192)));
    EXPECT_EQ(other->counters().hit_bytes, 8192u);
    EXPECT_EQ(source_->bytes(), 8192u);
}

TEST_F(CachedFileTest, what_another_one_is_fetching_is_read_from_the_file_if_that_takes_too_long) {
    const auto mine = replica();
    const auto claim = Replica::claim(mine, 0);
    ASSERT_TRUE(claim);
    const auto file = open(replica());
    EXPECT_TRUE(same(read(*file, 0, 5000), expected(0, 5000)));
    EXPECT_EQ(file->counters().waits, 1u);
    EXPECT_EQ(file->counters().missed_bytes, 5000u);
}

TEST_F(CachedFileTest, a_unit_whose_fetcher_has_died_is_taken_over) {
    const auto mine = replica();
    const auto place = folder();
    const auto map = place->open_file("presence", io::OpenMode::kReadWrite).value()->map(0, 8192).value();
    auto* const entry = reinterpret_cast<UnitEntry*>(map->bytes().data() + 4096);
    entry->owner = 4000;
    {
        const auto lives = place->hold("owner-4000");
        ASSERT_TRUE(lives);
        EXPECT_FALSE(Replica::claim(mine, 0)) << "it lives";
    }
    const auto claim = Replica::claim(mine, 0);
    EXPECT_TRUE(claim);
    EXPECT_NE(entry->owner, 4000u);
}

TEST_F(CachedFileTest, a_file_that_is_changed_is_not_cached_any_more) {
    const auto shared = replica();
    const auto file = open(shared);
    (void)read(*file, 0, 1000);   // so little that nothing is read ahead
    file->await_stored();
    EXPECT_GT(shared->stored_bytes(), 0u);
    content_ = bytes_of(kSize, 2);
    source_->change(content_);
    (void)read(*file, 3 * kUnitBytes, 1000);   // notices it once that is stored
    file->await_stored();
    EXPECT_EQ(file->counters().aside, Aside::kChanged);
    EXPECT_TRUE(same(read(*file, 0, kUnitBytes), expected(0, kUnitBytes))) << "of the new one";
    const auto again = open(replica());
    EXPECT_TRUE(same(read(*again, 0, kSize), content_));
}

TEST_F(CachedFileTest, no_read_returns_bytes_of_two_versions) {
    using Pieces = std::vector<ByteRange>;
    for (const Pieces& kept :
         {Pieces{{0, kBlockBytes}}, Pieces{{kUnitBytes, 2 * kUnitBytes}},
          Pieces{{0, kUnitBytes}, {2 * kUnitBytes, 3 * kUnitBytes}}, Pieces{{0, 9 * kUnitBytes}}}) {
        content_ = bytes_of(kSize, 1);
        source_ = std::make_shared<Source>(content_);
        CachePolicy policy = policy_of();
        policy.read_ahead = false;
        const auto file = open(replica(), policy);
        for (const ByteRange piece : kept) (void)read(*file, piece.begin, piece.size());
        file->await_stored();
        content_ = bytes_of(kSize, 2);
        source_->change(content_);
        EXPECT_TRUE(same(read(*file, 0, kSize), content_)) << kept.size() << " pieces, to " << kept.back().end;
        file->await_stored();
        EXPECT_EQ(file->counters().aside, Aside::kChanged);
        EXPECT_TRUE(same(read(*file, 100, kUnitBytes), expected(100, kUnitBytes)));
    }
}

TEST_F(CachedFileTest, a_read_that_cannot_compare_the_version_is_of_the_file_alone) {
    const auto file = open(replica());
    (void)read(*file, 0, 2 * kUnitBytes);
    file->await_stored();
    source_->change(content_ = bytes_of(kSize, 2));
    source_->set_stat_error(ESTALE);
    EXPECT_TRUE(same(read(*file, 0, kSize), content_));
}

TEST_F(CachedFileTest, a_little_that_is_kept_is_read_again_with_what_lies_beside_it) {
    const auto file = open(replica());
    (void)read(*file, 4 * kBlockBytes, 100);
    file->await_stored();
    EXPECT_TRUE(same(read(*file, 4 * kBlockBytes, 4 * kBlockBytes), expected(4 * kBlockBytes, 4 * kBlockBytes)));
    file->await_stored();
    EXPECT_EQ(source_->bytes(), 5 * kBlockBytes);
    EXPECT_EQ(file->counters().missed_bytes, 100 + 4 * kBlockBytes);
}

TEST_F(CachedFileTest, a_version_that_cannot_be_had_stores_nothing) {
    const auto shared = replica();
    const auto file = open(shared);
    source_->set_stat_error(ESTALE);
    EXPECT_TRUE(same(read(*file, 0, 1000), expected(0, 1000)));
    file->await_stored();
    EXPECT_EQ(shared->stored_bytes(), 0u);
    EXPECT_EQ(file->counters().aside, Aside::kFault);
    EXPECT_FALSE(shared->unusable()) << "that is no sign of a change";
}

TEST_F(CachedFileTest, a_young_file_is_not_stored) {
    CachePolicy policy = policy_of();
    policy.now_ns = early;
    const auto shared = replica();
    const auto file = open(shared, policy);
    EXPECT_TRUE(same(read(*file, 0, 1000), expected(0, 1000)));
    file->await_stored();
    EXPECT_EQ(shared->stored_bytes(), 0u);
    EXPECT_EQ(file->counters().aside, Aside::kYoung);
}

TEST_F(CachedFileTest, a_source_that_answers_at_once_is_left_alone) {
    CachePolicy policy = policy_of();
    policy.judge_speed = true;   // by a clock that stands still
    const auto shared = replica();
    const auto file = open(shared, policy);
    for (std::uint64_t i = 0; i < 100; ++i) {
        (void)read(*file, (i * 37 % 100) * 3 * kBlockBytes, kBlockBytes);
        file->await_stored();
    }
    EXPECT_EQ(file->counters().aside, Aside::kFast);
    EXPECT_LT(shared->stored_bytes(), 40 * kBlockBytes);
}

// Each look at the clock takes so long, also for tasks that read ahead.
std::atomic<std::uint64_t> ticks_ns{0};
std::uint64_t ticking() noexcept {
    static std::atomic<std::uint64_t> now_ns{0};
    return now_ns += ticks_ns;
}

TEST_F(CachedFileTest, a_staging_area_that_answers_slower_than_the_source_is_passed_by) {
    constexpr std::uint64_t kSourceNs = 1'000'000;
    CachePolicy policy = policy_of();
    policy.judge_speed = true;
    policy.steady_ns = ticking;
    const auto file = open(replica(), policy);
    const auto read_blocks = [&](std::uint64_t blocks) {
        for (std::uint64_t i = 0; i < blocks; ++i) {
            const std::uint64_t at = i % 100 * 3 * kBlockBytes;
            EXPECT_TRUE(same(read(*file, at, kBlockBytes), expected(at, kBlockBytes)));
            file->await_stored();
        }
    };
    ticks_ns = kSourceNs;
    read_blocks(100);
    ticks_ns = kSourceNs / 10;
    read_blocks(4000);
    EXPECT_EQ(file->counters().aside, Aside::kNone) << "the node is faster";
    EXPECT_EQ(file->counters().hit_bytes, 4000 * kBlockBytes);
    ticks_ns = kSourceNs * 2;
    read_blocks(3000);
    EXPECT_EQ(file->counters().aside, Aside::kSlow);
    const std::uint64_t hit_bytes = file->counters().hit_bytes, read_bytes = source_->bytes();
    read_blocks(100);
    EXPECT_EQ(file->counters().hit_bytes, hit_bytes);
    EXPECT_EQ(source_->bytes(), read_bytes + 100 * kBlockBytes);
}

TEST_F(CachedFileTest, what_other_files_of_the_process_have_not_stored_yet_counts) {
    CachePolicy policy = policy_of();
    policy.shared = std::make_shared<SharedBudget>(2 * kBlockBytes);
    const auto shared = replica();
    const auto file = open(shared, policy);
    ASSERT_TRUE(policy.shared->take(2 * kBlockBytes));   // another file
    EXPECT_TRUE(same(read(*file, 0, kBlockBytes), expected(0, kBlockBytes)));
    EXPECT_EQ(shared->stored_bytes(), 0u);
    policy.shared->give_back(2 * kBlockBytes);
    EXPECT_TRUE(same(read(*file, 0, kBlockBytes), expected(0, kBlockBytes)));
    file->await_stored();
    EXPECT_EQ(shared->stored_bytes(), kBlockBytes);
    EXPECT_TRUE(policy.shared->take(2 * kBlockBytes)) << "all is given back";
}

TEST_F(CachedFileTest, a_full_cache_goes_on_serving_what_it_has) {
    purse_ = std::make_shared<Purse>(2 * kUnitBytes + Presence::bytes_for(kSize));
    const auto file = open(replica());
    for (int turn = 0; turn < 2; ++turn)
        for (std::uint64_t unit = 0; unit < 8; ++unit) {
            EXPECT_TRUE(same(read(*file, unit * kUnitBytes, 1000), expected(unit * kUnitBytes, 1000)));
            EXPECT_TRUE(same(read(*file, 0, 3 * kUnitBytes), expected(0, 3 * kUnitBytes)));
            file->await_stored();
        }
    EXPECT_EQ(file->counters().aside, Aside::kFull);
    EXPECT_GT(file->counters().hit_bytes, 10 * kUnitBytes);
}

TEST_F(CachedFileTest, a_source_that_fails_gives_its_error) {
    const auto file = open(replica());
    source_->set_failing(true);
    std::vector<std::byte> into(1000);
    const auto got = file->read_at(0, into);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.status().sys_errno(), EIO);
    source_->set_failing(false);
    EXPECT_TRUE(same(read(*file, 0, 1000), expected(0, 1000)));
}

TEST_F(CachedFileTest, a_change_is_seen_by_the_next_read_if_the_policy_says_so) {
    for (const bool looks : {false, true}) {
        CachePolicy policy = policy_of();
        policy.look_every_ns = looks ? 0 : kOffsetMax;
        source_ = std::make_shared<Source>(content_);
        const auto file = open(replica(), policy);
        (void)read(*file, 0, kUnitBytes);
        file->await_stored();
        const auto changed = bytes_of(kSize, 2);
        source_->change(changed);
        const auto got = read(*file, 0, kUnitBytes);
        EXPECT_EQ(same(got, {changed.begin(), changed.begin() + kUnitBytes}), looks);
        EXPECT_EQ(same(got, expected(0, kUnitBytes)), !looks);
    }
}

TEST_F(CachedFileTest, a_change_is_seen_behind_the_program_soon) {
    CachePolicy policy = policy_of();
    policy.look_behind_ns = 0;
    const auto file = open(replica(), policy);
    (void)read(*file, 0, kUnitBytes);
    file->await_stored();
    content_ = bytes_of(kSize, 2);
    source_->change(content_);
    source_->set_unanswered(true);
    EXPECT_FALSE(same(read(*file, 0, 9), expected(0, 9))) << "the look is not waited for";
    source_->set_unanswered(false);
    file->await_stored();
    EXPECT_TRUE(same(read(*file, 0, 100), expected(0, 100)));
}

TEST_F(CachedFileTest, while_a_comparison_that_is_due_fails_the_file_is_read) {
    for (const bool asked : {false, true}) {
        CachePolicy policy = policy_of();
        policy.look_every_ns = asked ? kOffsetMax : 0;   // else each read compares
        source_ = std::make_shared<Source>(content_);
        const auto file = open(replica(), policy);
        (void)read(*file, 0, kUnitBytes);
        file->await_stored();
        const auto old = expected(0, 100);
        EXPECT_TRUE(same(read(*file, 0, 100), old));
        const auto changed = bytes_of(kSize, 2);
        source_->change(changed);
        source_->set_stat_error(EIO);
        if (asked) file->look_again();
        for (int i = 0; i < 2; ++i)
            EXPECT_TRUE(same(read(*file, 0, 100), {changed.begin(), changed.begin() + 100})) << asked;
        EXPECT_EQ(file->counters().aside, Aside::kUnsure);
        EXPECT_FALSE(file->attached()->replica()->unusable()) << "the version is unknown";
        source_->set_stat_error(0);
        EXPECT_TRUE(same(read(*file, 0, 100), {changed.begin(), changed.begin() + 100}));
        EXPECT_EQ(file->counters().aside, Aside::kChanged);
    }
}

TEST_F(CachedFileTest, hits_come_back_with_the_answer_of_the_file_system) {
    const auto file = open(replica());
    (void)read(*file, 0, kUnitBytes);
    file->await_stored();
    source_->set_stat_error(ETIMEDOUT);
    file->look_again();
    const std::uint64_t hits = file->counters().hit_bytes;
    (void)read(*file, 0, 100);
    EXPECT_EQ(file->counters().hit_bytes, hits);
    source_->set_stat_error(0);
    (void)read(*file, 0, 100);
    EXPECT_EQ(file->counters().hit_bytes, hits + 100);
}

TEST_F(CachedFileTest, a_failing_look_behind_the_program_ends_the_hits_only_if_the_file_is_gone) {
    for (const int error : {EIO, ESTALE}) {
        CachePolicy policy = policy_of();
        policy.look_behind_ns = 0;
        source_ = std::make_shared<Source>(content_);
        const auto file = open(replica(), policy);
        (void)read(*file, 0, kUnitBytes);
        file->await_stored();
        source_->set_stat_error(error);
        (void)read(*file, 0, 100);
        file->await_stored();
        const std::uint64_t hits = file->counters().hit_bytes;
        (void)read(*file, 0, 100);
        EXPECT_EQ(file->counters().hit_bytes, hits + (error == EIO ? 100 : 0));
        file->await_stored();
    }
}

TEST_F(CachedFileTest, after_a_restart_what_fits_its_checksum_is_taken_and_the_rest_is_read_anew) {
    {
        const auto file = open(replica());
        (void)read(*file, 0, kSize);
        file->await_stored();
    }
    (void)tasks_.wait_all();   // the last one lets go of the replica
    const std::uint64_t stored = replica()->stored_bytes(), left = purse_->left();
    {
        const auto bytes = folder()->open_file("replica", io::OpenMode::kReadWrite).value();
        const std::vector<std::byte> lost(kBlockBytes), torn(1, std::byte{0x5a});
        ASSERT_TRUE(bytes->write_at(2 * kUnitBytes + kBlockBytes, lost));
        ASSERT_TRUE(bytes->write_at(5 * kUnitBytes + 100, torn));
        ASSERT_TRUE(bytes->write_at(kSize - 1, torn));
    }
    const std::uint64_t before = source_->bytes();
    const auto again = replica(std::byte{1});
    EXPECT_EQ(again->stored_bytes(), stored) << "it is still on the device";
    const auto file = open(again);
    EXPECT_TRUE(same(read(*file, 0, kSize), content_));
    EXPECT_LE(source_->bytes() - before, 3 * kBlockBytes);
    file->await_stored();
    (void)tasks_.wait_all();
    EXPECT_EQ(again->stored_bytes(), stored);
    EXPECT_EQ(purse_->left(), left);
    EXPECT_TRUE(same(read(*open(replica(std::byte{1})), 0, kSize), content_));
    EXPECT_LE(source_->bytes() - before, 3 * kBlockBytes);
}

TEST_F(CachedFileTest, what_another_machine_uses_is_made_anew) {
    const auto theirs = replica();
    const auto file = open(theirs);
    (void)read(*file, 0, kSize);
    file->await_stored();
    const auto ours = replica(std::byte{1});
    EXPECT_TRUE(theirs->unusable());
    EXPECT_EQ(ours->stored_bytes(), 0U);
    EXPECT_TRUE(same(read(*file, 0, kSize), content_));
}

TEST_F(CachedFileTest, a_read_of_more_than_the_byte_budget_is_stored) {
    const auto large = bytes_of(std::uint64_t{40} << 20, 3);
    source_ = std::make_shared<Source>(large);
    CachePolicy policy = policy_of();
    policy.budget_bytes = 32 << 20;
    const auto file = open(replica(), policy);
    EXPECT_TRUE(same(read(*file, 100, large.size()), {large.begin() + 100, large.end()}));
    file->await_stored();
    EXPECT_GE(file->counters().stored_bytes.load(), large.size() / 2);
    EXPECT_TRUE(same(read(*file, 0, large.size()), large));
}

TEST_F(CachedFileTest, writing_is_refused) {
    const auto file = open(replica());
    EXPECT_FALSE(file->write_at(0, content_));
    EXPECT_FALSE(file->resize(0));
    EXPECT_TRUE(same(read(*file, 0, kSize), content_));
}

}   // namespace
}   // namespace forebay::cache
