#include "cache/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <new>
#include <sstream>
#include <string>

#include "io/fault_file.h"
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
    static constexpr std::uint64_t kMapBytes = 4096 + 4096 + 4 * kUnitBlocks * 4;   // of four units

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
    static Status fill(Store& store, const Version& version, std::uint64_t units, bool permanent = true) {
        const auto replica = store.replica(version, {.permanent = permanent});
        if (!replica) return replica.status();
        const auto bytes = test::bytes_of(kUnitBytes, version.identity.inode);
        for (std::uint64_t unit = 0; unit < units; ++unit) {
            const auto claim = Replica::claim(replica.value(), unit);
            if (!claim) return {Code::kUnavailable, "the unit is claimed"};
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
    EXPECT_EQ(one->stored_bytes(), 5 * kUnitBytes + 2 * kMapBytes) << "with the maps";
    EXPECT_THAT(names(*one), testing::ElementsAre("7-1", "7-2"));
}

TEST_F(StoreTest, a_full_cache_lets_go_of_what_was_not_used_for_longest) {
    const auto store = open(8 * kUnitBytes + 2 * kMapBytes);
    for (const std::uint64_t inode : {1, 2, 1}) ASSERT_TRUE(fill(*store, file(inode), 4));
    ASSERT_TRUE(fill(*store, file(3), 4));
    EXPECT_THAT(names(*store), testing::ElementsAre("7-1", "7-3"));
    EXPECT_EQ(store->stored_bytes(), 8 * kUnitBytes + 2 * kMapBytes);
}

TEST_F(StoreTest, the_policy_decides_what_goes) {
    for (const auto& [replacement, stays] :
         {std::pair{Replacement::kLru, "7-1"}, std::pair{Replacement::kLfu, "7-1"},
          std::pair{Replacement::kFifo, "7-2"}, std::pair{Replacement::kLifo, "7-1"}}) {
        area_ = io::make_memory_directory("/local/forebay-0");
        const auto store = open(8 * kUnitBytes + 2 * kMapBytes, replacement);
        for (const std::uint64_t inode : {1, 2, 1, 1}) ASSERT_TRUE(fill(*store, file(inode), 4));
        ASSERT_TRUE(fill(*store, file(3), 4));
        EXPECT_THAT(names(*store), testing::ElementsAre(stays, "7-3")) << static_cast<int>(replacement);
    }
}

TEST_F(StoreTest, what_somebody_has_open_stays_and_the_cache_is_full) {
    const auto store = open(4 * kUnitBytes + 2 * kMapBytes);
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
    EXPECT_EQ(store->stored_bytes(), kMapBytes);
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
    EXPECT_EQ(open(100 * kUnitBytes)->stored_bytes(), 3 * kUnitBytes + kMapBytes);
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
    EXPECT_EQ(store->stored_bytes(), 2 * kUnitBytes + kMapBytes);
}

TEST_F(StoreTest, folders_that_are_no_replicas_are_left_alone) {
    auto cache = area_->create_directory("cache").value();
    auto theirs = cache->create_directory("notes").value();
    ASSERT_TRUE(theirs->open_file("letter", io::OpenMode::kCreateNew).value()->write_at(0, test::bytes_of(500, 1)));
    const auto store = open(100 * kUnitBytes);
    (void)store->evict(100 * kUnitBytes, true);
    EXPECT_TRUE(theirs->open_file("letter", io::OpenMode::kRead));
}

TEST_F(StoreTest, a_temporal_replica_goes_when_its_last_user_closes_it) {
    const auto one = open(100 * kUnitBytes), other = open(100 * kUnitBytes);
    auto first = one->replica(file(1), {.permanent = false}), second = other->replica(file(1), {.permanent = false});
    ASSERT_TRUE(first && second);
    ASSERT_TRUE(fill(*one, file(1), 2, false));
    first = Status(Code::kInternal, "closed");
    EXPECT_THAT(names(*one), testing::ElementsAre("7-1")) << "somebody has it open";
    second = Status(Code::kInternal, "closed");
    EXPECT_THAT(names(*one), testing::ElementsAre());
    EXPECT_EQ(one->stored_bytes(), 0u);
}

TEST_F(StoreTest, a_replica_is_permanent_once_anybody_wants_it_so) {
    const auto store = open(100 * kUnitBytes);
    {
        const auto first = store->replica(file(1), {.permanent = false});
        ASSERT_TRUE(first);
        ASSERT_TRUE(fill(*store, file(1), 1));
    }
    ASSERT_TRUE(fill(*store, file(1), 2, false));
    ASSERT_EQ(names(*store).size(), 1u);
    EXPECT_TRUE(store->list().front().permanent);
}

TEST_F(StoreTest, a_temporal_replica_whose_users_died_is_removed_by_the_next_process) {
    {
        const auto store = open(100 * kUnitBytes);
        ASSERT_TRUE(fill(*store, file(1), 2));
        ASSERT_TRUE(fill(*store, file(2), 1));
    }
    // As if it had been temporal, and its last user was killed.
    auto folder = area_->open_directory("cache").value()->open_directory("7-1").value();
    {
        const auto map = folder->open_file("presence", io::OpenMode::kReadWrite).value()->map(0, 4096).value();
        reinterpret_cast<PresenceHeader*>(map->bytes().data())->flags = 0;
    }
    {
        const auto lives = folder->hold("owner-17");
        ASSERT_TRUE(lives);
        EXPECT_EQ(names(*open(100 * kUnitBytes)).size(), 2u);
    }
    const auto store = open(100 * kUnitBytes);
    EXPECT_THAT(names(*store), testing::ElementsAre("7-2"));
    EXPECT_EQ(store->stored_bytes(), kUnitBytes + kMapBytes);
}

// Its number and start time, as the system tells them.
area::ProcessIdentity process_of(pid_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text, '\0');
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    for (int number = 3; number < 22; ++number) fields >> text;
    area::ProcessIdentity process = area::identify_this_process().value();
    process.pid = static_cast<std::uint64_t>(pid);
    fields >> process.start_ticks;
    return process;
}

TEST_F(StoreTest, a_temporal_replica_of_a_worker_stays_until_its_parent_leaves) {
    const auto store = open(100 * kUnitBytes);
    const area::ProcessIdentity self = process_of(::getpid());
    ASSERT_TRUE(store->replica(file(1), {.permanent = false, .parent = self})) << "and it is closed";
    EXPECT_THAT(names(*open(100 * kUnitBytes)), testing::ElementsAre("7-1")) << "for the next worker";
    {
        const auto used = store->replica(file(1), {.permanent = false});
        store->leave({7, 1});
        EXPECT_THAT(names(*store), testing::ElementsAre("7-1")) << "somebody has it open";
    }
    store->leave({7, 1});
    EXPECT_THAT(names(*store), testing::ElementsAre());
    EXPECT_EQ(store->stored_bytes(), 0u);
}

TEST_F(StoreTest, a_replica_stays_for_the_parents_of_other_workers_and_goes_after_all_of_them) {
    const auto store = open(100 * kUnitBytes);
    const area::ProcessIdentity other = process_of(::getppid());
    area::ProcessIdentity ended = other;
    ++ended.start_ticks;
    ASSERT_TRUE(store->replica(file(1), {.permanent = false, .parent = ended}));
    EXPECT_THAT(names(*store), testing::ElementsAre()) << "nobody will come";
    ASSERT_TRUE(store->replica(file(1), {.permanent = false, .parent = other}));
    store->leave({7, 1});
    EXPECT_THAT(names(*store), testing::ElementsAre("7-1")) << "it is not this process's";
    EXPECT_TRUE(store->list().front().has_parent);
    EXPECT_GT(store->evict(kUnitBytes), 0u) << "room comes first";
    EXPECT_THAT(names(*store), testing::ElementsAre());
}

TEST_F(StoreTest, names_of_parents_do_not_gather_and_foreign_ones_mean_nothing) {
    const auto store = open(100 * kUnitBytes);
    const area::ProcessIdentity self = process_of(::getpid());
    ASSERT_TRUE(store->replica(file(1), {.permanent = false, .parent = self}));
    const auto folder = area_->open_directory("cache").value()->open_directory("7-1").value();
    for (const char* foreign : {"parent-", "parent-x", "parent-1", "parent-1-1-1", "parent-99999999999999999999-1"})
        ASSERT_TRUE(folder->open_file(foreign, io::OpenMode::kCreateNew));
    area::ProcessIdentity ended = self;
    ++ended.start_ticks;
    ASSERT_TRUE(folder->open_file("parent-" + area::process_name(ended), io::OpenMode::kCreateNew));
    ASSERT_TRUE(store->replica(file(1), {.permanent = false, .parent = self}));
    const auto left = folder->list().value();
    EXPECT_EQ(std::ranges::count_if(left, [](const auto& name) { return name.starts_with("parent-"); }), 1);
    store->leave({7, 1});
    EXPECT_THAT(names(*store), testing::ElementsAre());
}

TEST_F(StoreTest, a_pinned_replica_stays_also_when_its_file_changes) {
    const auto store = open(8 * kUnitBytes + 2 * kMapBytes);
    {
        const auto replica = store->replica(file(1), {.permanent = false});
        ASSERT_TRUE(replica);
        replica.value()->use().set_pinned(true);
        ASSERT_TRUE(fill(*store, file(1), 4, false));
    }
    EXPECT_THAT(names(*store), testing::ElementsAre("7-1")) << "though it is temporal";
    Version changed = file(1);
    changed.modified_ns += 1;
    ASSERT_TRUE(fill(*store, changed, 4, false));
    ASSERT_EQ(names(*store).size(), 1u);
    EXPECT_TRUE(store->list().front().pinned);
    EXPECT_EQ(store->evict(kUnitBytes), 0u);
    const auto evicted = store->evict_one("7-1");
    ASSERT_TRUE(evicted);
    EXPECT_TRUE(evicted.value().removed);
    EXPECT_EQ(store->stored_bytes(), 0u);
}

TEST_F(StoreTest, a_replica_in_use_is_evicted_by_units_but_for_those_that_somebody_changes) {
    const auto store = open(100 * kUnitBytes);
    ASSERT_TRUE(fill(*store, file(1), 4));
    const auto used = store->replica(file(1));
    ASSERT_TRUE(used);
    {
        const auto claim = Replica::claim(used.value(), 2);
        ASSERT_TRUE(claim);
        const auto evicted = store->evict_one("7-1");
        ASSERT_TRUE(evicted) << evicted.status().message();
        EXPECT_FALSE(evicted.value().removed);
        EXPECT_EQ(evicted.value().bytes, 3 * kUnitBytes);
        EXPECT_EQ(evicted.value().units_left, 1u);
    }
    EXPECT_EQ(store->evict_one("7-1").value().bytes, kUnitBytes);
    EXPECT_EQ(store->stored_bytes(), kMapBytes);
    EXPECT_FALSE(used.value()->unusable());
}

TEST_F(StoreTest, the_view_tells_the_path_the_state_and_the_use) {
    const auto store = open(100 * kUnitBytes);
    {
        const auto replica = store->replica(file(1), {.path = "/scratch/a \x1b[2Jfile.h5"});
        ASSERT_TRUE(replica);
        const ReplicaView view = store->list().front();
        EXPECT_EQ(view.path, "/scratch/a \x1b[2Jfile.h5");
        EXPECT_TRUE(view.in_use && view.permanent && !view.pinned);
        EXPECT_EQ(view.state, ReplicaView::State::kValid);
        EXPECT_EQ(view.opens, 1u);
        EXPECT_EQ(view.source, file(1));
    }
    EXPECT_FALSE(store->list().front().in_use);
    const auto cache = area_->open_directory("cache").value();
    EXPECT_EQ(read_account(*cache).value().stored_bytes, kMapBytes);
    EXPECT_EQ(read_account(*cache).value().capacity_bytes, 100 * kUnitBytes);
    auto writing = store->begin_writing(file(1).identity);
    ASSERT_TRUE(writing);
    EXPECT_EQ(store->list().front().state, ReplicaView::State::kVoid);
    EXPECT_EQ(store->evict_one("7-1").status().code(), Code::kUnavailable);
    writing = Status(Code::kInternal, "closed");
    EXPECT_TRUE(store->evict_one("7-1").value().removed);
}

// Whatever fails: nothing that is left over is counted for ever.
TEST_F(StoreTest, the_nth_call_fails_and_the_account_is_right_afterwards) {
    for (std::uint64_t nth = 1;; ++nth) {
        area_ = io::make_memory_directory("/local/forebay-0");
        const auto faults = std::make_shared<io::FaultPlan>();
        faults->fail_any(nth, 1, EIO);
        auto folder = area_->create_directory("cache");
        auto store = Store::open({.folder = io::make_fault_directory(std::move(folder).value(), faults),
                                  .capacity_bytes = 100 * kUnitBytes,
                                  .now_ns = ticking});
        if (store) {
            (void)fill(*store.value(), file(1), 2, nth % 2 == 0);
            Version changed = file(1);
            changed.size += 1;
            (void)fill(*store.value(), changed, 1);
            (void)store.value()->begin_writing(file(1).identity);
            (void)fill(*store.value(), file(2), 1);
            (void)store.value()->evict_one("7-1");
            (void)store.value()->evict(kUnitBytes);
        }
        const bool fired = faults->fired() > 0;
        faults->clear();
        store = Status(Code::kInternal, "closed");
        const auto after = open(100 * kUnitBytes);
        std::uint64_t bytes = 0;
        for (const ReplicaView& view : after->list()) bytes += view.bytes();
        ASSERT_EQ(after->stored_bytes(), bytes) << nth;
        ASSERT_TRUE(fill(*after, file(1), 4)) << nth;
        (void)after->evict(1000 * kUnitBytes, true);
        ASSERT_EQ(after->stored_bytes(), 0u) << nth;
        if (!fired) break;
    }
}

// Every process does that at its first cached file: its folder and its map are opened once, and the map is read.
TEST_F(StoreTest, an_open_of_the_cache_makes_four_calls_for_each_replica) {
    constexpr std::uint64_t kReplicas = 40, kCallsElse = 40;
    for (std::uint64_t inode = 1; inode <= kReplicas; ++inode)
        ASSERT_TRUE(fill(*open(100 * kUnitBytes), file(inode), 1));
    const auto opened_with = [&](std::uint64_t calls_max) {
        const auto faults = std::make_shared<io::FaultPlan>();
        faults->fail_any(calls_max + 1, 1, EIO);
        auto folder = area_->open_directory("cache");
        (void)Store::open({.folder = io::make_fault_directory(std::move(folder).value(), faults),
                           .capacity_bytes = 100 * kUnitBytes,
                           .now_ns = ticking});
        return faults->fired() == 0;
    };
    EXPECT_TRUE(opened_with(4 * kReplicas + kCallsElse));
    EXPECT_FALSE(opened_with(3 * kReplicas)) << "the calls are counted";
}

// The account of the first device, as all processes map it.
class MappedAccount {
  public:
    explicit MappedAccount(io::Directory& area)
        : map_(std::move(area.open_directory("cache")
                             .value()
                             ->open_file("account", io::OpenMode::kReadWrite)
                             .value()
                             ->map(0, 4096))
                   .value()) {}
    std::uint64_t& operator[](std::size_t word) const {
        return reinterpret_cast<std::uint64_t*>(map_->bytes().data())[word];
    }

  private:
    std::unique_ptr<io::Mapping> map_;
};

TEST_F(StoreTest, an_open_of_the_cache_looks_at_few_of_many_replicas_on_average) {
    constexpr std::uint64_t kReplicas = 320, kTurns = 2, kOpens = kTurns * kReplicas / kLooksPerOpen, kCallsElse = 40;
    {
        const auto store = open(1000 * kUnitBytes);
        for (std::uint64_t inode = 1; inode <= kReplicas; ++inode) ASSERT_TRUE(fill(*store, file(inode), 1));
    }
    (void)open(1000 * kUnitBytes);   // counts
    const auto faults = std::make_shared<io::FaultPlan>();
    faults->fail_any(kTurns * 4 * kReplicas + kOpens * kCallsElse + 1, 1, EIO);
    for (std::uint64_t i = 0; i < kOpens; ++i)
        (void)Store::open({.folder = io::make_fault_directory(area_->open_directory("cache").value(), faults),
                           .capacity_bytes = 1000 * kUnitBytes,
                           .now_ns = ticking});
    EXPECT_EQ(faults->fired(), 0u);
}

TEST_F(StoreTest, what_processes_have_left_in_a_cache_of_many_replicas_goes_after_some_opens) {
    constexpr std::uint64_t kReplicas = 320;
    {
        const auto store = open(1000 * kUnitBytes);
        for (std::uint64_t inode = 1; inode <= kReplicas; ++inode) ASSERT_TRUE(fill(*store, file(inode), 1));
    }
    (void)open(1000 * kUnitBytes);   // counts
    const std::uint64_t right = open(1000 * kUnitBytes)->stored_bytes();
    {
        // A temporal replica whose last user was killed, as were others that had taken room.
        const auto folder = area_->open_directory("cache").value()->open_directory("7-1").value();
        const auto map = folder->open_file("presence", io::OpenMode::kReadWrite).value()->map(0, 4096).value();
        reinterpret_cast<PresenceHeader*>(map->bytes().data())->flags = 0;
        MappedAccount(*area_)[1] += 7 * kUnitBytes;
    }
    std::uint64_t opens = 0;
    while (area_->open_directory("cache").value()->open_directory("7-1")) {
        (void)open(1000 * kUnitBytes);
        ASSERT_LE(++opens, kReplicas / kLooksPerOpen);
    }
    EXPECT_GT(opens, 1u) << "not every open looks";
    EXPECT_EQ(open(1000 * kUnitBytes)->stored_bytes(), right - kUnitBytes - kMapBytes);
}

TEST_F(StoreTest, a_count_that_another_process_did_not_finish_is_made_up_for) {
    ASSERT_TRUE(fill(*open(100 * kUnitBytes), file(1), 3));
    const MappedAccount account(*area_);
    account[1] += kUnitBytes;
    account[4] = 9;           // opens since the last count
    account[5] = 320;         // replicas at that
    account[3] = ticking();   // another process has just begun
    EXPECT_EQ(open(100 * kUnitBytes)->stored_bytes(), 4 * kUnitBytes + kMapBytes);
    account[3] = 0;   // it was killed, and time has passed
    EXPECT_EQ(open(100 * kUnitBytes)->stored_bytes(), 3 * kUnitBytes + kMapBytes);
    EXPECT_EQ(account[4], 0u);
    EXPECT_EQ(account[5], 1u);
}

TEST_F(StoreTest, a_damaged_account_puts_the_count_off_and_not_for_ever) {
    ASSERT_TRUE(fill(*open(100 * kUnitBytes), file(1), 3));
    const MappedAccount account(*area_);
    account[1] += kUnitBytes;
    account[5] = ~std::uint64_t{0};
    int opens = 0;
    while (open(100 * kUnitBytes)->stored_bytes() != 3 * kUnitBytes + kMapBytes) ASSERT_LE(++opens, 2000);
    EXPECT_GT(opens, 100);
}

TEST_F(StoreTest, a_map_cannot_tell_of_more_than_it_holds) {
    ASSERT_TRUE(fill(*open(100 * kUnitBytes), file(1), 1));
    const auto cache = area_->open_directory("cache").value();
    const auto folder = cache->open_directory("7-1").value();
    const auto map = folder->open_file("presence", io::OpenMode::kReadWrite).value()->map(0, 4096).value();
    reinterpret_cast<PresenceHeader*>(map->bytes().data())->stored_bytes = ~std::uint64_t{0};
    EXPECT_LT(list_replicas(*cache).front().stored_bytes, std::uint64_t{1} << 30);
    const auto path = folder->open_file(kSourceFile, io::OpenMode::kCreateNew);
    ASSERT_TRUE(path);
    ASSERT_TRUE(path.value()->write_at(0, test::bytes_of(100'000, 1)));
    EXPECT_EQ(list_replicas(*cache).front().path.size(), kSourcePathMax);
}

TEST_F(StoreTest, so_many_files_are_open_at_a_time_and_no_more) {
    const auto store = open(1000 * kUnitBytes);
    std::vector<std::shared_ptr<Replica>> all;
    for (std::uint64_t inode = 1; inode <= kOpenReplicasMax; ++inode) {
        auto replica = store->replica(file(inode));
        ASSERT_TRUE(replica) << replica.status().message();
        all.push_back(replica.value());
    }
    EXPECT_EQ(store->replica(file(1000)).status().sys_errno(), EMFILE);
    all.pop_back();
    EXPECT_TRUE(store->replica(file(1000)));
}

TEST_F(StoreTest, what_is_stored_in_a_replica_that_became_void_is_not_counted) {
    const auto store = open(100 * kUnitBytes);
    const auto old = store->replica(file(1));
    ASSERT_TRUE(old);
    Version changed = file(1);
    changed.modified_ns += 1;
    const auto claim = Replica::claim(old.value(), 0);
    ASSERT_TRUE(claim);
    ASSERT_TRUE(old.value()->store(*claim, 0, test::bytes_of(kUnitBytes, 1)));
    ASSERT_TRUE(store->replica(changed));
    EXPECT_FALSE(old.value()->store(*claim, 0, test::bytes_of(kUnitBytes, 1)));
    EXPECT_TRUE(old.value()->evict(*claim));
    EXPECT_EQ(store->stored_bytes(), kMapBytes);
}

TEST_F(StoreTest, a_device_without_room_is_asked_again_each_time) {
    auto folder = area_->create_directory("cache");
    std::uint64_t free_bytes = 0, looks = 0;
    auto store = Store::open({.folder = std::move(folder).value(),
                              .capacity_bytes = std::uint64_t{1} << 40,
                              .now_ns = ticking,
                              .free_bytes = [&]() -> std::uint64_t {
                                  ++looks;
                                  if (looks == 2) throw std::bad_alloc();
                                  return free_bytes;
                              }});
    ASSERT_TRUE(store);
    EXPECT_EQ(fill(*store.value(), file(1, 2000 * kUnitBytes), 300).code(), Code::kNoSpace);
    free_bytes = 1 << 30;
    looks = 1;
    EXPECT_EQ(fill(*store.value(), file(1, 2000 * kUnitBytes), 300).code(), Code::kNoSpace) << "nobody can tell";
    EXPECT_TRUE(fill(*store.value(), file(1, 2000 * kUnitBytes), 300));
}

TEST_F(StoreTest, a_device_without_room_is_asked_before_the_first_byte) {
    auto store = Store::open({.folder = area_->create_directory("cache").value(),
                              .capacity_bytes = 100 * kUnitBytes,
                              .now_ns = ticking,
                              .keep_free_bytes = 1 << 20,
                              .free_bytes = []() -> std::uint64_t { return 1 << 20; }});
    ASSERT_TRUE(store);
    EXPECT_EQ(fill(*store.value(), file(1), 1).code(), Code::kNoSpace);
    EXPECT_EQ(store.value()->stored_bytes(), 0u);
}

TEST_F(StoreTest, nothing_is_removed_for_what_cannot_fit) {
    const auto store = open(20 * kUnitBytes);
    ASSERT_TRUE(fill(*store, file(1), 4));
    EXPECT_FALSE(store->replica(file(2, std::uint64_t{1} << 40))) << "its map is larger than the cache";
    EXPECT_THAT(names(*store), testing::Contains("7-1"));
    EXPECT_EQ(store->evict(kUnitBytes, false, 30 * kUnitBytes), 0u);
    EXPECT_THAT(names(*store), testing::Contains("7-1"));
    EXPECT_GE(store->evict(kUnitBytes, false, 4 * kUnitBytes), 4 * kUnitBytes);
}

TEST_F(StoreTest, of_processes_that_start_together_one_counts) {
    ASSERT_TRUE(fill(*open(100 * kUnitBytes), file(1), 3));
    const MappedAccount words(*area_);
    words[1] += kUnitBytes;   // a process that was killed had taken this
    words[3] = ticking();     // another one has just begun to count
    EXPECT_EQ(open(100 * kUnitBytes)->stored_bytes(), 4 * kUnitBytes + kMapBytes);
    words[3] = 0;
    EXPECT_EQ(open(100 * kUnitBytes)->stored_bytes(), 3 * kUnitBytes + kMapBytes);
    EXPECT_EQ(words[3], 0u);
}

}   // namespace
}   // namespace forebay::cache
