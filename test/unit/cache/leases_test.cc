#include "cache/leases.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "extent/range.h"

namespace forebay::cache {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

Lease lease_of(std::uint64_t inode, std::uint64_t compared_ns = 0) {
    return {.version = {{7, inode}, 1, 2, 1000, 3, 4}, .traits = {}, .compared_ns = compared_ns};
}

TEST(Leases, a_lease_is_valid_until_it_is_as_old_as_the_option_says) {
    Leases leases(10 * kSecond);
    ASSERT_TRUE(leases.enabled());
    leases.keep("/served/a.h5", lease_of(1, 5 * kSecond));
    const auto found = leases.find("/served/a.h5", 15 * kSecond - 1);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->version, lease_of(1).version);
    EXPECT_FALSE(leases.find("/served/a.h5", 15 * kSecond));
    EXPECT_EQ(leases.bytes(), 0u) << "it has gone";
    leases.keep("/served/a.h5", lease_of(1, 15 * kSecond));
    EXPECT_TRUE(leases.find("/served/a.h5", 24 * kSecond));
}

TEST(Leases, one_that_never_ends_and_none_at_all) {
    Leases never(kOffsetMax), none(0);
    never.keep("/served/a.h5", lease_of(1));
    none.keep("/served/a.h5", lease_of(1));
    EXPECT_TRUE(never.find("/served/a.h5", kOffsetMax));
    EXPECT_FALSE(none.enabled());
    EXPECT_FALSE(none.find("/served/a.h5", 0));
}

TEST(Leases, a_lease_is_of_the_exact_path) {
    Leases leases(kOffsetMax);
    leases.keep("/served/a.h5", lease_of(1));
    for (const char* other : {"/served//a.h5", "/served/./a.h5", "/served/a.h", "a.h5", ""})
        EXPECT_FALSE(leases.find(other, 0)) << other;
    leases.keep("/served/a.h5", lease_of(2));
    EXPECT_EQ(leases.find("/served/a.h5", 0)->version.identity.inode, 2u) << "the newer one";
    leases.drop(io::Identity{7, 1});
    EXPECT_TRUE(leases.find("/served/a.h5", 0)) << "it leads to another file now";
}

TEST(Leases, a_path_and_all_names_of_a_file_can_be_dropped) {
    Leases leases(kOffsetMax);
    leases.keep("/served/a.h5", lease_of(1));
    leases.keep("/served/b.h5", lease_of(1));
    leases.keep("/served/c.h5", lease_of(2));
    leases.drop(std::string("/served/c.h5"));
    EXPECT_FALSE(leases.find("/served/c.h5", 0));
    EXPECT_TRUE(leases.find("/served/a.h5", 0));
    leases.drop(io::Identity{7, 1});
    EXPECT_FALSE(leases.find("/served/a.h5", 0));
    EXPECT_FALSE(leases.find("/served/b.h5", 0));
    EXPECT_EQ(leases.bytes(), 0u);
    leases.drop(std::string("/served/none.h5"));
}

TEST(Leases, another_version_ends_those_of_all_names_of_the_number) {
    Leases leases(kOffsetMax);
    for (const char* name : {"/served/a.h5", "/served/b.h5", "/served/a.h5"}) leases.keep(name, lease_of(1));
    EXPECT_TRUE(leases.find("/served/a.h5", 0));
    EXPECT_TRUE(leases.find("/served/b.h5", 0));
    Lease other_device = lease_of(1), changed = lease_of(1);
    other_device.version.identity.device += 1;
    leases.keep("/elsewhere/a.h5", other_device);
    changed.version.changed_ns += 1;
    leases.keep("/served/c.h5", changed);
    EXPECT_FALSE(leases.find("/served/a.h5", 0));
    EXPECT_FALSE(leases.find("/served/b.h5", 0));
    EXPECT_TRUE(leases.find("/served/c.h5", 0));
    EXPECT_TRUE(leases.find("/elsewhere/a.h5", 0));
}

TEST(Leases, the_table_is_bounded_and_the_least_recently_used_go_first) {
    constexpr std::uint64_t kBytes = 64 << 10;
    Leases leases(kOffsetMax, kBytes);
    leases.keep("/served/used.h5", lease_of(1));
    for (std::uint64_t i = 2; i < 2000; ++i) {
        leases.keep(fmt::format("/served/{}.h5", i), lease_of(i));
        ASSERT_TRUE(leases.find("/served/used.h5", 0)) << i;
        ASSERT_LE(leases.bytes(), kBytes);
    }
    EXPECT_TRUE(leases.find("/served/1999.h5", 0));
    EXPECT_FALSE(leases.find("/served/2.h5", 0));
    EXPECT_GT(leases.bytes(), kBytes / 2);
}

TEST(Leases, a_forked_child_has_none_and_waits_for_no_thread_of_its_parent) {
    Leases leases(kOffsetMax);
    leases.keep("/served/a.h5", lease_of(1));
    std::atomic<bool> ends{false};
    std::jthread busy([&] {
        for (std::uint64_t i = 0; !ends.load(); ++i) leases.keep(fmt::format("/served/{}", i % 64), lease_of(i));
    });
    for (int forks = 0; forks < 30; ++forks) {
        const pid_t child = ::fork();
        if (child == 0) {
            leases.keep("/served/b.h5", lease_of(2));
            leases.drop(io::Identity{7, 1});
            ::_exit(leases.find("/served/a.h5", 0) ? 1 : 0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    ends.store(true);
    EXPECT_TRUE(leases.find("/served/a.h5", 0));
}

TEST(Leases, what_one_group_could_open_is_asked_for_anew_by_another) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root changes its group";
    Leases leases(kOffsetMax);
    leases.keep("/served/a.h5", lease_of(1));
    const gid_t own = ::getegid();
    ASSERT_EQ(::setegid(own + 1), 0);
    EXPECT_FALSE(leases.find("/served/a.h5", 0));
    ASSERT_EQ(::setegid(own), 0);
    EXPECT_FALSE(leases.find("/served/a.h5", 0));
}

}   // namespace
}   // namespace forebay::cache
