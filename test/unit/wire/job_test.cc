#include "wire/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "wire/key_file.h"

namespace forebay::wire {
namespace {

using Variables = std::map<std::string, std::string>;

Variables torchrun() {
    return {{"MASTER_ADDR", "cn01"}, {"MASTER_PORT", "29500"},  {"TORCHELASTIC_RUN_ID", "17"}, {"WORLD_SIZE", "8"},
            {"RANK", "5"},           {"LOCAL_WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"},           {"GROUP_RANK", "1"}};
}

Result<std::optional<Job>> find(const Variables& variables) {
    return find_job([&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    });
}

TEST(Job, is_found_in_the_variables_of_torchrun) {
    const auto job = find(torchrun());
    ASSERT_TRUE(job && job.value());
    EXPECT_EQ(job.value()->nodes, 2U);
    EXPECT_EQ(job.value()->own, 1U);
    EXPECT_EQ(job.value()->master, "cn01:29500");
    EXPECT_THAT(job.value()->name, testing::MatchesRegex("[0-9a-f]{16}"));
}

TEST(Job, has_one_name_on_all_its_nodes_and_another_one_in_each_run) {
    Variables other = torchrun();
    other["GROUP_RANK"] = "0";
    other["RANK"] = "0";
    EXPECT_EQ(find(other).value()->name, find(torchrun()).value()->name);
    for (const char* const name : {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"}) {
        Variables run = torchrun();
        run[name] = "4711";
        EXPECT_NE(find(run).value()->name, find(torchrun()).value()->name) << name;
    }
}

TEST(Job, is_none_outside_torchrun_and_on_one_node) {
    EXPECT_FALSE(find({}).value());
    for (const char* const name : {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "LOCAL_WORLD_SIZE"}) {
        Variables variables = torchrun();
        variables.erase(name);
        EXPECT_FALSE(find(variables).value()) << name;
    }
    Variables alone = torchrun();
    alone["WORLD_SIZE"] = "4";
    EXPECT_FALSE(find(alone).value());
}

TEST(Job, refuses_numbers_that_torchrun_does_not_give) {
    const std::pair<const char*, const char*> wrong[] = {
        {"WORLD_SIZE", "many"}, {"WORLD_SIZE", "7"},        {"GROUP_RANK", "2"},      {"GROUP_RANK", "-1"},
        {"GROUP_RANK", ""},     {"LOCAL_WORLD_SIZE", "4x"}, {"WORLD_SIZE", "4000000"}};
    for (const auto& [name, value] : wrong) {
        Variables variables = torchrun();
        variables[name] = value;
        EXPECT_EQ(find(variables).status().code(), Code::kInvalidArgument) << name << "=" << value;
    }
}

TEST(Job, with_different_numbers_of_ranks_is_told_the_number_of_nodes) {
    Variables variables = torchrun();
    variables["WORLD_SIZE"] = "7";
    variables["GROUP_WORLD_SIZE"] = "2";
    EXPECT_EQ(find(variables).value()->nodes, 2U);
}

constexpr const char* kKey = "0123456789abcdef";

TEST(NodePeer, is_read_back_as_it_was_written) {
    NodePeer peer{"cn01", io::parse_address("10.1.2.3:4711").value(), kKey};
    const auto read = parse_node_peer(encode(peer));
    ASSERT_TRUE(read);
    EXPECT_EQ(read.value().node, "cn01");
    EXPECT_EQ(io::format_address(*read.value().address), "10.1.2.3:4711");
    EXPECT_EQ(read.value().key, kKey);
    peer.address.reset();
    EXPECT_FALSE(parse_node_peer(encode(peer)).value().address);
}

TEST(NodePeer, of_another_form_is_refused) {
    const std::string right = encode({"cn01", io::parse_address("10.1.2.3:4711").value(), kKey});
    for (std::size_t length = 0; length < right.size(); ++length)
        EXPECT_EQ(parse_node_peer(right.substr(0, length)).status().code(), Code::kCorrupt) << length;
    EXPECT_FALSE(parse_node_peer(right + "x"));
    for (const char* const address :
         {"", "cn02:4711", "10.1.2.3", "10.1.2.3:0", "10.1.2.3:65536", "010.1.2.3:4711", "0.0.0.0:4711",
          "224.0.0.1:4711", "255.255.255.255:1", "10.1.2.3:4711 ", "unix:/tmp/x", "10.1.2.3:04711"})
        EXPECT_FALSE(parse_node_peer(std::string("forebay peer 1\nnode cn01\naddress ") + address + "\nkey " + kKey +
                                     "\n"))
            << address;
    EXPECT_FALSE(parse_node_peer(std::string("forebay peer 2\nnode a\naddress none\nkey ") + kKey + "\n"));
    EXPECT_FALSE(parse_node_peer(std::string("forebay peer 1\nnode a\tb\naddress none\nkey ") + kKey + "\n"));
    EXPECT_FALSE(parse_node_peer("forebay peer 1\nnode a\naddress none\nkey 0123456789ABCDEF\n"));
}

class JobFolderTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string made = testing::TempDir() + "forebay-job-XXXXXX";
        ASSERT_NE(::mkdtemp(made.data()), nullptr);
        place_ = made;
        first_ = *find(torchrun()).value();
        second_ = first_;
        first_.own = 0;
    }
    void TearDown() override { std::filesystem::remove_all(place_); }
    [[nodiscard]] std::string folder() const { return place_ + "/.forebay-job-" + first_.name; }
    // None: without libsodium there are no keys.
    [[nodiscard]] std::shared_ptr<JobFolder> open(const Job& job) const {
        auto opened = JobFolder::open(place_, job);
        return opened ? opened.value() : nullptr;
    }

    std::string place_;
    Job first_, second_;
    const io::Address address_ = io::parse_address("10.1.2.3:4711").value();
};

TEST_F(JobFolderTest, nodes_find_each_other) {
    const auto first = open(first_), second = open(second_);
    if (first == nullptr) GTEST_SKIP() << "no libsodium";
    EXPECT_EQ(first->key().value(), second->key().value());
    EXPECT_EQ(second->find(0).status().code(), Code::kNotFound);
    EXPECT_FALSE(second->has_met(0));
    ASSERT_TRUE(first->publish(address_));
    ASSERT_TRUE(second->find(0));
    EXPECT_EQ(io::format_address(second->find(0).value()), "10.1.2.3:4711");
    EXPECT_EQ(second->find(0).value().key_file, first->key_file());
    EXPECT_TRUE(second->has_met(0));
}

TEST_F(JobFolderTest, the_last_one_that_ends_leaves_nothing) {
    const auto first = open(first_), second = open(second_);
    if (first == nullptr) GTEST_SKIP() << "no libsodium";
    ASSERT_TRUE(first->publish(address_));
    ASSERT_TRUE(second->publish(address_));
    first->withdraw();
    EXPECT_EQ(second->find(0).status().code(), Code::kNotFound);
    EXPECT_TRUE(second->has_met(0)) << "nobody waits for it";
    second->withdraw();
    EXPECT_TRUE(std::filesystem::is_empty(place_));
    ASSERT_TRUE(first->publish(address_)) << "it makes the folder anew";
    EXPECT_TRUE(second->find(0));
}

TEST_F(JobFolderTest, what_others_may_have_written_is_not_used) {
    const auto first = open(first_), second = open(second_);
    if (first == nullptr) GTEST_SKIP() << "no libsodium";
    const std::string file = folder() + "/node-0";
    ASSERT_TRUE(first->publish(address_));
    ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
    EXPECT_EQ(second->find(0).status().code(), Code::kPermissionDenied);
    std::filesystem::rename(file, folder() + "/elsewhere");
    ASSERT_EQ(::chmod((folder() + "/elsewhere").c_str(), 0600), 0);
    std::filesystem::create_symlink("elsewhere", file);
    EXPECT_FALSE(second->find(0));
    std::filesystem::remove(file);
    std::ofstream(file) << std::string(4096, 'x');
    ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
    EXPECT_FALSE(second->find(0));
    if (::geteuid() == 0) {
        ASSERT_TRUE(first->publish(address_));
        ASSERT_EQ(::chown(file.c_str(), 12345, 12345), 0);
        EXPECT_EQ(second->find(0).status().code(), Code::kPermissionDenied);
    }
}

TEST_F(JobFolderTest, a_peer_of_another_key_is_not_found) {
    const auto first = open(first_), second = open(second_);
    if (first == nullptr) GTEST_SKIP() << "no libsodium";
    ASSERT_TRUE(first->publish(address_));
    std::filesystem::remove(first->key_file());
    ASSERT_TRUE(second->key());
    EXPECT_EQ(second->find(0).status().code(), Code::kNotFound);
}

TEST_F(JobFolderTest, a_folder_of_others_is_refused) {
    ASSERT_EQ(::mkdir(folder().c_str(), 0700), 0);
    ASSERT_EQ(::chmod(folder().c_str(), 0750), 0);
    EXPECT_EQ(JobFolder::open(place_, first_).status().code(), Code::kPermissionDenied);
    std::filesystem::remove(folder());
    std::filesystem::create_directory_symlink("/tmp", folder());
    EXPECT_EQ(JobFolder::open(place_, first_).status().code(), Code::kInvalidArgument);
    std::filesystem::remove(folder());
    std::ofstream(folder()) << "a file";
    EXPECT_EQ(JobFolder::open(place_, first_).status().code(), Code::kInvalidArgument);
    EXPECT_FALSE(JobFolder::open(place_ + "/nowhere", first_));
}

}   // namespace
}   // namespace forebay::wire
