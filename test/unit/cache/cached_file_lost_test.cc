// A device loses bytes of a replica after it has taken them: no read returns others, and they are stored again.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "io/file_system.h"
#include "io/posix_file.h"
#include "support/losing_mount.h"
#include "support/seeds.h"
#include "unit/cache/cached_file_steps.h"

namespace forebay::cache {
namespace {

class LostBytesTest : public CachedFileTest {
  protected:
    std::shared_ptr<Replica> filled() {
        auto made = replica();
        for (std::uint64_t unit = 0; unit < made->units(); ++unit) EXPECT_TRUE(fill(made, unit));
        return made;
    }
    Status fill(const std::shared_ptr<Replica>& replica, std::uint64_t unit) const {
        const auto claim = Replica::claim(replica, unit);
        if (!claim) return {Code::kUnavailable, "the unit is claimed"};
        return replica->store(*claim, unit * kUnitBytes, expected(unit * kUnitBytes, kUnitBytes));
    }
    // Blocks of the device read as zeros, as those of a page that was not written back.
    void lose(std::uint64_t first, std::uint64_t blocks = 1) {
        const auto bytes = folder()->open_file("replica", io::OpenMode::kReadWrite).value();
        const std::uint64_t size = std::min(blocks * kBlockBytes, kSize - first * kBlockBytes);
        ASSERT_TRUE(bytes->write_at(first * kBlockBytes, std::vector<std::byte>(size)));
    }
    std::size_t read_some(Replica& replica, std::uint64_t offset, std::size_t size) {
        std::vector<std::byte> into(size);
        const std::size_t got = replica.read(offset, into);
        into.resize(got);
        EXPECT_TRUE(same(into, expected(offset, got))) << offset << " " << size;
        return got;
    }
};

TEST_F(LostBytesTest, a_read_ends_before_the_lost_block_which_goes) {
    const auto replica = filled();
    const std::uint64_t stored = replica->stored_bytes(), left = purse_->left();
    lose(kUnitBlocks + 5, 2);
    EXPECT_EQ(read_some(*replica, 0, 3 * kUnitBytes), kUnitBytes + 5 * kBlockBytes);
    EXPECT_TRUE(replica->take_fault());
    EXPECT_FALSE(replica->unusable());
    EXPECT_EQ(replica->present_blocks(1), ~(std::uint64_t{3} << 5)) << "the unit's other blocks stay";
    EXPECT_EQ(replica->stored_bytes(), stored - 2 * kBlockBytes);
    EXPECT_EQ(purse_->left(), left + 2 * kBlockBytes);
    EXPECT_EQ(read_some(*replica, kUnitBytes + 7 * kBlockBytes, kUnitBytes), kUnitBytes);
    EXPECT_FALSE(replica->take_fault());

    ASSERT_TRUE(fill(replica, 1));
    EXPECT_EQ(read_some(*replica, 0, kSize), kSize);
    EXPECT_EQ(replica->stored_bytes(), stored);
}

TEST_F(LostBytesTest, a_part_of_a_lost_block_is_no_hit_either) {
    const auto replica = filled();
    const std::uint64_t last = kSize / kBlockBytes;
    for (const auto& [block, offset, size] : {std::tuple{10, 10 * kBlockBytes + 100, std::size_t{50}},
                                              {20, 19 * kBlockBytes + 4000, 200},
                                              {30, 28 * kBlockBytes + 1, 2 * kBlockBytes + 1},
                                              {70, 50 * kBlockBytes + 1, 20 * kBlockBytes},
                                              {static_cast<int>(last), kSize - 10, 10}}) {
        lose(static_cast<std::uint64_t>(block));
        const std::uint64_t lost_at = static_cast<std::uint64_t>(block) * kBlockBytes;
        EXPECT_EQ(read_some(*replica, offset, size), std::max(lost_at, offset) - offset) << block;
        EXPECT_TRUE(replica->take_fault()) << block;
    }
}

TEST_F(LostBytesTest, random_reads_beside_lost_blocks_return_stored_bytes_only) {
    for (const std::uint64_t seed : test::seeds("lost bytes", 3)) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const auto file = open(filled());
        for (int i = 0; i < 500; ++i) {
            if (i % 10 == 0) lose(random() % (kSize / kBlockBytes), 1 + random() % 5);
            const std::uint64_t at = random() % kSize;
            const std::size_t size = 1 + random() % (i % 5 == 0 ? 1'000'000 : 20'000);
            ASSERT_TRUE(same(read(*file, at, size), expected(at, size))) << at << " " << size;
            if (i % 50 == 0) file->await_stored();
        }
        EXPECT_GT(file->counters().hit_bytes, 10 * kSize);
        EXPECT_GT(file->counters().missed_bytes, 0u);
    }
}

TEST_F(LostBytesTest, the_program_gets_the_bytes_of_the_file_and_they_are_stored_again) {
    const auto file = open(filled());
    lose(kUnitBlocks, kUnitBlocks);
    EXPECT_TRUE(same(read(*file, 0, kSize), content_));
    EXPECT_EQ(file->counters().aside, Aside::kFault);
    EXPECT_EQ(file->counters().missed_bytes, kUnitBytes) << "other units are hits";
    file->await_stored();
    const std::uint64_t before = source_->bytes();
    EXPECT_TRUE(same(read(*file, 0, kSize), content_));
    EXPECT_EQ(source_->bytes(), before);
}

TEST_F(LostBytesTest, other_processes_learn_of_it_by_the_map_or_by_their_own_look) {
    const auto first = filled(), second = replica();
    lose(3);
    EXPECT_EQ(read_some(*first, 0, kUnitBytes), 3 * kBlockBytes);
    EXPECT_EQ(read_some(*second, 0, kUnitBytes), 3 * kBlockBytes);
    EXPECT_FALSE(second->take_fault()) << "the block was gone already";
    lose(2 * kUnitBlocks);
    const auto claim = Replica::claim(first, 2);   // the first one changes the unit
    EXPECT_EQ(read_some(*second, 2 * kUnitBytes, kUnitBytes), 0u);
    EXPECT_TRUE(second->take_fault());
    EXPECT_EQ(read_some(*second, 2 * kUnitBytes, kUnitBytes), 0u) << "it is there still, and no hit";
}

TEST_F(LostBytesTest, a_replica_of_a_dead_process_is_compared_too) {
    {
        (void)filled();
    }
    lose(7, 100);
    const auto file = open(replica());
    EXPECT_TRUE(same(read(*file, 0, kSize), content_));
    EXPECT_EQ(file->counters().missed_bytes, 100 * kBlockBytes);
}

TEST_F(LostBytesTest, a_device_that_loses_again_and_again_has_failed) {
    const auto replica = filled();
    int times = 0;
    for (; !replica->unusable() && times < 1000; ++times) {
        ASSERT_TRUE(fill(replica, 0));
        lose(0);
        EXPECT_EQ(read_some(*replica, 0, 100), 0u);
    }
    EXPECT_GT(times, 100) << "some losses do not end the use of the others' bytes";
    EXPECT_LT(times, 1000);
}

// Nothing in memory is lost that way, so a comparison there would cost and bring nothing.
TEST_F(LostBytesTest, bytes_in_memory_are_not_compared) {
    constexpr const char* kPlace = "/dev/shm";
    const auto kind = io::file_system_of(kPlace);
    if (!kind || !kind.value().memory) GTEST_SKIP() << kPlace << " is no file system in memory";
    std::string path = std::string(kPlace) + "/forebay-test-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    area_ = io::open_posix_directory(path).value();
    {
        const auto replica = filled();
        EXPECT_EQ(read_some(*replica, 0, kSize), kSize);
        lose(2);
        std::vector<std::byte> into(kUnitBytes);
        EXPECT_EQ(replica->read(0, into), kUnitBytes) << "the checksum of the third block was compared";
    }
    std::filesystem::remove_all(path);
}

// The kernel itself loses the bytes.
class LosingDeviceTest : public LostBytesTest, public testing::WithParamInterface<const char*> {};

TEST_P(LosingDeviceTest, bytes_that_are_not_written_back_are_no_hits) {
    const test::LosingMount device(GetParam());
    if (!device.why_not().empty()) GTEST_SKIP() << device.why_not();
    std::filesystem::create_directory(device.path() / "cache");
    const auto path = device.path() / "cache" / "1-2" / "replica";
    area_ = io::open_posix_directory((device.path() / "cache").string()).value();
    const auto file = open(replica());
    EXPECT_TRUE(same(read(*file, 0, kUnitBytes), expected(0, kUnitBytes)));
    file->await_stored();
    ASSERT_TRUE(device.begin_losing());
    EXPECT_TRUE(same(read(*file, 0, kSize), content_));
    file->await_stored();
    EXPECT_EQ(file->counters().aside, Aside::kNone) << "each write succeeded";
    EXPECT_EQ(file->counters().missed_bytes, kSize);
    EXPECT_TRUE(same(read(*file, 0, kSize), content_));
    EXPECT_EQ(file->counters().missed_bytes, kSize) << "the second pass is all hits, from memory";

    ASSERT_TRUE(device.forget(path));
    const auto lost =
        io::open_posix_directory(path.parent_path().string()).value()->open_file("replica", io::OpenMode::kRead);
    std::vector<std::byte> there(kSize);
    EXPECT_EQ(lost.value()->read_at(0, there).value(), kSize);
    ASSERT_FALSE(same(there, content_)) << "the device lost nothing, so the test shows nothing";

    EXPECT_TRUE(same(read(*file, 0, kSize), content_));
    EXPECT_GT(file->counters().missed_bytes, kSize);
    EXPECT_EQ(file->counters().aside, Aside::kFault);
}

INSTANTIATE_TEST_SUITE_P(Kinds, LosingDeviceTest, testing::Values("ext4", "xfs"),
                         [](const auto& kind) { return std::string(kind.param); });

}   // namespace
}   // namespace forebay::cache
