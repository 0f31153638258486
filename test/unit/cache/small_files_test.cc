#include "cache/small_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <thread>
#include <vector>

#include "cache/many_files.h"
#include "cache/small_copy.h"
#include "cache/store.h"
#include "io/fault_file.h"
#include "io/memory_file.h"
#include "support/forwarding_directory.h"
#include "support/memory_source.h"
#include "support/team_files.h"

namespace forebay::cache {
namespace {

std::uint64_t fixed() noexcept { return 1'000'000'000'000; }
std::uint64_t steady_ns = 0;
std::uint64_t steady() noexcept { return steady_ns; }

// A folder, with all below it, in which no lock can be held for want of memory.
class LocklessFolder final : public test::ForwardingDirectory {
  public:
    LocklessFolder(std::unique_ptr<io::Directory> folder, int& holds)
        : ForwardingDirectory(std::move(folder)), holds_(holds) {}
    Result<std::unique_ptr<io::Directory>> create_directory(const std::string& name) override {
        return below(ForwardingDirectory::create_directory(name));
    }
    Result<std::unique_ptr<io::Directory>> open_directory(const std::string& name) override {
        return below(ForwardingDirectory::open_directory(name));
    }
    Result<std::unique_ptr<io::Lock>> hold(const std::string&) override {
        ++holds_;
        return Status::from_errno(ENOMEM, "hold");
    }

  private:
    Result<std::unique_ptr<io::Directory>> below(Result<std::unique_ptr<io::Directory>> folder) {
        if (!folder) return folder;
        return std::unique_ptr<io::Directory>(std::make_unique<LocklessFolder>(std::move(folder).value(), holds_));
    }
    int& holds_;
};

class SmallFilesTest : public testing::Test {
  protected:
    static constexpr std::uint64_t kCapacity = 256 << 20, kRing = kCapacity / 4;

    static Version file(std::uint64_t inode, std::uint64_t size) { return {{7, inode}, 1, 2, size, 3, 4}; }
    static std::vector<std::byte> content(std::uint64_t inode, std::uint64_t size) {
        return test::bytes_of(size, inode);
    }
    std::shared_ptr<Store> open_store(std::uint64_t capacity = kCapacity) {
        auto folder = area_->create_directory("cache");
        if (!folder) folder = area_->open_directory("cache");
        auto store = Store::open(
            {.folder = std::move(folder).value(), .capacity_bytes = capacity, .boot_id = {}, .now_ns = fixed});
        EXPECT_TRUE(store) << store.status().message();
        return store.value();
    }
    std::vector<std::string> in_cache() { return area_->open_directory("cache").value()->list().value(); }

    std::unique_ptr<io::Directory> area_ = io::make_memory_directory("/local/forebay-0");
};

TEST_F(SmallFilesTest, a_copy_is_there_for_every_process_and_for_its_version_only) {
    const auto store = open_store(), other = open_store();
    const auto mine = store->small_files(false), theirs = other->small_files(false);
    ASSERT_TRUE(mine) << mine.status().message();
    ASSERT_TRUE(theirs) << theirs.status().message();
    for (const std::uint64_t inode : {1, 2, 3})
        ASSERT_TRUE(mine.value()->store(file(inode, 1000 * inode), content(inode, 1000 * inode)));
    for (const std::uint64_t inode : {1, 2, 3})
        EXPECT_EQ(theirs.value()->load(file(inode, 1000 * inode)), content(inode, 1000 * inode));
    Version changed = file(1, 1000);
    changed.changed_ns = 5;
    EXPECT_EQ(theirs.value()->load(changed), std::nullopt);
    ASSERT_TRUE(theirs.value()->store(changed, content(9, 1000)));
    EXPECT_EQ(mine.value()->load(changed), content(9, 1000));
    EXPECT_EQ(mine.value()->load(file(4, 1000)), std::nullopt);
}

TEST_F(SmallFilesTest, the_ring_writes_over_the_oldest_and_never_returns_other_bytes) {
    const auto store = open_store();
    const auto ring = store->small_files(false).value();
    const std::uint64_t size = kSmallFileBytes - 100, fits = kRing / kSmallFileBytes;
    for (std::uint64_t inode = 0; inode < 3 * fits; ++inode)
        ASSERT_TRUE(ring->store(file(inode, size), content(inode, size)));
    std::uint64_t there = 0;
    for (std::uint64_t inode = 0; inode < 3 * fits; ++inode) {
        const auto found = ring->load(file(inode, size));
        if (!found) continue;
        ++there;
        EXPECT_GE(inode, 2 * fits - 1) << "one of the oldest";
        EXPECT_EQ(*found, content(inode, size));
    }
    EXPECT_GE(there, fits - 1);
    EXPECT_LE(store->stored_bytes(), kRing + (32 << 20)) << "the ring and its index";
}

TEST_F(SmallFilesTest, threads_that_store_and_load_the_same_files_see_whole_copies) {
    const auto store = open_store(64 << 20);   // a ring of 16 MiB, written over many times
    const auto ring = store->small_files(false).value();
    constexpr std::uint64_t kFiles = 300, kSize = 200'000;
    std::atomic<std::uint64_t> wrong{0}, right{0};
    {
        std::vector<std::jthread> threads;
        for (std::uint64_t first = 0; first < 3; ++first)
            threads.emplace_back([&, first] {
                for (std::uint64_t i = 0; i < kFiles; ++i) {
                    const std::uint64_t inode = (i * 7 + first) % 60;
                    const auto found = ring->load(file(inode, kSize));
                    if (found) ++(*found == content(inode, kSize) ? right : wrong);
                    else (void)ring->store(file(inode, kSize), content(inode, kSize));
                }
            });
    }
    EXPECT_EQ(wrong.load(), 0u);
    EXPECT_GT(right.load(), 0u);
}

TEST_F(SmallFilesTest, a_damaged_copy_is_a_miss) {
    const auto store = open_store();
    const auto ring = store->small_files(false).value();
    ASSERT_TRUE(ring->store(file(1, 5000), content(1, 5000)));
    const auto folder = area_->open_directory("cache").value()->open_directory(kSmallFilesFolder);
    const auto data = folder.value()->open_file(kSmallDataFile, io::OpenMode::kReadWrite);
    ASSERT_TRUE(data.value()->write_at(4999, test::bytes_of(1, 77)));
    EXPECT_EQ(ring->load(file(1, 5000)), std::nullopt);
}

TEST_F(SmallFilesTest, an_index_that_is_damaged_while_it_is_used_is_a_miss) {
    const auto store = open_store();
    const auto ring = store->small_files(false).value();
    ASSERT_TRUE(ring->store(file(1, 5000), content(1, 5000)));
    for (const auto one : {std::byte{0}, std::byte{0xff}}) {
        const auto folder = area_->open_directory("cache").value()->open_directory(kSmallFilesFolder);
        const auto index = folder.value()->open_file(kSmallIndexFile, io::OpenMode::kReadWrite);
        const std::vector<std::byte> damage(index.value()->size().value(), one);
        ASSERT_TRUE(index.value()->write_at(0, damage));
        EXPECT_EQ(ring->load(file(1, 5000)), std::nullopt);
        (void)ring->store(file(2, 5000), content(2, 5000));
        const auto found = ring->load(file(2, 5000));
        EXPECT_TRUE(!found || *found == content(2, 5000));
    }
}

TEST_F(SmallFilesTest, it_goes_with_its_last_user_unless_it_is_permanent) {
    for (const bool permanent : {false, true}) {
        area_ = io::make_memory_directory("/local/forebay-0");
        auto store = open_store(), other = open_store();
        auto mine = store->small_files(permanent).value(), theirs = other->small_files(permanent).value();
        ASSERT_TRUE(mine->store(file(1, 100), content(1, 100)));
        mine.reset();
        EXPECT_EQ(theirs->load(file(1, 100)), content(1, 100));
        theirs.reset();
        EXPECT_EQ(testing::Value(in_cache(), testing::Contains(kSmallFilesFolder)), permanent);
        if (!permanent) {
            EXPECT_EQ(store->stored_bytes(), 0u) << "the account has everything back";
            continue;
        }
        store.reset();
        other.reset();
        EXPECT_EQ(open_store()->small_files(true).value()->load(file(1, 100)), content(1, 100));
    }
}

TEST_F(SmallFilesTest, what_a_killed_process_has_left_is_removed_by_the_next_one) {
    {
        auto store = open_store();
        auto ring = store->small_files(false).value();
        ASSERT_TRUE(ring->store(file(1, 100), content(1, 100)));
        const auto folder = area_->open_directory("cache").value()->open_directory(kSmallFilesFolder);
        const auto copy = area_->open_directory("cache").value()->create_directory("0-0x");   // no folder of a replica
        ASSERT_TRUE(copy);
    }
    const auto folder = area_->open_directory("cache").value()->create_directory(kSmallFilesFolder);
    ASSERT_TRUE(folder);
    ASSERT_TRUE(folder.value()->open_file(kSmallIndexFile, io::OpenMode::kCreateNew));
    const auto store = open_store();
    EXPECT_THAT(in_cache(), testing::Not(testing::Contains(kSmallFilesFolder)));
}

// Another process uses it meanwhile.
TEST_F(SmallFilesTest, a_failed_call_of_one_process_leaves_the_ring_where_it_is) {
    for (const int error : {EMFILE, ENFILE, EIO, ENOMEM}) {
        area_ = io::make_memory_directory("/local/forebay-0");
        const auto store = open_store();
        const auto ring = store->small_files(true).value();
        ASSERT_TRUE(ring->store(file(1, 100), content(1, 100)));
        const std::uint64_t stored = store->stored_bytes();
        for (std::uint64_t nth = 1;; ++nth) {
            const auto faults = std::make_shared<io::FaultPlan>();
            auto cache = std::move(area_->open_directory("cache")).value();
            auto other = Store::open({.folder = io::make_fault_directory(std::move(cache), faults),
                                      .capacity_bytes = kCapacity,
                                      .now_ns = fixed});
            ASSERT_TRUE(other);
            faults->fail_any(nth, 1, error);
            (void)other.value()->small_files(true);
            const bool fired = faults->fired() > 0;
            faults->clear();
            const auto after = open_store()->small_files(true);
            ASSERT_TRUE(after);
            EXPECT_EQ(after.value()->load(file(1, 100)), content(1, 100)) << nth << ", errno " << error;
            EXPECT_EQ(store->stored_bytes(), stored) << nth << ", errno " << error;
            if (!fired) break;
            ASSERT_LT(nth, 100u);
        }
    }
}

TEST_F(SmallFilesTest, a_failed_call_of_a_count_leaves_an_unused_ring_where_it_is) {
    (void)open_store()->small_files(true);
    const std::uint64_t stored = open_store()->stored_bytes();
    ASSERT_GT(stored, 0u);
    for (std::uint64_t nth = 1;; ++nth) {
        const auto faults = std::make_shared<io::FaultPlan>();
        faults->fail_any(nth, 1, EMFILE);
        auto cache = std::move(area_->open_directory("cache")).value();
        (void)Store::open({.folder = io::make_fault_directory(std::move(cache), faults),
                           .capacity_bytes = kCapacity,
                           .now_ns = fixed});
        EXPECT_THAT(in_cache(), testing::Contains(kSmallFilesFolder)) << nth;
        EXPECT_EQ(read_account(*area_->open_directory("cache").value()).value().stored_bytes, stored) << nth;
        if (faults->fired() == 0) break;
    }
}

TEST_F(SmallFilesTest, a_damaged_ring_is_made_anew_and_its_bytes_are_given_back) {
    const auto store = open_store();
    for (const char* const damaged : {kSmallIndexFile, kSmallDataFile}) {
        std::uint64_t stored = 0;
        {
            const auto ring = store->small_files(true).value();
            ASSERT_TRUE(ring->store(file(1, 100), content(1, 100)));
            stored = store->stored_bytes();
        }
        const auto folder = area_->open_directory("cache").value()->open_directory(kSmallFilesFolder).value();
        if (damaged == kSmallDataFile) {
            ASSERT_TRUE(folder->remove_file(damaged));
        } else {
            const auto index = folder->open_file(damaged, io::OpenMode::kReadWrite).value();
            ASSERT_TRUE(index->write_at(0, test::bytes_of(8, 1)));
        }
        const auto ring = store->small_files(true).value();
        EXPECT_EQ(ring->load(file(1, 100)), std::nullopt);
        ASSERT_TRUE(ring->store(file(1, 100), content(1, 100)));
        EXPECT_EQ(ring->load(file(1, 100)), content(1, 100));
        // An index that cannot be read does not tell what the ring has taken.
        EXPECT_EQ(store->stored_bytes(), stored + (damaged == kSmallIndexFile ? 16 << 20 : 0));
    }
}

TEST_F(SmallFilesTest, a_lack_of_memory_is_no_number_that_another_process_has) {
    int holds = 0;
    auto cache = std::make_unique<LocklessFolder>(std::move(area_->create_directory("cache")).value(), holds);
    const auto store = Store::open({.folder = std::move(cache), .capacity_bytes = kCapacity, .now_ns = fixed}).value();
    EXPECT_EQ(store->small_files(true).status().sys_errno(), ENOMEM);
    EXPECT_EQ(holds, 1) << "of a user of the ring";
    EXPECT_EQ(store->begin_writing(file(1, 100).identity).status().sys_errno(), ENOMEM);
    EXPECT_EQ(holds, 2) << "of a process that writes the file";
}

TEST_F(SmallFilesTest, a_cache_without_room_has_none) {
    EXPECT_EQ(open_store(1 << 20)->small_files(false).status().code(), Code::kUnsupported);
}

TEST(ManyFiles, few_files_have_replicas_and_many_have_copies_if_they_are_read_again) {
    ManyFiles asked, once, again;
    for (std::uint64_t i = 0; i < ManyFiles::kFew; ++i) {
        EXPECT_FALSE(asked.note(i * 7919, true));
        EXPECT_FALSE(once.note(i * 7919, false));
        EXPECT_FALSE(again.note(i * 7919, false));
    }
    EXPECT_TRUE(asked.note(1, true));
    for (std::uint64_t i = 0; i < 100'000; ++i) ASSERT_FALSE(once.note(i * 0x9E3779B97F4A7C15, false)) << i;
    bool pays = false;
    for (int epoch = 0; epoch < 3; ++epoch)
        for (std::uint64_t i = 0; i < 1000; ++i) pays = again.note(i * 0x9E3779B97F4A7C15, false);
    EXPECT_TRUE(pays);
}

class SmallCopyTest : public SmallFilesTest {
  protected:
    static CachePolicy policy() { return {.young_ns = 10, .now_ns = fixed, .steady_ns = steady}; }
    std::vector<std::byte> read(SmallCopy& copy, std::uint64_t offset, std::uint64_t size) {
        std::vector<std::byte> into(size);
        const auto got = copy.read(source_, counters_, offset, into);
        into.resize(got.value_or(0));
        return into;
    }
    test::CountedSource source_{content(1, 3000)};
    Version version_ = version_of(source_.identity().value(), source_.state(io::File::Ask::kTimes).value());
    CacheCounters counters_;
    std::shared_ptr<Store> store_ = open_store();
    std::shared_ptr<SmallFiles> ring_ = store_->small_files(false).value();
};

TEST_F(SmallCopyTest, one_request_brings_the_file_and_the_next_open_needs_none) {
    const auto whole = content(1, 3000);
    {
        SmallCopy copy(ring_, version_, policy());
        for (const std::uint64_t at : {0, 1000, 2000})
            EXPECT_EQ(read(copy, at, 1000),
                      std::vector(whole.begin() + static_cast<long>(at), whole.begin() + static_cast<long>(at) + 1000));
    }
    EXPECT_EQ(counters_.fetched_bytes.load(), 3000u);
    EXPECT_EQ(counters_.missed_bytes.load(), 1000u);
    EXPECT_EQ(counters_.hit_bytes.load(), 2000u);
    EXPECT_EQ(counters_.stored_bytes.load(), 3000u);
    SmallCopy again(ring_, version_, policy());
    EXPECT_EQ(read(again, 0, 3000), whole);
    EXPECT_EQ(counters_.fetched_bytes.load(), 3000u);
    EXPECT_EQ(counters_.hit_bytes.load(), 5000u);
}

TEST_F(SmallCopyTest, what_reaches_beyond_the_end_is_read_from_the_file) {
    SmallCopy copy(ring_, version_, policy());
    EXPECT_TRUE(read(copy, 2500, 1000).empty());
    EXPECT_TRUE(read(copy, 3000, 1).empty());
    EXPECT_TRUE(read(copy, ~std::uint64_t{0}, 1).empty());
    EXPECT_EQ(counters_.fetched_bytes.load(), 0u);
}

TEST_F(SmallCopyTest, a_young_file_and_one_that_has_changed_are_read_themselves) {
    CachePolicy young = policy();
    young.young_ns = fixed();
    SmallCopy one(ring_, version_, young);
    EXPECT_TRUE(read(one, 0, 10).empty());
    EXPECT_EQ(counters_.aside.load(), Aside::kYoung);
    Version older = version_;
    older.size = 2999;
    SmallCopy other(ring_, older, policy());
    EXPECT_TRUE(read(other, 0, 10).empty());
    EXPECT_EQ(counters_.aside.load(), Aside::kChanged);
    EXPECT_EQ(counters_.stored_bytes.load(), 0u);
    EXPECT_EQ(ring_->load(older), std::nullopt);
}

TEST_F(SmallCopyTest, a_reader_that_stays_open_sees_a_change_once_it_is_due) {
    CachePolicy looks = policy();
    looks.look_behind_ns = 5;
    steady_ns = 100;
    SmallCopy copy(ring_, version_, looks);
    EXPECT_EQ(read(copy, 0, 10).size(), 10u);
    source_.changes_ = 1;
    EXPECT_EQ(read(copy, 0, 10).size(), 10u) << "not due";
    steady_ns = 105;
    EXPECT_TRUE(read(copy, 0, 10).empty());
    EXPECT_EQ(counters_.aside.load(), Aside::kChanged);
    EXPECT_TRUE(read(copy, 0, 10).empty()) << "for good";
}

TEST_F(SmallCopyTest, a_change_that_is_seen_while_the_content_is_brought_counts) {
    SmallCopy copy(ring_, version_, policy());
    source_.changes_ = 1;
    copy.look_again(source_, counters_);
    source_.changes_ = 0;
    EXPECT_TRUE(read(copy, 0, 10).empty());
    EXPECT_EQ(counters_.aside.load(), Aside::kChanged);
}

TEST_F(SmallCopyTest, a_file_that_fails_is_left_to_the_program_s_own_read) {
    CachePolicy limited = policy();
    limited.shared = std::make_shared<SharedBudget>(4000);
    SmallCopy copy(ring_, version_, limited);
    source_.failing_ = true;
    EXPECT_TRUE(read(copy, 0, 10).empty());
    EXPECT_TRUE(limited.shared->has(4000)) << "it keeps no memory";
    EXPECT_EQ(ring_->load(version_), std::nullopt);
}

class LeasedCopyTest : public SmallCopyTest {
  protected:
    LeasedCopyTest() { EXPECT_TRUE(ring_->store(version_, whole_)); }
    std::unique_ptr<SmallCopy> open(const CachePolicy& policy) {
        leases_.keep("/served/a.h5", lease_);
        return SmallCopy::by_lease(ring_, lease_, policy, leases_);
    }
    bool has_lease() { return leases_.find("/served/a.h5", 0).has_value(); }

    const std::vector<std::byte> whole_ = content(1, 3000);
    const Lease lease_{.version = version_, .traits = {}, .compared_ns = 0};
    Leases leases_{kOffsetMax};
};

TEST_F(LeasedCopyTest, nothing_is_asked_of_a_file_that_is_opened_by_a_lease) {
    const auto copy = open(policy());
    ASSERT_NE(copy, nullptr);
    source_.failing_ = true;
    source_.gone_ = ESTALE;
    EXPECT_EQ(copy->size(), 3000u);
    EXPECT_EQ(read(*copy, 0, 3000), whole_);
    EXPECT_EQ(read(*copy, 2500, 1000).size(), 500u) << "up to its end";
    std::byte one{};
    EXPECT_EQ(copy->read(source_, counters_, 3000, {&one, 1}), 0u);
    EXPECT_EQ(copy->read(source_, counters_, ~std::uint64_t{0}, {&one, 1}), 0u);
    EXPECT_EQ(source_.asked_.load(), 1u) << "by the test, for its version";
    EXPECT_EQ(counters_.hit_bytes.load(), 3500u);
}

TEST_F(LeasedCopyTest, without_the_copy_or_without_memory_the_file_has_to_be_opened) {
    CachePolicy limited = policy();
    limited.shared = std::make_shared<SharedBudget>(4000);
    const auto one = open(limited);
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(open(limited), nullptr);
    Lease other = lease_;
    other.version.changed_ns += 1;
    EXPECT_EQ(SmallCopy::by_lease(ring_, other, policy(), leases_), nullptr);
    EXPECT_TRUE(limited.shared->has(1000));
}

TEST_F(LeasedCopyTest, a_comparison_is_due_so_long_after_the_open) {
    CachePolicy looks = policy();
    looks.look_every_ns = 5;
    steady_ns = 100;
    const auto copy = open(looks);
    source_.changes_ = 1;
    steady_ns = 104;
    EXPECT_EQ(read(*copy, 0, 3000), whole_) << "not due";
    EXPECT_TRUE(has_lease());
    steady_ns = 105;
    EXPECT_TRUE(read(*copy, 0, 10).empty()) << "the file itself";
    EXPECT_EQ(copy->size(), std::nullopt);
    EXPECT_FALSE(has_lease());
    EXPECT_EQ(counters_.aside.load(), Aside::kChanged);
}

TEST_F(LeasedCopyTest, where_another_file_has_the_name_its_bytes_stay_as_those_of_an_open_file) {
    const auto copy = open(policy());
    source_.gone_ = ENOENT;
    copy->look_again(source_, counters_);
    EXPECT_FALSE(has_lease());
    EXPECT_EQ(read(*copy, 0, 3000), whole_);
    for (const int error : {ESTALE, ENOTDIR, ELOOP, ENXIO, EACCES, EMFILE, ENFILE}) {
        source_.gone_ = error;
        copy->look_again(source_, counters_);
        EXPECT_EQ(read(*copy, 0, 3000), whole_) << "only an open would fail: " << error;
    }
    source_.gone_ = 0;
    source_.changes_ = 1;
    copy->look_again(source_, counters_);
    EXPECT_TRUE(read(*copy, 0, 10).empty());
}

TEST_F(LeasedCopyTest, where_the_file_system_fails_the_program_s_own_read_tells_it) {
    const auto copy = open(policy());
    source_.gone_ = EIO;
    copy->look_again(source_, counters_);
    EXPECT_TRUE(read(*copy, 0, 10).empty());
}

TEST_F(LeasedCopyTest, threads_that_open_read_and_compare_at_once_see_whole_files) {
    CachePolicy looks = policy();
    looks.look_every_ns = 0;   // each read compares
    const auto shared = open(looks);
    std::atomic<int> others{0}, opened{0};
    {
        std::vector<std::jthread> threads;
        for (int number = 0; number < 4; ++number)
            threads.emplace_back([&, number] {
                for (int i = 0; i < 200; ++i) {
                    if (number == 0) source_.gone_ = i % 3 == 0 ? ENOENT : 0;
                    if (number == 1) leases_.keep("/served/a.h5", lease_);
                    CacheCounters counters;
                    std::vector<std::byte> into(3000);
                    const auto lease = leases_.find("/served/a.h5", 0);
                    const auto copy = lease ? SmallCopy::by_lease(ring_, *lease, looks, leases_) : nullptr;
                    if (copy != nullptr) ++opened;
                    for (SmallCopy* one : {copy.get(), shared.get()})
                        if (one != nullptr && (one->read(source_, counters, 0, into) != 3000u || into != whole_))
                            ++others;
                }
            });
    }
    EXPECT_EQ(others.load(), 0);
    EXPECT_GT(opened.load(), 0);
}

TEST_F(LeasedCopyTest, a_forked_child_reads_it) {
    const auto copy = open(policy());
    const pid_t child = ::fork();
    if (child == 0) ::_exit(read(*copy, 0, 3000) == whole_ ? 0 : 1);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(SmallCopyTest, a_change_ends_the_lease) {
    Leases leases(kOffsetMax);
    leases.keep("/served/a.h5", {.version = version_, .traits = {}, .compared_ns = 0});
    SmallCopy copy(ring_, version_, policy(), &leases);
    copy.look_again(source_, counters_);
    EXPECT_TRUE(leases.find("/served/a.h5", 0));
    source_.changes_ = 1;
    copy.look_again(source_, counters_);
    EXPECT_FALSE(leases.find("/served/a.h5", 0));
}

TEST_F(SmallCopyTest, its_memory_is_part_of_the_budget_of_the_process) {
    CachePolicy limited = policy();
    limited.shared = std::make_shared<SharedBudget>(4000);
    {
        SmallCopy one(ring_, version_, limited), other(ring_, version_, limited);
        EXPECT_EQ(read(one, 0, 10).size(), 10u);
        EXPECT_TRUE(read(other, 0, 10).empty());
        EXPECT_EQ(counters_.aside.load(), Aside::kFull);
    }
    EXPECT_TRUE(limited.shared->has(4000));
}

}   // namespace
}   // namespace forebay::cache
