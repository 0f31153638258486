// The file with the key that programs and staging servers on several machines share.
#include "wire/key_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace forebay::wire {
namespace {

class KeyFile : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = testing::TempDir() + "key-XXXXXX";
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        folder_ = name;
        path_ = folder_ + "/made/server.key";
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    void write(const std::string& text, mode_t mode = 0600) {
        std::filesystem::create_directories(folder_ + "/made");
        std::ofstream(path_) << text;
        ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    }
    std::string folder_, path_;
};

TEST_F(KeyFile, is_made_once_and_only_its_user_can_read_it) {
    EXPECT_EQ(read_key(path_).status().code(), Code::kNotFound);
    const auto made = read_or_make_key(path_);
    ASSERT_TRUE(made) << made.status().message();
    EXPECT_NE(made.value(), SealKey{});
    EXPECT_EQ(read_key(path_).value(), made.value());
    EXPECT_EQ(read_or_make_key(path_).value(), made.value());
    struct stat facts{};
    ASSERT_EQ(::stat(path_.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600u);
    ASSERT_EQ(::stat((folder_ + "/made").c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0700u);
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(folder_ + "/made")) ++files;
    EXPECT_EQ(files, 1u);
}

TEST_F(KeyFile, has_its_golden_text) {
    std::string digits;
    for (int i = 0; i < 32; ++i) digits += "0f";
    write(digits + "\n");
    SealKey key;
    key.fill(std::byte{0x0f});
    EXPECT_EQ(read_key(path_).value(), key);
}

TEST_F(KeyFile, that_others_have_rights_to_is_refused) {
    for (const mode_t mode : {0640U, 0604U, 0620U, 0602U, 0610U}) {
        write(std::string(64, 'a') + "\n", mode);
        EXPECT_EQ(read_key(path_).status().code(), Code::kPermissionDenied) << mode;
        EXPECT_EQ(read_or_make_key(path_).status().code(), Code::kPermissionDenied) << mode;
    }
}

TEST_F(KeyFile, that_has_something_else_is_refused_and_stays) {
    for (const std::string& text :
         {std::string(), std::string("secret\n"), std::string(64, 'a'), std::string(65, 'a') + "\n",
          std::string(63, 'a') + "g\n", std::string(64, 'a') + "\n\n"}) {
        write(text);
        EXPECT_EQ(read_or_make_key(path_).status().code(), Code::kInvalidArgument) << text;
        EXPECT_EQ(std::filesystem::file_size(path_), text.size());
    }
    std::filesystem::remove(path_);
    std::filesystem::create_directory(path_);
    EXPECT_FALSE(read_or_make_key(path_));
    std::filesystem::remove(path_);
    std::filesystem::create_symlink(folder_ + "/elsewhere", path_);
    EXPECT_FALSE(read_or_make_key(path_));
    EXPECT_FALSE(std::filesystem::exists(folder_ + "/elsewhere"));
}

TEST_F(KeyFile, is_one_for_all_that_make_it_at_once) {
    std::vector<SealKey> keys(8);
    std::vector<std::thread> makers;
    for (std::size_t i = 0; i < keys.size(); ++i)
        makers.emplace_back([&, i] {
            const auto key = read_or_make_key(path_);
            ASSERT_TRUE(key) << key.status().message();
            keys[i] = key.value();
        });
    for (std::thread& maker : makers) maker.join();
    EXPECT_NE(keys[0], SealKey{});
    for (const SealKey& key : keys) EXPECT_EQ(key, keys[0]);
    const std::filesystem::directory_iterator made(folder_ + "/made");
    EXPECT_EQ(std::distance(begin(made), end(made)), 1) << "the key, and no temporary file";
}

TEST_F(KeyFile, may_be_named_without_a_directory) {
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
    const auto key = read_or_make_key("server.key");
    std::filesystem::current_path(before);
    ASSERT_TRUE(key) << key.status().message();
    EXPECT_EQ(read_key(folder_ + "/server.key").value(), key.value());
}

TEST(KeyFileName, is_in_the_home_directory_unless_it_is_named) {
    EXPECT_EQ(key_file("/somewhere/key"), "/somewhere/key");
    const char* const home = std::getenv("HOME");
    if (home == nullptr || *home != '/') GTEST_SKIP() << "there is no home directory";
    EXPECT_EQ(key_file(""), std::string(home) + "/.config/forebay/server.key");
}

}   // namespace
}   // namespace forebay::wire
