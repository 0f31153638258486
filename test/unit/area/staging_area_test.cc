#include "area/staging_area.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "io/file_system.h"

namespace forebay::area {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class StagingAreaTest : public ::testing::Test {
  protected:
    StagingAreaTest() { EXPECT_NE(::mkdtemp(folder_), nullptr); }
    ~StagingAreaTest() override { fs::remove_all(folder_); }

    static Result<StagingArea> open(const std::string& nls, const std::string& more = "") {
        return open_staging_area(load_options("size=16MiB;nls=" + nls + ";" + more,
                                              [](const char*) { return nullptr; }));
    }
    // The message of the refusal, which always names option, value and source.
    static std::string refusal(const std::string& nls, const std::string& more = "") {
        const Result<StagingArea> area = open(nls, more);
        EXPECT_FALSE(area);
        EXPECT_THAT(area.status().message(), AllOf(HasSubstr("option "), HasSubstr("(connector string)")));
        return area.status().message();
    }

    std::string path(const std::string& name = "") const { return folder_ + (name.empty() ? "" : "/" + name); }
    std::string root() const { return path(staging_folder()); }

    char folder_[64] = "/tmp/forebay_staging_area_XXXXXX";
};

TEST_F(StagingAreaTest, is_created_for_its_owner_alone) {
    const mode_t mask = ::umask(0);
    const Result<StagingArea> area = open(path());
    ::umask(mask);
    ASSERT_TRUE(area) << area.status().message();
    EXPECT_EQ(area.value().root, root());
    EXPECT_GT(area.value().free_bytes, 0u);
    EXPECT_FALSE(area.value().file_system.empty());
    struct stat facts{};
    ASSERT_EQ(::lstat(root().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, 0700u);
}

TEST_F(StagingAreaTest, is_used_again) {
    ASSERT_TRUE(open(path()));
    EXPECT_TRUE(open(path() + "//"));
}

TEST_F(StagingAreaTest, creates_through_the_directory_that_was_checked) {
    const Result<StagingArea> area = open(path());
    ASSERT_TRUE(area);
    ASSERT_TRUE(area.value().directory->create_directory("1-2-3"));
    EXPECT_TRUE(fs::is_directory(root() + "/1-2-3"));
}

TEST_F(StagingAreaTest, that_is_missing_is_refused) {
    EXPECT_THAT(refusal(path("none")), HasSubstr("does not exist: create it"));
}

TEST_F(StagingAreaTest, that_is_a_file_is_refused) {
    std::ofstream(path("file")) << "x";
    EXPECT_THAT(refusal(path("file")), HasSubstr("is not a directory"));
}

TEST_F(StagingAreaTest, behind_a_symbolic_link_is_refused_with_the_links_target) {
    fs::create_directory(path("real"));
    fs::create_directory_symlink(path("real"), path("link"));
    for (const char* end : {"", "/", "/."})
        EXPECT_THAT(refusal(path("link") + end), HasSubstr("is a symbolic link to " + path("real")));
}

TEST_F(StagingAreaTest, whose_folder_is_a_symbolic_link_is_refused) {
    fs::create_directory(path("real"));
    fs::create_directory_symlink(path("real"), root());
    EXPECT_THAT(refusal(path()), HasSubstr("is a symbolic link to"));
    EXPECT_TRUE(fs::is_empty(path("real")));
}

TEST_F(StagingAreaTest, whose_folder_is_a_file_is_refused) {
    std::ofstream(root()) << "x";
    EXPECT_THAT(refusal(path()), HasSubstr("is not a directory"));
}

TEST_F(StagingAreaTest, whose_folder_others_can_enter_is_refused) {
    for (const mode_t mode : {0770, 0701, 0722}) {
        fs::remove_all(root());
        ASSERT_EQ(::mkdir(root().c_str(), 0700), 0);
        ASSERT_EQ(::chmod(root().c_str(), mode), 0);
        EXPECT_THAT(refusal(path()), HasSubstr("is accessible to other users"));
    }
}

TEST_F(StagingAreaTest, whose_folder_belongs_to_someone_else_is_refused) {
    ASSERT_EQ(::mkdir(root().c_str(), 0700), 0);
    if (::chown(root().c_str(), 65534, 65534) != 0) GTEST_SKIP() << "giving a folder away takes root";
    EXPECT_THAT(refusal(path()), HasSubstr("belongs to user 65534"));
}

TEST_F(StagingAreaTest, that_cannot_be_written_is_refused) {
    ASSERT_EQ(::chmod(path().c_str(), 0555), 0);
    const bool is_root = ::geteuid() == 0;   // who can write everywhere, so another user has to try
    if (is_root) {
        ASSERT_EQ(::seteuid(65534), 0);
    }
    const std::string message = refusal(path());
    if (is_root) {
        ASSERT_EQ(::seteuid(0), 0);
    }
    EXPECT_THAT(message, HasSubstr("Permission denied"));
    ASSERT_EQ(::chmod(path().c_str(), 0700), 0);
}

TEST_F(StagingAreaTest, on_a_file_system_that_takes_no_files_is_refused) { EXPECT_FALSE(open("/proc")); }

TEST_F(StagingAreaTest, smaller_than_the_option_size_is_refused) {
    EXPECT_THAT(refusal(path(), "size=1024T"), AllOf(HasSubstr("option size=1024TiB"), HasSubstr("has in all")));
}

// A process that died may have left bytes there, and recovery makes room.
TEST_F(StagingAreaTest, without_room_for_two_segments_is_refused_and_can_still_be_entered) {
    LoadedOptions loaded;
    loaded.options.nls = path();
    loaded.options.size = 16 << 20;
    loaded.options.segment = std::uint64_t{1} << 60;
    const auto opened = open_staging_area(loaded);
    EXPECT_EQ(opened.status().code(), Code::kNoSpace) << opened.status().message();
    auto entered = enter_staging_area(loaded);
    ASSERT_TRUE(entered) << entered.status().message();
    EXPECT_EQ(entered.value().root, root());
    ASSERT_TRUE(entered.value().directory->create_directory("1-2-3"));
    EXPECT_EQ(measure_space(entered.value(), loaded).code(), Code::kNoSpace);
    EXPECT_GT(entered.value().free_bytes, 0u);
    loaded.options.segment = 1 << 20;
    EXPECT_TRUE(measure_space(entered.value(), loaded));
}

TEST(FileSystems, on_the_network_are_known) {
    for (const std::uint64_t magic : {0x6969u, 0x0BD00BD0u, 0x47504653u, 0x65735546u, 0xFF534D42u, 0xFE534D42u,
                                      0x00C36400u, 0x01021997u, 0x19830326u, 0x5346414Fu})
        EXPECT_TRUE(io::file_system_kind(magic).network) << magic;
    EXPECT_FALSE(io::file_system_kind(0xEF53).network);
    EXPECT_TRUE(io::file_system_kind(0x01021994).memory);
}

TEST(FileSystems, without_a_known_name_are_taken_for_local_ones) {
    EXPECT_EQ(io::file_system_kind(0x12345).name, "0x12345");
    EXPECT_FALSE(io::file_system_kind(0x12345).network);
}

}   // namespace
}   // namespace forebay::area
