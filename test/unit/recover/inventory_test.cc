// What must not be trusted on a real file system: links, other owners, directories that others may write to.
#include "recover/inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "recover/recovery.h"
#include "support/leftover.h"

namespace forebay::recover {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class InventoryTest : public testing::Test {
  protected:
    InventoryTest() {
        std::string pattern = (fs::temp_directory_path() / "forebay_recover_XXXXXX").string();
        EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        fs::create_directory(root_ / "area");
        fs::permissions(root_ / "area", fs::perms::owner_all);
        area_ = std::move(io::open_posix_directory((root_ / "area").string())).value();
        {
            test::LeftBehind dead(*area_, 100, area::identify_this_process().value().boot_id);
            auto& log = dead.open(1, 0);
            dead.write(log, 0, test::bytes_of(100, 1));
            dead.commit(log, 100);
        }
    }
    ~InventoryTest() override { fs::remove_all(root_); }

    Result<Inventory> take() {
        io::Directory* const areas[] = {area_.get()};
        return take_inventory(areas, [](const area::ProcessIdentity&) { return false; }, {});
    }
    // The only process directory is refused for a reason that says so.
    void expect_refused(const std::string& why) {
        const auto inventory = take();
        ASSERT_TRUE(inventory) << inventory.status().message();
        ASSERT_EQ(inventory.value().directories.size(), 1u);
        EXPECT_EQ(inventory.value().directories.front()->refused.code(), Code::kPermissionDenied);
        EXPECT_THAT(inventory.value().directories.front()->refused.message(), HasSubstr(why));
        EXPECT_THAT(inventory.value().sessions, IsEmpty());
    }
    fs::path process() const { return root_ / "area" / "100-5-0"; }

    fs::path root_;
    std::unique_ptr<io::Directory> area_;
};

TEST_F(InventoryTest, finds_what_is_sound) {
    const auto inventory = take();
    ASSERT_TRUE(inventory);
    ASSERT_EQ(inventory.value().sessions.size(), 1u);
    const Session& session = inventory.value().sessions.front();
    EXPECT_EQ(session.path, "/scratch/run.h5");
    EXPECT_EQ(session.identity, (io::Identity{7, 1}));
    EXPECT_EQ(session.logs.front().directory->path(), process().string());
    EXPECT_EQ(session.logs.front().directory->open_files.size(), 1u);
    EXPECT_GT(session.logs.front().directory->log_modified_ns, 0u);
}

TEST_F(InventoryTest, passes_over_what_is_no_process_directory) {
    fs::create_directory(root_ / "area" / "notes");
    std::ofstream(root_ / "area" / "README") << "mine";
    EXPECT_EQ(take().value().directories.size(), 1u);
}

TEST_F(InventoryTest, refuses_a_process_directory_that_is_a_link) {
    fs::rename(process(), root_ / "elsewhere");
    fs::create_directory_symlink(root_ / "elsewhere", process());
    expect_refused("symbolic link");
}

TEST_F(InventoryTest, refuses_a_log_that_is_a_link) {
    fs::rename(process() / "log", root_ / "elsewhere");
    fs::create_symlink(root_ / "elsewhere", process() / "log");
    expect_refused("symbolic link");
}

TEST_F(InventoryTest, refuses_a_log_that_is_no_file) {
    fs::remove(process() / "log");
    ASSERT_EQ(::mkfifo((process() / "log").c_str(), 0600), 0);
    expect_refused("it is no file");
}

TEST_F(InventoryTest, refuses_what_others_may_write_to) {
    fs::permissions(process() / "log", fs::perms::group_write, fs::perm_options::add);
    expect_refused("others may write to it (mode 0620)");
    fs::permissions(process() / "log", fs::perms::owner_read | fs::perms::owner_write);
    fs::permissions(process(), fs::perms::others_write, fs::perm_options::add);
    expect_refused("others may write to it (mode 0702)");
    fs::permissions(process(), fs::perms::owner_all);
    EXPECT_EQ(take().value().sessions.size(), 1u);
    fs::permissions(root_ / "area", fs::perms::group_write, fs::perm_options::add);
    EXPECT_EQ(take().status().code(), Code::kPermissionDenied);
}

TEST_F(InventoryTest, refuses_what_belongs_to_somebody_else) {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
    ASSERT_EQ(::chown((process() / "log").c_str(), 12345, 12345), 0);
    expect_refused("it belongs to user 12345, not to user 0");
    ASSERT_EQ(::chown((process() / "log").c_str(), 0, 0), 0);
    ASSERT_EQ(::chown(process().c_str(), 12345, 12345), 0);
    expect_refused("it belongs to user 12345");
    ASSERT_EQ(::chown(process().c_str(), 0, 0), 0);
    ASSERT_EQ(::chown((root_ / "area").c_str(), 12345, 12345), 0);
    EXPECT_THAT(take().status().message(), HasSubstr("it belongs to user 12345"));
}

TEST_F(InventoryTest, does_not_look_into_the_logs_of_the_living) {
    io::Directory* const areas[] = {area_.get()};
    const auto inventory = take_inventory(areas, [](const area::ProcessIdentity&) { return true; }, {});
    ASSERT_TRUE(inventory);
    EXPECT_THAT(inventory.value().sessions, IsEmpty());
    EXPECT_EQ(inventory.value().directories.front()->pool, nullptr);
    EXPECT_NE(inventory.value().living_user_of({7, 1}), nullptr);
    EXPECT_EQ(inventory.value().living_user_of({7, 2}), nullptr);
}

TEST_F(InventoryTest, finds_the_area_of_this_user_or_none) {
    const auto none = find_area(root_.string());
    ASSERT_TRUE(none);
    EXPECT_EQ(none.value(), nullptr);
    EXPECT_EQ(find_area((root_ / "missing").string()).status().code(), Code::kNotFound);
}

}   // namespace
}   // namespace forebay::recover
