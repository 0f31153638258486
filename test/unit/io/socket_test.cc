// Sockets whose number the program closes, and gives to something of its own.
#include "io/socket.h"

#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <thread>

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

}   // namespace
}   // namespace forebay::io
