#include "area/told.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

namespace forebay::area {
namespace {

namespace fs = std::filesystem;

class ToldTest : public ::testing::Test {
  protected:
    ToldTest() {
        EXPECT_NE(::mkdtemp(folder_), nullptr);
        options_.registry = folder_;
        job_ = identify_this_process().value();
    }
    ~ToldTest() override { fs::remove_all(folder_); }

    [[nodiscard]] std::string told() const {
        return std::string(folder_) + "/forebay-told-" + std::to_string(::geteuid());
    }
    [[nodiscard]] long files() const { return std::distance(fs::directory_iterator(told()), fs::directory_iterator()); }

    Options options_;
    ProcessIdentity job_;
    char folder_[64] = "/tmp/forebay_told_XXXXXX";
};

TEST_F(ToldTest, a_user_is_told_each_message_once) {
    EXPECT_TRUE(is_first_to_tell(options_, "one", std::nullopt));
    EXPECT_FALSE(is_first_to_tell(options_, "one", std::nullopt));
    EXPECT_TRUE(is_first_to_tell(options_, "another", std::nullopt));
}

TEST_F(ToldTest, one_of_many_processes_of_a_job_tells) {
    constexpr int kProcesses = 16;
    for (int i = 0; i < kProcesses; ++i)
        if (::fork() == 0) ::_exit(is_first_to_tell(options_, "one", job_) ? 1 : 0);
    int telling = 0;
    for (int i = 0; i < kProcesses; ++i) {
        int status = 0;
        ASSERT_GT(::wait(&status), 0);
        telling += WEXITSTATUS(status);
    }
    EXPECT_EQ(telling, 1);
}

TEST_F(ToldTest, another_job_tells_again_and_files_of_jobs_that_have_ended_go) {
    ProcessIdentity ended = job_;
    ++ended.start_ticks;   // the number is in use again, by a process that began later
    EXPECT_TRUE(is_first_to_tell(options_, "one", ended));
    EXPECT_TRUE(is_first_to_tell(options_, "one", job_));
    EXPECT_TRUE(is_first_to_tell(options_, "one", std::nullopt));
    EXPECT_EQ(files(), 2);
    EXPECT_FALSE(is_first_to_tell(options_, "one", job_));
}

TEST_F(ToldTest, where_nothing_can_be_kept_each_process_tells) {
    options_.registry = std::string(folder_) + "/nowhere";
    EXPECT_TRUE(is_first_to_tell(options_, "one", job_));
    EXPECT_TRUE(is_first_to_tell(options_, "one", job_));
}

TEST_F(ToldTest, a_folder_that_others_may_write_into_is_not_used) {
    fs::create_directory(told());
    ASSERT_EQ(::chmod(told().c_str(), 0777), 0);
    EXPECT_TRUE(is_first_to_tell(options_, "one", std::nullopt));
    EXPECT_TRUE(is_first_to_tell(options_, "one", std::nullopt));
    EXPECT_EQ(files(), 0);
}

}   // namespace
}   // namespace forebay::area
