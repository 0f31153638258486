#include "io/file_system.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <sstream>

namespace forebay::io {
namespace {

constexpr std::uint64_t kFuse = 0x65735546;

TEST(FileSystem, versions_are_sure_where_servers_keep_times_and_numbers) {
    for (const std::uint64_t magic : {0x0BD00BD0U, 0x47504653U, 0x6969U, 0x19830326U, 0x00C36400U})
        EXPECT_TRUE(has_sure_versions(magic, "")) << std::hex << magic;
    for (const char* const type : {"fuse.juicefs", "fuse.ceph-fuse"})
        EXPECT_TRUE(has_sure_versions(kFuse, type)) << type;
}

TEST(FileSystem, versions_are_not_sure_on_any_other) {
    EXPECT_FALSE(has_sure_versions(kFuse, "fuse.squashfuse"));
    EXPECT_FALSE(has_sure_versions(kFuse, "fuse.glusterfs")) << "its shards are overwritten without new times";
    EXPECT_FALSE(has_sure_versions(kFuse, "fuse"));
    EXPECT_FALSE(has_sure_versions(kFuse, ""));
    EXPECT_FALSE(has_sure_versions(0x517B, "")) << "SMB: clients make numbers up";
    EXPECT_FALSE(has_sure_versions(0x73717368, "")) << "squashfs";
    EXPECT_FALSE(has_sure_versions(0x12345, "lustre")) << "an unknown number";
}

TEST(FileSystem, times_may_come_late_on_nfs_and_by_a_client_that_holds_writes_back) {
    EXPECT_EQ(times_kind(0x6969, ""), TimesKind::kLazy);
    for (const char* const type : {"fuse.glusterfs", "fuse.juicefs", "fuse.rclone"})
        EXPECT_EQ(times_kind(kFuse, type), TimesKind::kLazy) << type;
    EXPECT_EQ(times_kind(kFuse, "fuse.ceph-fuse"), TimesKind::kServed);
    EXPECT_EQ(times_kind(0x0BD00BD0, ""), TimesKind::kServed);
    EXPECT_EQ(times_kind(0xEF53, ""), TimesKind::kExact);
}

TEST(FileSystem, the_type_is_that_of_the_mount_with_the_device_number) {
    std::istringstream table(
        "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
        "garbage\n"
        "36 22 0:33 / /data\\040one rw shared:7 master:2 - fuse.glusterfs server:/vol rw,user_id=0\n"
        "37 22 0:34 / /cut rw -\n");
    EXPECT_EQ(mounted_type(table, 0, 33), "fuse.glusterfs");
    table.clear();
    table.seekg(0);
    EXPECT_EQ(mounted_type(table, 0, 34), "");
    table.clear();
    table.seekg(0);
    EXPECT_EQ(mounted_type(table, 0, 3), "");
    table.clear();
    table.seekg(0);
    EXPECT_EQ(mounted_type(table, 254, 0), "ext4");
}

TEST(FileSystem, a_file_in_proc_is_of_no_device_and_not_local) {
    const int descriptor = ::open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    const FileTraits traits = traits_of(descriptor, 4096);
    ::close(descriptor);
    EXPECT_FALSE(traits.local);
    EXPECT_FALSE(traits.sure_versions);
}

TEST(FileSystem, only_files_of_tmpfs_and_ramfs_are_in_memory) {
    const int disk = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    EXPECT_FALSE(traits_of(disk, 4096).in_memory);
    ::close(disk);
    EXPECT_FALSE(traits_of(-1, 4096).in_memory) << "unknown";
    const int memory = ::memfd_create("forebay-test", MFD_CLOEXEC);
    ASSERT_GE(memory, 0);
    EXPECT_TRUE(traits_of(memory, 4096).in_memory);
    ::close(memory);
}

TEST(FileSystem, what_a_mount_has_said_is_kept_by_its_number_and_nothing_without_one) {
    constexpr std::uint64_t kMount = ~std::uint64_t{0};
    const int descriptor = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ASSERT_GE(descriptor, 0);
    const FileTraits traits = traits_of(descriptor, 4096, kMount);
    ::close(descriptor);
    ASSERT_TRUE(traits.local);
    EXPECT_TRUE(traits_of(-1, 4096, kMount).local);
    EXPECT_EQ(traits_of(-1, 1 << 20, kMount).stripe_bytes, std::uint64_t{1} << 20) << "of each file by itself";
    EXPECT_FALSE(traits_of(-1, 4096).local);
}

}   // namespace
}   // namespace forebay::io
