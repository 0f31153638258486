// A cache on several devices: where units go, and what happens when a device is full, fails, or is not the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "cache/cached_file.h"
#include "cache/store.h"
#include "io/fault_file.h"
#include "io/memory_file.h"
#include "support/memory_source.h"
#include "support/team_files.h"
#include "task/engine.h"

namespace forebay::cache {
namespace {

using test::bytes_of;

std::uint64_t ticks = 0;
std::uint64_t tick() noexcept { return ++ticks; }
std::uint64_t long_after() noexcept { return 1'000'000'000'000; }
std::uint64_t no_time() noexcept { return 5; }

std::unique_ptr<io::Directory> entered(io::Directory& parent, const std::string& name) {
    auto folder = parent.create_directory(name);
    if (!folder) folder = parent.open_directory(name);
    return std::move(folder).value();
}

class DevicesTest : public testing::Test {
  protected:
    static constexpr std::uint64_t kUnits = 12, kSize = kUnits * kUnitBytes;
    static constexpr std::uint64_t kMapBytes = 4096 + 4096 + kUnitBlocks * 4 * kUnits;
    static constexpr std::uint64_t kMuch = 1000 * kUnitBytes;

    // Device 0 is the first one. Capacities in units; the first one has room for its maps as well.
    std::shared_ptr<Store> open(const std::vector<std::uint64_t>& units, std::size_t filled_first = 0) {
        StoreSetup setup{.folder = entered(*roots_[0], "cache"),
                         .capacity_bytes = units[0] * kUnitBytes + 3 * kMapBytes,
                         .now_ns = tick,
                         .filled_first = filled_first};
        for (std::size_t i = 1; i < units.size(); ++i)
            setup.further.push_back({path(i), part_folder(i), {.capacity_bytes = units[i] * kUnitBytes}});
        setup.open_part = [this](const std::string& wanted) -> Result<std::unique_ptr<io::Directory>> {
            for (std::size_t i = 1; i < roots_.size(); ++i)
                if (path(i) == wanted && there_[i]) return part_folder(i);
            return Status(Code::kNotFound, "no device");
        };
        auto store = Store::open(std::move(setup));
        EXPECT_TRUE(store) << store.status().message();
        return store.value();
    }
    static std::string path(std::size_t device) { return "/device" + std::to_string(device) + "/parts"; }
    std::unique_ptr<io::Directory> part_folder(std::size_t device) {
        return io::make_fault_directory(entered(*roots_[device], "parts"), faults_[device]);
    }
    std::vector<std::string> files_on(std::size_t device) {
        std::vector<std::string> files = entered(*roots_[device], "parts")->list().value();
        std::erase(files, "account");
        return files;
    }
    static Version file(std::uint64_t inode) { return {{7, inode}, 1, 2, kSize, 3, 4}; }
    Status fill(const std::shared_ptr<Replica>& replica, std::uint64_t first = 0, std::uint64_t end = kUnits,
                std::uint64_t bytes = kUnitBytes) const {
        for (std::uint64_t unit = first; unit < end; ++unit) {
            const auto claim = Replica::claim(replica, unit);
            if (!claim) return {Code::kUnavailable, "the unit is claimed"};
            FOREBAY_TRY(replica->store(*claim, unit * kUnitBytes,
                                       io::Bytes(content_).subspan(unit * kUnitBytes, bytes)));
        }
        return Status::ok();
    }
    // The units that are read whole, and are what was stored.
    std::uint64_t whole_units(Replica& replica) const {
        std::uint64_t whole = 0;
        for (std::uint64_t unit = 0; unit < kUnits; ++unit) {
            std::vector<std::byte> into(kUnitBytes);
            const std::size_t got = replica.read(unit * kUnitBytes, into);
            const auto expected = content_.begin() + static_cast<std::ptrdiff_t>(unit * kUnitBytes);
            EXPECT_TRUE(std::equal(into.begin(), into.begin() + static_cast<std::ptrdiff_t>(got), expected)) << unit;
            whole += got == kUnitBytes ? 1 : 0;
        }
        return whole;
    }
    // Of the only replica: units on each device.
    static std::vector<std::uint64_t> units_on(Store& store) {
        std::vector<std::uint64_t> units;
        const auto views = store.list();
        for (std::size_t device = 0; device < 3; ++device) units.push_back(views[0].device_bytes[device] / kUnitBytes);
        return units;
    }

    std::vector<std::byte> content_ = bytes_of(kSize, 3);
    std::array<std::unique_ptr<io::Directory>, 3> roots_{io::make_memory_directory("/device0"),
                                                         io::make_memory_directory("/device1"),
                                                         io::make_memory_directory("/device2")};
    std::array<bool, 3> there_{true, true, true};
    std::array<std::shared_ptr<io::FaultPlan>, 3> faults_{
        std::make_shared<io::FaultPlan>(), std::make_shared<io::FaultPlan>(), std::make_shared<io::FaultPlan>()};
};

TEST_F(DevicesTest, units_are_spread_in_proportion_to_the_sizes) {
    const auto store = open({48, 24, 24});
    const auto replica = store->replica(file(1)).value();
    ASSERT_TRUE(fill(replica));
    EXPECT_THAT(units_on(*store), testing::ElementsAre(6, 3, 3));
    EXPECT_EQ(replica->stored_bytes(), kSize);
    EXPECT_EQ(whole_units(*replica), kUnits);
    std::vector<std::byte> all(kSize);
    EXPECT_EQ(replica->read(0, all), kSize) << "a read crosses devices";
    EXPECT_EQ(all, content_);
    EXPECT_EQ(store->stored_bytes(), kSize + kMapBytes);
    EXPECT_EQ(replica->map_bytes().status().code(), Code::kUnsupported);
}

TEST_F(DevicesTest, memory_at_the_front_is_filled_first) {
    const auto store = open({4, 100, 100}, 1);   // one is held back for maps
    const auto replica = store->replica(file(1)).value();
    ASSERT_TRUE(fill(replica));
    EXPECT_EQ(units_on(*store)[0], 3u);
    EXPECT_GE(units_on(*store)[1], 4u);
    EXPECT_GE(units_on(*store)[2], 4u);
    EXPECT_EQ(whole_units(*replica), kUnits);
}

TEST_F(DevicesTest, units_leave_room_for_maps_on_the_first_device) {
    const auto store = open({20, 1000}, 1);
    std::vector<std::shared_ptr<Replica>> all;
    for (std::uint64_t inode = 1; inode <= 10; ++inode) {
        const auto replica = store->replica(file(inode));
        ASSERT_TRUE(replica) << inode;
        ASSERT_TRUE(fill(replica.value())) << inode;
        all.push_back(replica.value());
    }
}

TEST_F(DevicesTest, a_full_device_takes_nothing_more_and_the_others_go_on) {
    const auto store = open({100, 100, 100});
    const auto replica = store->replica(file(1)).value();
    faults_[1]->fail(io::Operation::kWrite, 2, 1'000'000, ENOSPC);
    ASSERT_TRUE(fill(replica));
    EXPECT_EQ(units_on(*store)[1], 1u);
    EXPECT_EQ(whole_units(*replica), kUnits);
    EXPECT_FALSE(replica->take_fault()) << "a full device is no failed one";
    EXPECT_EQ(store->stored_bytes(), kSize + kMapBytes);
}

TEST_F(DevicesTest, a_full_account_leaves_the_rest_to_the_others_and_then_the_cache_is_full) {
    const auto store = open({2, 3, 4});
    const auto replica = store->replica(file(1)).value();
    EXPECT_EQ(fill(replica).code(), Code::kNoSpace);
    EXPECT_EQ(units_on(*store)[1], 3u);
    EXPECT_EQ(units_on(*store)[2], 4u);
    EXPECT_EQ(whole_units(*replica), 9u);
    EXPECT_FALSE(replica->unusable());
}

TEST_F(DevicesTest, a_unit_that_has_begun_on_a_full_device_moves) {
    const auto store = open({100, 100});
    const auto replica = store->replica(file(1)).value();
    for (std::uint64_t unit = 0; unit < kUnits; ++unit) ASSERT_TRUE(fill(replica, unit, unit + 1, kBlockBytes));
    ASSERT_GT(store->list()[0].device_bytes[1], 0u);
    faults_[1]->fail(io::Operation::kWrite, 1, 1'000'000, ENOSPC);
    ASSERT_TRUE(fill(replica));
    EXPECT_EQ(store->list()[0].device_bytes[1], 0u);
    EXPECT_EQ(whole_units(*replica), kUnits);
    EXPECT_EQ(store->stored_bytes(), kSize + kMapBytes);
}

TEST_F(DevicesTest, a_unit_stays_on_its_full_device_if_no_other_has_room) {
    const auto store = open({2, 2});
    const auto replica = store->replica(file(1)).value();
    for (std::uint64_t unit = 0; unit < 4; ++unit) (void)fill(replica, unit, unit + 1);
    const std::uint64_t stored = replica->stored_bytes();
    std::uint64_t begun = kUnits;   // a unit of a few blocks, in what is left
    for (std::uint64_t unit = 0; unit < kUnits && begun == kUnits; ++unit)
        if (replica->present_blocks(unit) == 0 && fill(replica, unit, unit + 1, kBlockBytes)) begun = unit;
    ASSERT_LT(begun, kUnits);
    EXPECT_EQ(fill(replica, begun, begun + 1).code(), Code::kNoSpace);
    EXPECT_EQ(replica->stored_bytes(), stored + kBlockBytes) << "what was there is not given up for nothing";
}

TEST_F(DevicesTest, a_device_that_fails_takes_only_its_own_units_along) {
    const auto store = open({100, 100, 100});
    const auto replica = store->replica(file(1)).value();
    ASSERT_TRUE(fill(replica));
    const std::uint64_t lost = units_on(*store)[1];
    ASSERT_GT(lost, 0u);
    faults_[1]->fail_any(1, 1'000'000, EIO);
    EXPECT_EQ(whole_units(*replica), kUnits - lost);
    EXPECT_FALSE(replica->unusable());
    EXPECT_TRUE(replica->take_fault());
    EXPECT_FALSE(replica->take_fault()) << "it is told once";
    EXPECT_EQ(whole_units(*replica), kUnits - lost);
    ASSERT_TRUE(fill(replica)) << "they are stored on the other devices";
    EXPECT_EQ(units_on(*store)[1], 0u);
    EXPECT_EQ(whole_units(*replica), kUnits);
    EXPECT_EQ(store->stored_bytes(), kSize + kMapBytes);
}

TEST_F(DevicesTest, the_first_devices_bytes_may_fail_too_and_once_all_have_failed_nothing_is_left) {
    const auto store = open({100, 100});
    const auto replica = store->replica(file(1)).value();
    faults_[1]->fail(io::Operation::kWrite, 1, 1'000'000, EIO);
    ASSERT_TRUE(fill(replica));
    EXPECT_THAT(units_on(*store), testing::ElementsAre(kUnits, 0, 0));
    EXPECT_TRUE(replica->take_fault());
    ASSERT_TRUE(entered(*entered(*roots_[0], "cache"), "7-1")
                    ->open_file("replica", io::OpenMode::kReadWrite)
                    .value()
                    ->resize(0));
    EXPECT_EQ(whole_units(*replica), 0u);
    EXPECT_TRUE(replica->unusable());
}

TEST_F(DevicesTest, what_is_removed_leaves_nothing_on_any_device) {
    const auto store = open({100, 100, 100});
    ASSERT_TRUE(fill(store->replica(file(1)).value()));
    ASSERT_TRUE(fill(store->replica(file(2), {.permanent = false}).value()));
    EXPECT_THAT(files_on(1), testing::SizeIs(1)) << "the temporal one has gone";
    EXPECT_TRUE(store->evict_one("7-1").value().removed);
    EXPECT_THAT(files_on(1), testing::IsEmpty());
    EXPECT_THAT(files_on(2), testing::IsEmpty());
    EXPECT_EQ(store->stored_bytes(), 0u);
}

TEST_F(DevicesTest, another_version_of_the_file_takes_no_parts_over) {
    const auto store = open({100, 100, 100});
    const auto old = store->replica(file(1)).value();
    ASSERT_TRUE(fill(old));
    Version changed = file(1);
    changed.modified_ns += 1;
    const auto replica = store->replica(changed).value();
    EXPECT_THAT(files_on(1), testing::SizeIs(1));
    EXPECT_EQ(store->stored_bytes(), kMapBytes);
    EXPECT_EQ(whole_units(*old), 0u);
    EXPECT_EQ(whole_units(*replica), 0u);
    ASSERT_TRUE(fill(replica));
    EXPECT_EQ(whole_units(*replica), kUnits);
    EXPECT_GT(units_on(*store)[1], 0u);
}

TEST_F(DevicesTest, whoever_counts_anew_removes_the_parts_of_replicas_that_are_gone) {
    {
        const auto store = open({100, 100, 100});
        ASSERT_TRUE(fill(store->replica(file(1)).value()));
        ASSERT_TRUE(fill(store->replica(file(2)).value()));
    }
    const auto cache = entered(*roots_[0], "cache");
    const auto folder = entered(*cache, "7-1");
    const std::vector<std::string> names = folder->list().value();
    for (const std::string& name : names) ASSERT_TRUE(folder->remove_file(name));
    ASSERT_TRUE(cache->remove_directory("7-1"));
    ASSERT_TRUE(entered(*roots_[1], "parts")->open_file("7-2-ffffffff", io::OpenMode::kCreateNew));
    ASSERT_TRUE(entered(*roots_[1], "parts")->open_file("somebody-elses", io::OpenMode::kCreateNew));
    const auto store = open({100, 100, 100});
    EXPECT_THAT(files_on(1), testing::UnorderedElementsAre(testing::StartsWith("7-2-"), "somebody-elses"));
    EXPECT_THAT(files_on(2), testing::ElementsAre(testing::StartsWith("7-2-")));
    EXPECT_EQ(store->stored_bytes(), kSize + kMapBytes) << "each account is right";
    EXPECT_EQ(whole_units(*store->replica(file(2)).value()), kUnits);
}

TEST_F(DevicesTest, a_program_with_another_list_reads_the_same_replica) {
    ASSERT_TRUE(fill(open({100, 100, 100})->replica(file(1)).value()));
    {
        const auto alone = open({100});
        const auto replica = alone->replica(file(1)).value();
        EXPECT_EQ(whole_units(*replica), kUnits);
        EXPECT_GT(units_on(*alone)[2], 0u);
        const auto other = alone->replica(file(2)).value();
        ASSERT_TRUE(fill(other));
        EXPECT_EQ(alone->list()[1].device_bytes[0], kSize) << "what is not in the list is not filled";
    }
    EXPECT_THAT(read_devices(*entered(*roots_[0], "cache")), testing::ElementsAre(path(1), path(2)));
    EXPECT_TRUE(open({100})->evict_one("7-1").value().removed);
    EXPECT_THAT(files_on(2), testing::SizeIs(1)) << "all parts went, of the one that was removed";
}

TEST_F(DevicesTest, a_device_that_is_gone_takes_its_units_along_and_may_come_back) {
    ASSERT_TRUE(fill(open({100, 100, 100})->replica(file(1)).value()));
    there_[1] = false;
    {
        const auto store = open({100});
        const std::uint64_t lost = units_on(*store)[1];
        const auto replica = store->replica(file(1)).value();
        EXPECT_EQ(whole_units(*replica), kUnits - lost);
        ASSERT_TRUE(fill(replica));
        EXPECT_EQ(whole_units(*replica), kUnits);
    }
    there_[1] = true;
    const auto store = open({100, 100, 100});
    EXPECT_EQ(whole_units(*store->replica(file(1)).value()), kUnits);
    EXPECT_EQ(store->stored_bytes(), kSize + kMapBytes);
}

TEST_F(DevicesTest, a_part_that_is_lost_while_nobody_reads_is_made_anew) {
    ASSERT_TRUE(fill(open({100, 100, 100})->replica(file(1)).value()));
    roots_[1] = io::make_memory_directory("/device1");   // as memory after a restart
    const auto store = open({100, 100, 100});
    const std::uint64_t lost = units_on(*store)[1];
    const auto replica = store->replica(file(1)).value();
    EXPECT_EQ(whole_units(*replica), kUnits - lost);
    EXPECT_EQ(units_on(*store)[1], 0u);
    ASSERT_TRUE(fill(replica));
    EXPECT_EQ(units_on(*store)[1], lost) << "the device is used again";
    EXPECT_EQ(whole_units(*replica), kUnits);
}

TEST_F(DevicesTest, a_part_that_is_lost_while_somebody_reads_is_not_made_anew) {
    const auto store = open({100, 100});
    const auto first = store->replica(file(1)).value();
    ASSERT_TRUE(fill(first));
    for (const std::string& name : files_on(1)) ASSERT_TRUE(entered(*roots_[1], "parts")->remove_file(name));
    const auto second = store->replica(file(1)).value();
    EXPECT_THAT(files_on(1), testing::IsEmpty());
    EXPECT_EQ(whole_units(*second), kUnits - units_on(*store)[1]);
    ASSERT_TRUE(fill(second)) << "units of others stay theirs";
    EXPECT_EQ(whole_units(*second), kUnits - units_on(*store)[1]);
}

TEST_F(DevicesTest, a_replica_of_one_device_gets_more_once_nobody_has_it_open) {
    const auto alone = open({100});
    auto replica = alone->replica(file(1)).value();
    ASSERT_TRUE(fill(replica, 0, 4));
    {
        const auto store = open({4, 100});
        const auto other = store->replica(file(1)).value();
        EXPECT_EQ(fill(other).code(), Code::kNoSpace) << "the map knows of one device";
        EXPECT_EQ(units_on(*store)[1], 0u);
    }
    replica.reset();
    const auto store = open({4, 100});
    const auto other = store->replica(file(1)).value();
    ASSERT_TRUE(fill(other));
    EXPECT_GT(units_on(*store)[1], 0u);
    EXPECT_EQ(whole_units(*other), kUnits);
}

TEST_F(DevicesTest, no_number_of_a_device_is_given_twice) {
    const auto cache = entered(*roots_[0], "cache");
    EXPECT_THAT(note_devices(*cache, {"/b", "/c"}).value(), testing::ElementsAre(1, 2));
    const auto text = cache->open_file("devices", io::OpenMode::kReadWrite).value();
    ASSERT_TRUE(text->write_at(text->size().value(), bytes_of(2, 1)));   // a line that was not finished
    EXPECT_THAT(note_devices(*cache, {"/d", "/b"}).value(), testing::ElementsAre(3, 1));
    EXPECT_THAT(read_devices(*cache), testing::ElementsAre("/b", "/c", "/d"));
    std::vector<std::string> many;
    for (std::uint32_t i = 0; i < kDevicesMax; ++i) many.push_back("/many" + std::to_string(i));
    EXPECT_EQ(note_devices(*cache, many).status().code(), Code::kNoSpace);
}

// A device that fails is counted, and the bytes are the file's.
TEST_F(DevicesTest, a_file_with_a_failed_device_reads_its_units_itself_and_counts_a_fault) {
    task::Engine tasks({.threads_max = 1});
    const auto source = std::make_shared<test::MemorySource>(content_);
    const auto store = open({100, 100, 100});
    const Version version = version_of({7, 1}, source->state(io::File::Ask::kTimes).value());
    const auto replica = store->replica(version).value();
    CachedFile read(source, replica, tasks,
                    {.young_ns = 1, .now_ns = long_after, .steady_ns = no_time, .judge_speed = false});
    const auto epoch = [&] {
        for (std::uint64_t unit = 0; unit < kUnits; ++unit) {
            std::vector<std::byte> into(kUnitBytes);
            ASSERT_EQ(read.read_at(unit * kUnitBytes, into).value(), kUnitBytes);
            ASSERT_TRUE(std::ranges::equal(into, io::Bytes(content_).subspan(unit * kUnitBytes, kUnitBytes)));
        }
        read.await_stored();
    };
    epoch();
    const std::uint64_t lost = units_on(*store)[1];
    ASSERT_GT(lost, 0u);
    const std::uint64_t hits = read.counters().hit_bytes;
    faults_[1]->fail_any(1, 1'000'000, EIO);
    epoch();
    EXPECT_EQ(read.counters().aside, Aside::kFault);
    EXPECT_EQ(read.counters().hit_bytes - hits, kSize - lost * kUnitBytes);
    epoch();
    EXPECT_EQ(read.counters().hit_bytes - hits, 2 * kSize - lost * kUnitBytes) << "all of them are stored again";
}

// Whatever fails on a further device: the bytes are right, and so are the accounts afterwards.
TEST_F(DevicesTest, the_nth_call_on_a_further_device_fails) {
    for (std::uint64_t nth = 1;; ++nth) {
        roots_[0] = io::make_memory_directory("/device0");
        roots_[1] = io::make_memory_directory("/device1");
        faults_[1]->clear();
        const std::uint64_t before = faults_[1]->fired();
        faults_[1]->fail_any(nth, 1, nth % 2 == 0 ? EIO : ENOSPC);
        {
            const auto store = open({100, 100});
            const auto replica = store->replica(file(1), {.permanent = nth % 3 != 0});
            ASSERT_TRUE(replica) << nth;
            ASSERT_TRUE(fill(replica.value())) << nth;
            (void)whole_units(*replica.value());
            for (std::uint64_t unit = 0; unit < 3; ++unit)
                if (const auto claim = Replica::claim(replica.value(), unit)) (void)replica.value()->evict(*claim);
            ASSERT_FALSE(replica.value()->unusable()) << nth;
        }
        const bool fired = faults_[1]->fired() > before;
        faults_[1]->clear();
        const auto store = open({100, 100});
        std::uint64_t bytes = 0;
        for (const ReplicaView& view : store->list()) bytes += view.bytes();
        ASSERT_EQ(store->stored_bytes(), bytes) << nth;
        ASSERT_TRUE(fill(store->replica(file(1)).value())) << nth;
        ASSERT_EQ(whole_units(*store->replica(file(1)).value()), kUnits) << nth;
        (void)store->evict(kMuch, true);
        ASSERT_EQ(store->stored_bytes(), 0u) << nth;
        if (!fired) break;
    }
}

}   // namespace
}   // namespace forebay::cache
