#include "io/record_locks.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "io/posix_file.h"

namespace forebay::io {
namespace {

class RecordLocksTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string made = (std::filesystem::temp_directory_path() / "forebay_locks_XXXXXX").string();
        file_ = ::mkstemp(made.data());
        ASSERT_GE(file_, 0);
        path_ = made;
        seen_by_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
        ASSERT_GE(seen_by_, 0);
        identity_ = identify(file_, path_).value();
    }
    void TearDown() override {
        ::close(file_);
        ::close(seen_by_);
        std::filesystem::remove(path_);
    }

    [[nodiscard]] static bool lock(int file, short kind, int command = F_SETLK) {
        struct flock whole{};
        whole.l_type = kind;
        whole.l_whence = SEEK_SET;
        return ::fcntl(file, command, &whole) == 0;
    }
    // Returns the result of the check in a child process.
    [[nodiscard]] static bool elsewhere(const std::function<bool()>& check) {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(check() ? 0 : 1);
        int status = -1;
        return ::waitpid(child, &status, 0) == child && status == 0;
    }

    int file_ = -1, seen_by_ = -1;
    std::string path_;
    Identity identity_;
};

TEST_F(RecordLocksTest, a_lock_of_this_process_is_seen_until_it_ends) {
    EXPECT_FALSE(has_record_locks(identity_));
    ASSERT_TRUE(lock(file_, F_WRLCK));
    EXPECT_TRUE(has_record_locks(identity_));
    ASSERT_TRUE(lock(file_, F_UNLCK));
    EXPECT_FALSE(has_record_locks(identity_));
    ASSERT_TRUE(lock(file_, F_RDLCK));
    EXPECT_TRUE(has_record_locks(identity_));
}

TEST_F(RecordLocksTest, locks_that_a_close_of_another_descriptor_does_not_end_do_not_count) {
    ASSERT_EQ(::flock(file_, LOCK_EX), 0);
    EXPECT_FALSE(has_record_locks(identity_));
    ASSERT_EQ(::flock(file_, LOCK_UN), 0);
    ASSERT_TRUE(lock(file_, F_WRLCK, F_OFD_SETLK));
    EXPECT_FALSE(has_record_locks(identity_));
}

TEST_F(RecordLocksTest, the_locks_of_other_processes_do_not_count) {
    ASSERT_TRUE(lock(file_, F_WRLCK));
    EXPECT_TRUE(elsewhere([this] { return !has_record_locks(identity_); }));
}

TEST_F(RecordLocksTest, a_lock_on_another_file_does_not_count) {
    ASSERT_TRUE(lock(file_, F_WRLCK));
    Identity other = identity_;
    other.inode += 1;
    EXPECT_FALSE(has_record_locks(other));
}

TEST_F(RecordLocksTest, a_lock_taken_through_a_duplicate_counts) {
    const int copy = ::dup(file_);
    ASSERT_TRUE(lock(copy, F_WRLCK));
    EXPECT_TRUE(has_record_locks(identity_));
    ::close(copy);   // which ends it
    EXPECT_FALSE(has_record_locks(identity_));
}

TEST_F(RecordLocksTest, without_a_number_for_an_answer_there_may_be_locks) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit none = before;
    none.rlim_cur = 0;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    EXPECT_TRUE(has_record_locks(identity_));
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(RecordLocksTest, a_flush_leaves_the_programs_locks) {
    const auto target = adopt_posix_file(::open(path_.c_str(), O_RDWR | O_CLOEXEC), path_);
    ASSERT_TRUE(lock(file_, F_WRLCK));
    ASSERT_TRUE(target->flush());
    EXPECT_FALSE(elsewhere([this] { return lock(seen_by_, F_WRLCK); }));
    ASSERT_TRUE(lock(file_, F_UNLCK));
    ASSERT_TRUE(target->flush());
}

}   // namespace
}   // namespace forebay::io
