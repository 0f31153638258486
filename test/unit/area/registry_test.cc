#include "area/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace forebay::area {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class AreaRegistryTest : public ::testing::Test {
  protected:
    AreaRegistryTest() {
        EXPECT_NE(::mkdtemp(folder_), nullptr);
        fs::create_directory(path("registry"));
        fs::create_directory(path("nls"));
        options_.registry = path("registry");
    }
    ~AreaRegistryTest() override { fs::remove_all(folder_); }

    std::string path(const std::string& name) const { return fs::canonical(folder_).string() + "/" + name; }
    std::string folder() const { return path("registry/") + registry_folder(); }
    std::vector<std::string> noted() const {
        std::vector<std::string> areas;
        for (const RegisteredArea& area : read_registry(options_).areas) areas.push_back(area.nls);
        return areas;
    }

    Options options_;
    char folder_[64] = "/tmp/forebay_registry_XXXXXX";
};

TEST_F(AreaRegistryTest, is_empty_where_nothing_was_ever_staged) {
    const Registry registry = read_registry(options_);
    EXPECT_THAT(registry.areas, IsEmpty());
    EXPECT_THAT(registry.unreadable, IsEmpty());
}

TEST_F(AreaRegistryTest, has_each_area_once_whatever_it_was_called) {
    fs::create_symlink(path("nls"), path("link"));
    for (const char* const name : {"nls", "nls/", "registry/../nls", "link", "nls"})
        EXPECT_TRUE(note_area(options_, path(name)));
    EXPECT_THAT(noted(), ElementsAre(path("nls")));
    struct stat facts{};
    ASSERT_EQ(::lstat(folder().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, 0700u);
    fs::create_directory(path("other\nline"));
    EXPECT_TRUE(note_area(options_, path("other\nline")));
    EXPECT_THAT(noted(), ::testing::UnorderedElementsAre(path("nls"), path("other\nline")));
}

TEST_F(AreaRegistryTest, an_entry_that_was_never_finished_is_named_and_then_mended) {
    ASSERT_TRUE(note_area(options_, path("nls")));
    const std::string entry = read_registry(options_).areas.front().entry;
    for (const std::uintmax_t bytes : {std::uintmax_t{0}, std::uintmax_t{30}, fs::file_size(entry) - 1}) {
        fs::resize_file(entry, bytes);
        EXPECT_THAT(noted(), IsEmpty());
        EXPECT_THAT(read_registry(options_).unreadable, ElementsAre(HasSubstr(entry)));
        ASSERT_TRUE(note_area(options_, path("nls")));
        EXPECT_THAT(noted(), ElementsAre(path("nls")));
    }
}

TEST_F(AreaRegistryTest, knows_a_directory_from_a_later_one_of_its_name) {
    for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(note_area(options_, path("nls")));
        const Registry registry = read_registry(options_);
        ASSERT_THAT(registry.areas, SizeIs(1));
        struct stat facts{};
        ASSERT_EQ(::stat(path("nls").c_str(), &facts), 0);
        EXPECT_EQ(registry.areas.front().device, facts.st_dev);
        EXPECT_EQ(registry.areas.front().inode, facts.st_ino);
        fs::rename(path("nls"), path("earlier" + std::to_string(i)));
        fs::create_directory(path("nls"));
    }
}

TEST_F(AreaRegistryTest, forgets_an_area_and_goes_with_the_last_one) {
    ASSERT_TRUE(note_area(options_, path("nls")));
    forget_area(read_registry(options_).areas.front());
    EXPECT_FALSE(fs::exists(folder()));
    EXPECT_TRUE(note_area(options_, path("nls")));
    EXPECT_THAT(noted(), ElementsAre(path("nls")));
}

TEST_F(AreaRegistryTest, trusts_nothing_that_others_can_write_or_that_leads_elsewhere) {
    ASSERT_TRUE(note_area(options_, path("nls")));
    ::chmod(folder().c_str(), 0750);
    EXPECT_THAT(read_registry(options_).unreadable, ElementsAre(HasSubstr("others may enter it")));
    EXPECT_FALSE(note_area(options_, path("nls")));
    fs::rename(folder(), path("moved"));
    ::chmod(path("moved").c_str(), 0700);
    fs::create_symlink(path("moved"), folder());
    EXPECT_THAT(read_registry(options_).unreadable, ElementsAre(HasSubstr("it is no directory")));
    EXPECT_FALSE(note_area(options_, path("nls")));
    fs::remove(folder());
    fs::rename(path("moved"), folder());
    const std::string entry = read_registry(options_).areas.front().entry;
    fs::rename(entry, path("elsewhere"));
    fs::create_symlink(path("elsewhere"), entry);
    EXPECT_THAT(noted(), IsEmpty());
    EXPECT_THAT(read_registry(options_).unreadable, SizeIs(1));
    EXPECT_FALSE(note_area(options_, path("nls")));
}

TEST_F(AreaRegistryTest, of_another_user_is_told_by_its_folder) {
    if (::geteuid() != 0) GTEST_SKIP() << "giving a folder to another user takes root";
    fs::create_directory(path("registry/forebay-areas-54321"));
    EXPECT_THAT(other_registered_users(options_), IsEmpty()) << "anybody may make a folder of that name";
    ASSERT_EQ(::chown(path("registry/forebay-areas-54321").c_str(), 54321, 54321), 0);
    EXPECT_THAT(other_registered_users(options_), ElementsAre(54321u));
    ASSERT_EQ(::chown(path("registry").c_str(), 54321, 54321), 0);
    ASSERT_TRUE(note_area(options_, path("nls")));
    ASSERT_EQ(::chown(folder().c_str(), 54321, 54321), 0);
    EXPECT_THAT(read_registry(options_).unreadable, ElementsAre(HasSubstr("belongs to user 54321")));
}

TEST_F(AreaRegistryTest, a_place_that_is_missing_is_no_reason_to_fail_for_good) {
    options_.registry = path("none");
    EXPECT_FALSE(note_area(options_, path("nls")));
    EXPECT_THAT(read_registry(options_).unreadable, IsEmpty());
    EXPECT_FALSE(note_area(options_, path("no area")));
}

}   // namespace
}   // namespace forebay::area
