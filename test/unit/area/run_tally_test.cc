#include "area/run_tally.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "area/run_record.h"

namespace forebay::area {
namespace {

namespace fs = std::filesystem;

class RunTallyTest : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "tally-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override { fs::remove_all(folder_); }

    std::string folder_;
};

TEST_F(RunTallyTest, counters_of_a_process_that_was_killed_can_be_read_and_have_those_of_its_children) {
    const pid_t child = ::fork();
    if (child == 0) {
        TallyWriter writer;
        if (!writer.open(folder_)) ::_exit(1);
        writer.tally().files_opened.fetch_add(1);
        writer.tally().reads.missed_bytes.fetch_add(100);
        writer.tally().aside[3].fetch_add(2);
        const pid_t grandchild = ::fork();
        if (grandchild == 0) {
            writer.tally().reads.missed_bytes.fetch_add(1000);
            ::_exit(0);
        }
        ::waitpid(grandchild, nullptr, 0);
        ::raise(SIGKILL);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    ASSERT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
    const auto view = read_tally(fs::directory_iterator(folder_)->path().string());
    ASSERT_TRUE(view) << view.status().message();
    EXPECT_EQ(view.value().pid, static_cast<std::uint64_t>(child));
    EXPECT_EQ(view.value().files_opened, 1u);
    EXPECT_EQ(view.value().missed_bytes, 1100u);
    EXPECT_EQ(view.value().aside[3], 2u);
}

TEST_F(RunTallyTest, two_engines_of_a_process_have_a_file_each) {
    TallyWriter one, other;
    const auto first = one.open(folder_), second = other.open(folder_);
    ASSERT_TRUE(first && second);
    EXPECT_NE(first.value(), second.value());
}

TEST_F(RunTallyTest, without_its_folder_it_counts_in_memory) {
    TallyWriter writer;
    EXPECT_FALSE(writer.open(folder_ + "/none"));
    writer.tally().files_opened.fetch_add(1);
    EXPECT_EQ(writer.tally().files_opened.load(), 1u);
}

TEST_F(RunTallyTest, a_file_that_holds_something_else_is_refused) {
    std::ofstream(folder_ + "/short") << "no counters";
    EXPECT_EQ(read_tally(folder_ + "/short").status().code(), Code::kCorrupt);
    EXPECT_FALSE(read_tally(folder_ + "/none"));
}

TEST_F(RunTallyTest, the_record_of_a_run_names_the_counters_and_one_that_lies_elsewhere_has_none) {
    const std::string record = folder_ + "/record", other = folder_ + "/other";
    std::ofstream(record).close();
    std::ofstream(other).close();
    TallyWriter writer;
    RunRecord((other + ":" + record).c_str()).tell_began(7, writer);
    std::string line;
    {
        std::ifstream lines(other);
        std::getline(lines, line);
    }
    EXPECT_NE(line.find("\"tally\":\"" + folder_ + "/"), std::string::npos) << line;
    TallyWriter without;
    RunRecord(other.c_str()).tell_began(8, without);
    std::ifstream lines(other);
    std::getline(lines, line);
    std::getline(lines, line);
    EXPECT_NE(line.find(R"("tally":"")"), std::string::npos) << line;
}

}   // namespace
}   // namespace forebay::area
