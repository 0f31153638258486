// What the system lets a process have.
#include "io/process_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace forebay::io {
namespace {

namespace fs = std::filesystem;

class ProcessLimitsTest : public ::testing::Test {
  protected:
    ProcessLimitsTest() {
        path_ = (fs::temp_directory_path() / "forebay_limits_XXXXXX").string();
        EXPECT_NE(::mkdtemp(path_.data()), nullptr);
    }
    ~ProcessLimitsTest() override { fs::remove_all(path_); }

    void write(const std::string& name, const std::string& text) const {
        fs::create_directories(fs::path(path_ + "/" + name).parent_path());
        std::ofstream(path_ + "/" + name) << text << "\n";
    }
    std::optional<std::uint64_t> limit() const { return memory_limit_bytes(path_ + "/self", path_ + "/cgroup"); }

    std::string path_;
};

TEST_F(ProcessLimitsTest, the_least_of_a_group_and_all_above_it_counts) {
    write("self/cgroup", "0::/jobs/one/step");
    EXPECT_EQ(limit(), std::nullopt);
    write("cgroup/jobs/one/step/memory.max", "max");
    EXPECT_EQ(limit(), std::nullopt);
    write("cgroup/jobs/one/memory.max", "3000000");
    EXPECT_EQ(limit(), 3'000'000u);
    write("cgroup/jobs/one/step/memory.high", "2000000");
    EXPECT_EQ(limit(), 2'000'000u);
    write("cgroup/memory.max", "1000000");   // of a container, which sees its own group as the root
    EXPECT_EQ(limit(), 1'000'000u);
}

TEST_F(ProcessLimitsTest, groups_of_version_1_count_by_their_memory_controller) {
    write("self/cgroup", "5:cpu,cpuacct:/elsewhere\n4:memory:/job\n1:name=systemd:/\n0::/");
    write("cgroup/memory/elsewhere/memory.limit_in_bytes", "1");
    write("cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712");
    EXPECT_EQ(limit(), std::nullopt);
    write("cgroup/memory/job/memory.limit_in_bytes", "5000000");
    EXPECT_EQ(limit(), 5'000'000u);
    write("self/cgroup", "4:hugetlb,memory:/");
    EXPECT_EQ(limit(), std::nullopt);
    write("cgroup/memory/memory.limit_in_bytes", "4000000");
    EXPECT_EQ(limit(), 4'000'000u);
}

TEST_F(ProcessLimitsTest, what_cannot_be_read_is_no_limit) {
    EXPECT_EQ(limit(), std::nullopt);
    for (const char* line : {"", "nonsense", "0:", "0::relative", "4:memory:"}) {
        write("self/cgroup", line);
        EXPECT_EQ(limit(), std::nullopt) << line;
    }
    write("self/cgroup", "0::/job");
    for (const char* value : {"", "many", "12x", "-1", "99999999999999999999999"}) {
        write("cgroup/job/memory.max", value);
        EXPECT_EQ(limit(), std::nullopt) << value;
    }
}

TEST_F(ProcessLimitsTest, this_process_has_less_left_the_lower_its_limit_is) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_AS, &before), 0);
    if (before.rlim_cur != RLIM_INFINITY) GTEST_SKIP() << "there is a limit already";
    EXPECT_EQ(mappable_bytes_left(), std::nullopt);
    constexpr std::uint64_t kLimit = std::uint64_t{1} << 56;   // sanitizers map much
    const rlimit limited{kLimit, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_AS, &limited), 0);
    const auto left = mappable_bytes_left();
    ::setrlimit(RLIMIT_AS, &before);
    ASSERT_TRUE(left);
    EXPECT_LT(*left, kLimit);
    EXPECT_GT(*left, 0u);
}

}   // namespace
}   // namespace forebay::io
