// The home of a file: the same for everybody, and its neighbours' files stay where they are.
#include "wire/home_server.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace forebay::wire {
namespace {

TEST(HomeServer, does_not_depend_on_the_order_of_the_names) {
    for (std::uint64_t inode = 0; inode < 1000; ++inode) {
        const auto home = home_server("unix:/a,10.0.0.1:5000,unix:/c", inode);
        ASSERT_TRUE(home);
        EXPECT_EQ(home.value(), home_server("unix:/c,unix:/a,10.0.0.1:5000", inode).value());
    }
    EXPECT_EQ(home_server("unix:/a", 7).value(), "unix:/a");
}

TEST(HomeServer, each_server_gets_its_part_and_a_new_one_takes_only_its_own) {
    std::map<std::string, int> files;
    for (std::uint64_t inode = 1; inode <= 3000; ++inode) {
        const std::string before = home_server("a:1,b:1,c:1", inode).value();
        const std::string after = home_server("a:1,b:1,c:1,d:1", inode).value();
        EXPECT_TRUE(after == before || after == "d:1");
        ++files[before];
    }
    ASSERT_EQ(files.size(), 3u);
    for (const auto& [server, count] : files) EXPECT_GT(count, 800) << server;   // hashes are no chance
}

TEST(HomeServer, a_name_that_is_missing_is_an_error) {
    for (const char* servers : {"", ",", "a:1,", ",a:1", "a:1,,b:1"})
        EXPECT_EQ(home_server(servers, 1).status().code(), Code::kInvalidArgument) << servers;
}

}   // namespace
}   // namespace forebay::wire
