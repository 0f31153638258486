#include "file/launch.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

namespace forebay::file {
namespace {

constexpr const char* kForebay = "HDF5_VOL_CONNECTOR=forebay nls=/tmp";

// A made-up /proc: a launcher, process 100, and its children.
class LaunchTest : public testing::Test {
  protected:
    void SetUp() override {
        root_ = std::filesystem::temp_directory_path() / ("forebay-launch-" + std::to_string(::getpid()));
        std::filesystem::remove_all(root_);
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    void child(int pid, const std::vector<std::string>& environment, int thread = 100, int parent = 100) {
        std::string bytes;
        for (const std::string& one : environment) bytes += one + '\0';
        write(std::to_string(pid) + "/environ", bytes);
        write(std::to_string(pid) + "/stat",
              std::to_string(pid) + " (a) (name) S " + std::to_string(parent) + " 1 1 0");
        const std::string children = std::to_string(parent) + "/task/" + std::to_string(thread) + "/children";
        write(children, std::to_string(pid) + " ", std::ios::app);
    }
    void write(const std::string& name, const std::string& bytes, std::ios::openmode mode = std::ios::trunc) {
        const std::filesystem::path path = root_ / name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path, std::ios::binary | std::ios::out | mode) << bytes;
    }
    [[nodiscard]] std::optional<Unequal> seen_by(int pid, int own, const std::vector<int>& ranks) const {
        return Launch(pid, root_.string()).compare(ranks, own);
    }

    std::filesystem::path root_;
};

TEST_F(LaunchTest, a_rank_without_the_connector_is_named_to_all_the_others) {
    child(201, {"PMI_RANK=0", kForebay});
    child(202, {"HOME=/root", "PMI_RANK=1"});
    child(203, {kForebay, "PMI_RANK=2"});
    for (const auto& [pid, own] : {std::pair{201, 0}, {202, 1}, {203, 2}}) {
        const auto answer = seen_by(pid, own, {2, 0, 1});
        ASSERT_TRUE(answer.has_value());
        EXPECT_EQ(answer->without, 1);
        EXPECT_EQ(answer->with, 0);
        EXPECT_TRUE(answer->all_seen);
    }
}

TEST_F(LaunchTest, equal_ranks_are_no_answer) {
    child(201, {"PMI_RANK=0", kForebay});
    child(202, {"PMI_RANK=1", "HDF5_VOL_CONNECTOR= forebay"});
    EXPECT_FALSE(seen_by(201, 0, {0, 1}));
}

TEST_F(LaunchTest, ranks_that_all_choose_the_connector_by_themselves_are_not_judged) {
    child(201, {"PMI_RANK=0"});
    child(202, {"PMI_RANK=1"});
    EXPECT_FALSE(seen_by(201, 0, {0, 1}));
}

TEST_F(LaunchTest, another_connector_is_not_this_one) {
    child(201, {"PMI_RANK=0", kForebay});
    child(202, {"PMI_RANK=1", "HDF5_VOL_CONNECTOR=pass_through under_vol=482;under_info={forebay}"});
    EXPECT_TRUE(seen_by(201, 0, {0, 1}));
}

TEST_F(LaunchTest, only_the_ranks_of_the_file_count) {
    child(201, {"PMI_RANK=0", kForebay});
    child(202, {"PMI_RANK=1", kForebay});
    child(203, {"PMI_RANK=2"});
    EXPECT_FALSE(seen_by(201, 0, {0, 1}));
    EXPECT_TRUE(seen_by(201, 0, {0, 2}));
}

TEST_F(LaunchTest, ranks_elsewhere_are_told_of) {
    child(201, {"PMI_RANK=0", kForebay});
    child(202, {"PMI_RANK=1"});
    const auto answer = seen_by(201, 0, {0, 1, 2});
    ASSERT_TRUE(answer.has_value());
    EXPECT_FALSE(answer->all_seen);
}

TEST_F(LaunchTest, nothing_is_said_of_one_rank_that_alone_is_seen) {
    child(201, {"PMI_RANK=0", kForebay});
    EXPECT_FALSE(seen_by(201, 0, {0, 1}));
    EXPECT_FALSE(seen_by(201, 0, {0, -1}));
}

TEST_F(LaunchTest, a_file_of_one_rank_is_not_looked_at) {
    child(201, {"PMI_RANK=0", kForebay});
    EXPECT_FALSE(seen_by(201, 0, {0}));
}

TEST_F(LaunchTest, an_inherited_rank_is_not_taken_for_the_own) {
    child(201, {"PMI_RANK=0", "OMPI_COMM_WORLD_RANK=0", kForebay});
    child(202, {"PMI_RANK=0", "OMPI_COMM_WORLD_RANK=1"});
    for (const auto& [pid, own] : {std::pair{201, 0}, {202, 1}}) {
        const auto answer = seen_by(pid, own, {0, 1});
        ASSERT_TRUE(answer.has_value());
        EXPECT_EQ(answer->without, 1);
    }
}

TEST_F(LaunchTest, a_launcher_of_several_jobs_gives_no_answer) {
    child(201, {"PMIX_RANK=0", kForebay});
    child(202, {"PMIX_RANK=1", kForebay});
    child(301, {"PMIX_RANK=0"});
    child(302, {"PMIX_RANK=1"});
    EXPECT_FALSE(seen_by(201, 0, {0, 1}));
}

TEST_F(LaunchTest, children_of_every_thread_of_the_launcher_are_seen) {
    child(201, {"SLURM_PROCID=0", kForebay}, 100);
    child(202, {"SLURM_PROCID=1"}, 105);
    EXPECT_TRUE(seen_by(201, 0, {0, 1}));
}

TEST_F(LaunchTest, a_rank_below_a_shell_is_not_judged) {
    child(201, {"PMI_RANK=0", kForebay});
    child(202, {"PMI_RANK=1"});
    child(301, {"PMI_RANK=1", kForebay}, 202, 202);
    EXPECT_FALSE(seen_by(301, 1, {0, 1}));
}

TEST_F(LaunchTest, an_environment_that_cannot_be_read_is_not_judged) {
    child(201, {"PMI_RANK=0", kForebay});
    child(202, {"PMI_RANK=1"});
    std::filesystem::remove(root_ / "202/environ");
    EXPECT_FALSE(seen_by(201, 0, {0, 1}));
    std::filesystem::remove(root_ / "201/stat");
    EXPECT_FALSE(seen_by(201, 0, {0, 1}));
}

TEST_F(LaunchTest, ranks_of_one_node_have_one_launcher_also_below_shells) {
    write("100/stat", "100 (launcher) S 50 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4711 0");
    child(201, {"PMI_RANK=2", "PMI_SIZE=4", "MPI_LOCALRANKID=0"});
    child(202, {"PMI_RANK=3", "PMI_SIZE=4", "MPI_LOCALRANKID=1"});
    child(301, {"PMI_RANK=3", "PMI_SIZE=4", "MPI_LOCALRANKID=1"}, 202, 202);
    for (const int pid : {201, 202, 301}) {
        const auto rank = launched_rank(pid, root_.string());
        ASSERT_TRUE(rank);
        EXPECT_EQ(rank->launcher.pid, 100u);
        EXPECT_EQ(rank->launcher.start_ticks, 4711u);
        EXPECT_FALSE(rank->on_first_node);
    }
    child(203, {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1"});
    EXPECT_TRUE(launched_rank(203, root_.string())->on_first_node);
}

TEST_F(LaunchTest, a_program_that_is_alone_is_no_rank_of_a_job) {
    write("100/stat", "100 (shell) S 50 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 4711 0");
    child(201, {"HOME=/root"});
    child(202, {"PMI_RANK=0", "PMI_SIZE=1"});
    child(203, {"SLURM_PROCID=0", "SLURM_LOCALID=0"});   // in a batch script, without a step
    child(204, {"PMI_RANK=0", "PMI_SIZE=2"}, 1, 1);      // its launcher has gone
    for (const int pid : {201, 202, 203, 204, 999}) EXPECT_FALSE(launched_rank(pid, root_.string())) << pid;
}

TEST_F(LaunchTest, what_was_found_is_kept) {
    child(201, {"PMI_RANK=0", kForebay});
    child(202, {"PMI_RANK=1"});
    Launch launch(201, root_.string());
    const std::vector<int> ranks{0, 1};
    EXPECT_TRUE(launch.compare(ranks, 0));
    std::filesystem::remove_all(root_);
    EXPECT_TRUE(launch.compare(ranks, 0));
}

}   // namespace
}   // namespace forebay::file
