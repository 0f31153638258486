// A file is looked for by what it is, whatever its name is now.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "io/path.h"
#include "io/posix_file.h"

namespace forebay::io {
namespace {

class FindFile : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (std::filesystem::temp_directory_path() / "forebay-find-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        std::filesystem::create_directories(root_ / "run" / "step 5");
        path_ = root_ / "run" / "step 5" / "file.h5";
        std::ofstream(path_) << "content";
        identity_ = identify(path_.string()).value();
        for (int i = 0; i < 10; ++i) std::ofstream(root_ / "run" / std::to_string(i)) << i;
    }
    void TearDown() override { std::filesystem::remove_all(root_); }
    std::string found(std::size_t names_max = 1000) const { return find_file(path_.string(), identity_, names_max); }

    std::filesystem::path root_, path_;
    Identity identity_;
};

TEST_F(FindFile, under_another_name_in_its_folder_and_below_it) {
    std::filesystem::rename(path_, path_.parent_path() / "renamed");
    EXPECT_EQ(found(), (path_.parent_path() / "renamed").string());
    std::filesystem::create_directories(path_.parent_path() / "a" / "b");
    std::filesystem::rename(path_.parent_path() / "renamed", path_.parent_path() / "a" / "b" / "c");
    EXPECT_EQ(found(), (path_.parent_path() / "a" / "b" / "c").string());
}

TEST_F(FindFile, in_a_folder_that_has_another_name_and_in_one_above) {
    std::filesystem::rename(root_ / "run" / "step 5", root_ / "run" / "step 5 is done");
    EXPECT_EQ(found(), (root_ / "run" / "step 5 is done" / "file.h5").string());
    std::filesystem::rename(root_ / "run", root_ / "yesterday");
    EXPECT_EQ(found(), (root_ / "yesterday" / "step 5 is done" / "file.h5").string());
}

TEST_F(FindFile, above_the_folder_that_a_symbolic_link_in_the_path_leads_to) {
    std::filesystem::create_directories(root_ / "run" / "archive");
    std::filesystem::create_directories(root_ / "home");
    std::filesystem::create_symlink(root_ / "run" / "step 5", root_ / "home" / "link");
    std::filesystem::rename(path_, root_ / "run" / "archive" / "file.h5");
    // By text the first folder above with this many names or fewer is the link's own.
    EXPECT_EQ(find_file((root_ / "home" / "link" / "file.h5").string(), identity_, 13),
              (root_ / "run" / "archive" / "file.h5").string());
}

TEST_F(FindFile, looks_at_so_many_names) {
    std::filesystem::rename(path_, root_ / "moved.h5");
    EXPECT_EQ(found(5), "");
}

TEST_F(FindFile, does_not_follow_links_and_takes_no_other_file_for_it) {
    std::filesystem::create_symlink(path_, root_ / "run" / "link");
    std::filesystem::create_symlink(root_, root_ / "run" / "loop");
    EXPECT_EQ(find_file((root_ / "run" / "gone.h5").string(), {identity_.device, UINT64_MAX}, 20), "");
    EXPECT_EQ(find_file(path_.string(), {identity_.device + 1, identity_.inode}), "") << "its file system is not there";
}

TEST_F(FindFile, two_paths_lead_to_one_place_through_links_and_dots_also_without_a_file) {
    std::filesystem::create_symlink(path_.parent_path(), root_ / "link");
    std::filesystem::remove(path_);
    const std::string root = root_.string(), path = path_.string();
    for (const char* const other : {"/link/file.h5", "/run/./step 5/file.h5", "/run/none/../step 5/file.h5"})
        EXPECT_TRUE(same_place(path, root + other)) << other;
    EXPECT_TRUE(same_place(root + "/none/file.h5", root + "/link/../../none/file.h5"));
    EXPECT_TRUE(same_place(root + "/file.h5", root + "/none/../file.h5"));
    for (const char* const other : {"/file.h5", "/link/other.h5", "/link/../file.h5"})
        EXPECT_FALSE(same_place(path, root + other)) << other;
}

}   // namespace
}   // namespace forebay::io
