// What only the operating system's own files have: links, descriptors, permissions, full devices.
#include "io/posix_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>

#include "io/append.h"
#include "io/file_control.h"
#include "io/open_existing.h"

namespace forebay::io {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class PosixFileTest : public ::testing::Test {
  protected:
    PosixFileTest() {
        path_ = (fs::temp_directory_path() / "forebay_posix_XXXXXX").string();
        EXPECT_NE(::mkdtemp(path_.data()), nullptr);
        directory_ = std::move(open_posix_directory(path_)).value();
    }
    ~PosixFileTest() override { fs::remove_all(path_); }

    static mode_t mode_of(const std::string& path) {
        struct stat facts{};
        EXPECT_EQ(::stat(path.c_str(), &facts), 0);
        return facts.st_mode & 07777;
    }

    std::string path_;
    std::unique_ptr<Directory> directory_;
};

TEST_F(PosixFileTest, a_symbolic_link_is_never_followed) {
    std::ofstream(path_ + "/real") << "content";
    fs::create_directory(path_ + "/folder");
    fs::create_symlink("real", path_ + "/link");
    fs::create_symlink("missing", path_ + "/dangling");
    fs::create_directory_symlink("folder", path_ + "/folder_link");
    EXPECT_EQ(directory_->open_file("link", OpenMode::kRead).status().sys_errno(), ELOOP);
    EXPECT_EQ(directory_->open_file("link", OpenMode::kReadWrite).status().sys_errno(), ELOOP);
    EXPECT_EQ(directory_->open_file("link", OpenMode::kCreateNew).status().code(), Code::kAlreadyExists);
    EXPECT_EQ(directory_->open_file("dangling", OpenMode::kCreateNew).status().code(), Code::kAlreadyExists);
    EXPECT_FALSE(fs::exists(path_ + "/missing"));
    EXPECT_FALSE(directory_->open_directory("folder_link"));
    EXPECT_FALSE(open_posix_directory(path_ + "/folder_link"));
}

TEST_F(PosixFileTest, a_link_is_told_as_one) {
    fs::create_symlink("missing", path_ + "/dangling");
    EXPECT_EQ(directory_->facts("dangling").value().kind, Facts::Kind::kSymbolicLink);
    ASSERT_EQ(::mkfifo((path_ + "/pipe").c_str(), 0666), 0);
    EXPECT_EQ(directory_->facts("pipe").value().kind, Facts::Kind::kOther);
}

TEST_F(PosixFileTest, an_existing_file_is_opened_only_if_it_is_one_and_nobody_else_has_it) {
    std::ofstream(path_ + "/real") << "content";
    fs::create_symlink("real", path_ + "/link");
    ASSERT_EQ(::mkfifo((path_ + "/pipe").c_str(), 0666), 0);
    EXPECT_EQ(open_existing_file(path_ + "/missing").status().code(), Code::kNotFound);
    EXPECT_EQ(open_existing_file(path_ + "/pipe").status().code(), Code::kInvalidArgument);
    {
        const auto opened = open_existing_file(path_ + "/link");
        ASSERT_TRUE(opened) << opened.status().message();
        EXPECT_EQ(opened.value().identity, identify(path_ + "/real").value());
        EXPECT_EQ(open_existing_file(path_ + "/real").status().code(), Code::kUnavailable);
    }
    EXPECT_TRUE(open_existing_file(path_ + "/real"));
    EXPECT_EQ(identify(path_ + "/missing").status().code(), Code::kNotFound);
}

TEST_F(PosixFileTest, a_link_is_removed_itself_not_what_it_names) {
    std::ofstream(path_ + "/real") << "content";
    fs::create_symlink("real", path_ + "/link");
    ASSERT_TRUE(directory_->remove_file("link"));
    EXPECT_TRUE(fs::exists(path_ + "/real"));
}

TEST_F(PosixFileTest, what_is_created_belongs_to_the_user_alone) {
    ASSERT_TRUE(directory_->open_file("file", OpenMode::kCreateNew));
    ASSERT_TRUE(directory_->create_directory("folder"));
    EXPECT_EQ(mode_of(path_ + "/file"), 0600u);
    EXPECT_EQ(mode_of(path_ + "/folder"), 0700u);
}

TEST_F(PosixFileTest, a_directory_stays_the_same_when_its_path_is_taken_by_another) {
    auto inner = directory_->create_directory("inner");
    ASSERT_TRUE(inner);
    fs::rename(path_ + "/inner", path_ + "/moved");
    fs::create_directory(path_ + "/inner");
    ASSERT_TRUE(inner.value()->open_file("file", OpenMode::kCreateNew));
    EXPECT_TRUE(fs::exists(path_ + "/moved/file"));
    EXPECT_FALSE(fs::exists(path_ + "/inner/file"));
}

TEST_F(PosixFileTest, a_descriptor_is_shared_and_closed_with_the_last_who_has_it) {
    const int number = ::open((path_ + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(number, 0);
    auto mine = std::make_shared<Descriptor>(number, path_ + "/file", O_RDWR);
    auto file = make_posix_file(mine, "file");
    ASSERT_TRUE(file->write_at(0, std::vector(3, std::byte{'x'})));
    EXPECT_EQ(::fcntl(number + 1, F_GETFD), -1);   // it takes no second one
    file.reset();
    EXPECT_GE(::fcntl(number, F_GETFD), 0);
    mine.reset();
    EXPECT_EQ(::fcntl(number, F_GETFD), -1);
    EXPECT_EQ(fs::file_size(path_ + "/file"), 3u);
}

TEST_F(PosixFileTest, a_bad_descriptor_is_refused_by_name) {
    EXPECT_THAT(adopt_posix_file(-1, "/scratch/run.h5")->size().status().message(), HasSubstr("/scratch/run.h5"));
    EXPECT_THAT(identify(-1, "/scratch/run.h5").status().message(), HasSubstr("/scratch/run.h5"));
}

// A file that is drained behind its close.
TEST_F(PosixFileTest, who_opens_a_leased_file_waits_until_the_lease_is_given_back) {
    const std::string name = path_ + "/file";
    auto file = std::move(directory_->open_file("file", OpenMode::kCreateNew)).value();
    for (const auto& open : {std::function<bool()>([&] {
                                 const int number = open_patiently(name, O_RDONLY);
                                 if (number >= 0) ::close(number);
                                 return number >= 0;
                             }),
                             std::function<bool()>([&] { return open_existing(name, Access::kRead).is_ok(); }),
                             std::function<bool()>([&] { return open_existing_file(name, {}).is_ok(); })}) {
        auto lease = Lease::take(*file);
        if (lease == nullptr) GTEST_SKIP() << "this file system has no leases";
        ASSERT_EQ(::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC), -1);
        ASSERT_EQ(errno, EWOULDBLOCK);
        auto opened = std::async(std::launch::async, open);
        EXPECT_EQ(opened.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
        lease.reset();
        EXPECT_TRUE(opened.get());
    }
    ASSERT_EQ(::mkfifo((path_ + "/pipe").c_str(), 0600), 0);
    EXPECT_FALSE(open_existing(path_ + "/pipe", Access::kRead).is_ok());   // at once
}

TEST_F(PosixFileTest, two_names_of_one_file_have_one_identity) {
    std::ofstream(path_ + "/one") << "1";
    std::ofstream(path_ + "/other") << "2";
    fs::create_hard_link(path_ + "/one", path_ + "/two");
    const auto identity = [&](const char* name) {
        const int descriptor = ::open((path_ + "/" + name).c_str(), O_RDONLY);
        const auto found = identify(descriptor, name);
        ::close(descriptor);
        return found.value();
    };
    EXPECT_EQ(identity("one"), identity("two"));
    EXPECT_NE(identity("one"), identity("other"));
}

TEST_F(PosixFileTest, a_failed_write_names_file_offset_length_and_cause) {
    auto file = adopt_posix_file(::open("/dev/full", O_WRONLY | O_CLOEXEC), "/dev/full");
    const Status status = file->write_at(7, std::vector(100, std::byte{1}));
    EXPECT_EQ(status.code(), Code::kNoSpace);
    EXPECT_EQ(status.sys_errno(), ENOSPC);
    EXPECT_TRUE(status.retryable());
    EXPECT_EQ(status.message(), "write 100 bytes at offset 7 of /dev/full: No space left on device");
}

TEST_F(PosixFileTest, a_write_that_the_system_cuts_short_goes_on_and_reports_what_stops_it) {
    // A limit on the file's size makes the system take a part of a write and refuse the rest.
    struct rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const auto file = adopt_posix_file(::open((path_ + "/file").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600),
                                       path_ + "/file");   // no file of the staging area
    auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit{10000, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    const std::vector<std::byte> block(3000, std::byte{'x'});
    const std::vector<Bytes> pieces(5, block);
    const Status status = file->write_gather_at(0, pieces);
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    EXPECT_EQ(status.sys_errno(), EFBIG);
    EXPECT_THAT(status.message(), HasSubstr("write 5000 bytes at offset 10000"));
    EXPECT_EQ(file->size().value(), 10000u);
}

TEST_F(PosixFileTest, lines_are_appended_to_a_file_that_may_not_be_there_yet) {
    const std::string path = path_ + "/lines";
    ASSERT_TRUE(append_line(path, "one"));
    ASSERT_TRUE(append_line(path, ""));
    ASSERT_TRUE(append_line(path, "three"));
    std::ifstream file(path);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "one\n\nthree\n");
    EXPECT_EQ(append_line(path_ + "/none/lines", "x").code(), Code::kNotFound);
    EXPECT_EQ(append_line("/dev/full", "x").code(), Code::kNoSpace);
}

}   // namespace
}   // namespace forebay::io
