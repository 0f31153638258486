// Sockets whose number the program closes, and gives to something of its own; names of sockets, and who listens there.
#include "io/socket.h"

#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>

#include "support/seeds.h"

namespace forebay::io {
namespace {

std::array<int, 2> pair_of_sockets() {
    std::array<int, 2> pair{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
    return pair;
}

int asked(int number, unsigned long what) {
    int bytes = -1;
    EXPECT_EQ(::ioctl(number, what, &bytes), 0);
    return bytes;
}

TEST(Socket, a_number_that_goes_to_another_socket_while_it_waits_is_left_alone) {
    const std::array<int, 2> own = pair_of_sockets(), others = pair_of_sockets();
    {
        Socket socket(own[0]);
        Status received;
        std::array<std::byte, 8> into{};
        {
            const std::jthread waiting([&] {
                socket.set_deadline(std::chrono::steady_clock::now() + std::chrono::minutes(1));
                received = socket.receive(into);
            });
            ASSERT_EQ(::write(own[1], "four", 4), 4);
            while (asked(own[1], SIOCOUTQ) > 0) std::this_thread::yield();   // until it has taken them
            ASSERT_EQ(::write(others[1], "others", 6), 6);
            ASSERT_EQ(::dup2(others[0], own[0]), own[0]);
            (void)::send(own[1], "!", 1, MSG_NOSIGNAL);   // wakes it, if it waits for that one still
        }
        EXPECT_EQ(received.sys_errno(), EBADF) << received.message();
        EXPECT_EQ(asked(own[0], SIOCINQ), 6);
        EXPECT_FALSE(socket.is_ours());
    }
    EXPECT_EQ(asked(own[0], SIOCINQ), 6);   // nor has its end closed it
    for (const int number : {own[0], own[1], others[0], others[1]}) ::close(number);
}

TEST(Socket, is_connected_until_the_other_side_or_the_program_closes_it) {
    const std::array<int, 2> pair = pair_of_sockets(), more = pair_of_sockets();
    const Socket one(pair[0]), other(more[0]);
    EXPECT_TRUE(one.is_connected() && other.is_connected());
    ::close(pair[1]);
    EXPECT_TRUE(one.is_ours() && !one.is_connected());
    ::close(more[0]);
    EXPECT_TRUE(!other.is_ours() && !other.is_connected());
    ::close(more[1]);
    const auto alone = Socket::without_peer();
    ASSERT_TRUE(alone) << alone.status().message();
    EXPECT_TRUE(alone.value()->is_ours());
}

class Names : public testing::Test {
  protected:
    Names() {
        std::string pattern = (std::filesystem::temp_directory_path() / "forebay-names-XXXXXX").string();
        folder_ = ::mkdtemp(pattern.data());
        address_.path = folder_ + "/socket";
    }
    ~Names() override { std::filesystem::remove_all(folder_); }
    static std::string text_of(const std::string& path) {
        std::ifstream file(path);
        return {std::istreambuf_iterator<char>(file), {}};
    }
    static void make(const std::string& path) { std::ofstream(path) << "mine"; }

    std::string folder_;
    Address address_;
};

TEST_F(Names, what_is_no_socket_of_a_dead_server_is_not_removed) {
    make(address_.path + "~");
    {
        const auto listener = Listener::open(address_);
        ASSERT_TRUE(listener) << listener.status().message();
        EXPECT_TRUE(Socket::connect(address_));
        EXPECT_EQ(Listener::open(address_).status().sys_errno(), EADDRINUSE) << "somebody listens";
        EXPECT_TRUE(Socket::connect(address_));
    }
    EXPECT_EQ(text_of(address_.path + "~"), "mine");
    EXPECT_FALSE(std::filesystem::exists(address_.path));
    make(address_.path);
    EXPECT_EQ(Listener::open(address_).status().sys_errno(), EEXIST);
    EXPECT_EQ(text_of(address_.path), "mine");
}

TEST_F(Names, a_socket_that_a_dead_server_has_left_is_replaced) {
    for (const std::string& name : {address_.path, address_.path + "~"}) {
        // A death closes the socket, and leaves the name.
        const int number = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_GE(number, 0);
        sockaddr_un left{};
        left.sun_family = AF_UNIX;
        ASSERT_LT(name.size(), sizeof left.sun_path);
        std::memcpy(left.sun_path, name.data(), name.size());
        ASSERT_EQ(::bind(number, reinterpret_cast<const sockaddr*>(&left), sizeof left), 0);
        ASSERT_EQ(::listen(number, 1), 0);
        ::close(number);
    }
    const auto listener = Listener::open(address_);
    ASSERT_TRUE(listener) << listener.status().message();
    EXPECT_TRUE(Socket::connect(address_));
    EXPECT_FALSE(std::filesystem::exists(address_.path + "~"));
}

TEST_F(Names, a_listener_removes_no_name_that_has_gone_to_another_one) {
    auto first = Listener::open(address_);
    ASSERT_TRUE(first);
    std::filesystem::rename(address_.path, folder_ + "/elsewhere");
    const auto second = Listener::open(address_);
    ASSERT_TRUE(second) << second.status().message();
    first.value().reset();
    EXPECT_TRUE(Socket::connect(address_));
}

// Nobody has accepted the connection.
TEST_F(Names, who_listens_is_known_before_anybody_says_anything) {
    const auto here = Listener::open(address_);
    const auto by_tcp = Listener::open(parse_address("127.0.0.1:0").value());
    ASSERT_TRUE(here && by_tcp);
    for (const Address& address : {address_, by_tcp.value()->address()}) {
        const auto socket = Socket::connect(address);
        ASSERT_TRUE(socket) << socket.status().message();
        const auto user = socket.value()->listening_user();
        ASSERT_TRUE(user) << user.status().message();
        EXPECT_EQ(user.value(), ::geteuid());
    }
}

// No process listens on the port, and it is one that the system gives to connections. Now and then the system gives a
// socket just this port, and the socket is connected to itself.
TEST_F(Names, a_socket_is_never_connected_to_itself) {
    const auto odd = Listener::open(parse_address("127.0.0.1:0").value());
    ASSERT_TRUE(odd) << odd.status().message();
    // Linux gives odd ports to listeners, and even ones to connections.
    Address address = odd.value()->address();
    for (int tries = 0; tries < 100; ++tries) {
        address.port = static_cast<std::uint16_t>((address.port & ~1) - 2);
        if (Listener::open(address)) break;   // it is free, and free again
    }
    for (int i = 0; i < 30'000 / test::kEachNth; ++i) {
        const auto socket = Socket::connect(address);
        ASSERT_EQ(socket.status().sys_errno(), ECONNREFUSED) << i << ": " << socket.status().message();
    }
}

}   // namespace
}   // namespace forebay::io
