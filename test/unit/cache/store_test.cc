#include "cache/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/memory_file.h"
#include "support/team_files.h"

namespace forebay::cache {
namespace {

std::uint64_t clock_ns = 0;
std::uint64_t ticking() noexcept { return ++clock_ns; }

class StoreTest : public testing::Test {
  protected:
    static Version file(std::uint64_t inode, std::uint64_t size = 4 * kUnitBytes) {
        return {{7, inode}, 1, 2, size, 3, 4};
    }
    std::shared_ptr<Store> open(std::uint64_t capacity, Replacement replacement = Replacement::kLru) {
        auto folder = area_->create_directory("cache");
        if (!folder) folder = area_->open_directory("cache");
        auto store = Store::open({.folder = std::move(folder).value(),
                                  .capacity_bytes = capacity,
                                  .replacement = replacement,
                                  .now_ns = ticking});
        EXPECT_TRUE(store) << store.status().message();
        return store.value();
    }
    // Stores so many units of the file, and closes it.
    static Status fill(Store& store, const Version& version, std::uint64_t units) {
        const auto replica = store.replica(version);
        if (!replica) return replica.status();
        const auto bytes = test::bytes_of(kUnitBytes, version.identity.inode);
        for (std::uint64_t unit = 0; unit < units; ++unit) {
            const auto claim = Replica::claim(replica.value(), unit);
            FOREBAY_TRY(replica.value()->store(*claim, unit * kUnitBytes, bytes));
        }
        return Status::ok();
    }
    static std::vector<std::string> names(Store& store) {
        std::vector<std::string> all;
        for (const ReplicaView& view : store.list()) all.push_back(view.name);
        return all;
    }

    std::unique_ptr<io::Directory> area_ = io::make_memory_directory("/local/forebay-0");
};

TEST_F(StoreTest, what_is_stored_is_counted_over_all_files_and_stores) {
    const auto one = open(100 * kUnitBytes), other = open(100 * kUnitBytes);
    ASSERT_TRUE(fill(*one, file(1), 2));
    ASSERT_TRUE(fill(*other, file(2), 3));
    EXPECT_EQ(one->stored_bytes(), 5 * kUnitBytes);
    EXPECT_THAT(names(*one), testing::ElementsAre("7-1", "7-2"));
}

TEST_F(StoreTest, a_full_cache_lets_go_of_what_was_not_used_for_longest) {
    const auto store = open(8 * kUnitBytes);
    for (const std::uint64_t inode : {1, 2, 1}) ASSERT_TRUE(fill(*store, file(inode), 4));
    ASSERT_TRUE(fill(*store, file(3), 4));
    EXPECT_THAT(names(*store), testing::ElementsAre("7-1", "7-3"));
    EXPECT_EQ(store->stored_bytes(), 8 * kUnitBytes);
}

TEST_F(StoreTest, the_policy_decides_what_goes) {
    for (const auto& [replacement, stays] :
         {std::pair{Replacement::kLru, "7-1"}, std::pair{Replacement::kLfu, "7-1"},
          std::pair{Replacement::kFifo, "7-2"}, std::pair{Replacement::kLifo, "7-1"}}) {
        area_ = io::make_memory_directory("/local/forebay-0");
        const auto store = open(8 * kUnitBytes, replacement);
        for (const std::uint64_t inode : {1, 2, 1, 1}) ASSERT_TRUE(fill(*store, file(inode), 4));
        ASSERT_TRUE(fill(*store, file(3), 4));
        EXPECT_THAT(names(*store), testing::ElementsAre(stays, "7-3")) << static_cast<int>(replacement);
    }
}

TEST_F(StoreTest, what_somebody_has_open_stays_and_the_cache_is_full) {
    const auto store = open(4 * kUnitBytes);
    const auto used = store->replica(file(1));
    ASSERT_TRUE(used);
    ASSERT_TRUE(fill(*store, file(1), 4));
    EXPECT_EQ(fill(*store, file(2), 1).code(), Code::kNoSpace);
    EXPECT_EQ(used.value()->stored_bytes(), 4 * kUnitBytes);
}

TEST_F(StoreTest, another_version_of_a_file_gets_a_replica_of_its_own_and_the_old_one_is_void) {
    const auto store = open(100 * kUnitBytes);
    const auto old = store->replica(file(1));
    ASSERT_TRUE(fill(*store, file(1), 4));
    Version changed = file(1);
    changed.modified_ns += 1;
    const auto fresh = store->replica(changed);
    ASSERT_TRUE(fresh) << fresh.status().message();
    EXPECT_TRUE(old.value()->unusable());
    EXPECT_EQ(fresh.value()->stored_bytes(), 0u);
    EXPECT_EQ(store->stored_bytes(), 0u);
    std::vector<std::byte> into(100);
    EXPECT_EQ(old.value()->read(0, into), 0u);
}

TEST_F(StoreTest, a_file_that_is_written_is_void_for_all) {
    const auto store = open(100 * kUnitBytes);
    const auto replica = store->replica(file(1));
    ASSERT_TRUE(fill(*store, file(1), 1));
    EXPECT_TRUE(open(100 * kUnitBytes)->begin_writing(file(1).identity));
    std::vector<std::byte> into(100);
    EXPECT_EQ(replica.value()->read(0, into), 0u);
    EXPECT_TRUE(store->begin_writing(file(99).identity));   // there is none
}

TEST_F(StoreTest, a_cache_that_nobody_uses_is_counted_anew) {
    ASSERT_TRUE(fill(*open(100 * kUnitBytes), file(1), 3));
    {
        const auto cache = area_->open_directory("cache").value();
        const auto map = cache->open_file("account", io::OpenMode::kReadWrite).value()->map(0, 4096).value();
        map->bytes()[14] = std::byte{9};   // a process that was killed had taken this
    }
    EXPECT_EQ(open(100 * kUnitBytes)->stored_bytes(), 3 * kUnitBytes);
}

TEST_F(StoreTest, the_device_keeps_room_for_write_staging) {
    auto folder = area_->create_directory("cache");
    std::uint64_t free_bytes = 1 << 30;
    auto store = Store::open({.folder = std::move(folder).value(),
                              .capacity_bytes = std::uint64_t{1} << 40,
                              .now_ns = ticking,
                              .keep_free_bytes = 512 << 20,
                              .free_bytes = [&] { return free_bytes; }});
    ASSERT_TRUE(store);
    ASSERT_TRUE(fill(*store.value(), file(1, 2000 * kUnitBytes), 300));
    free_bytes = 100 << 20;
    EXPECT_EQ(fill(*store.value(), file(2, 2000 * kUnitBytes), 600).code(), Code::kNoSpace);
}

TEST_F(StoreTest, foreign_things_in_its_folder_do_no_harm) {
    auto cache = area_->create_directory("cache").value();
    (void)cache->open_file("a file", io::OpenMode::kCreateNew);
    auto strange = cache->create_directory("7-1").value();
    ASSERT_TRUE(strange->open_file("presence", io::OpenMode::kCreateNew).value()->write_at(0, test::bytes_of(500, 1)));
    const auto store = open(100 * kUnitBytes);
    EXPECT_TRUE(fill(*store, file(1), 2));
    EXPECT_EQ(store->stored_bytes(), 2 * kUnitBytes);
}

}   // namespace
}   // namespace forebay::cache
