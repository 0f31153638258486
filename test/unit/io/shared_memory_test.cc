// Memory that two processes use: what one stores the other one sees, and nothing else is taken for it.
#include "io/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "io/socket.h"

namespace forebay::io {
namespace {

constexpr std::size_t kBytes = 64 << 10;

std::size_t descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd"), end;
    return static_cast<std::size_t>(std::distance(all, end));
}

std::array<std::unique_ptr<Socket>, 2> connected() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    return {std::make_unique<Socket>(ends[0]), std::make_unique<Socket>(ends[1])};
}

Status send_with(Socket& socket, int number) {
    const std::array<std::byte, 4> word{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
    const std::array<Bytes, 1> pieces{Bytes(word)};
    return socket.send(pieces, number);
}

TEST(SharedMemory, what_one_side_stores_the_other_one_sees) {
    const std::size_t before = descriptors();
    {
        const auto ends = connected();
        auto made = SharedMemory::create(kBytes);
        ASSERT_TRUE(made) << made.status().message();
        ASSERT_TRUE(send_with(*ends[0], made.value()->number()));
        made.value()->close_number();
        std::array<std::byte, 4> word{};
        const auto passed = ends[1]->receive_passed(word);
        ASSERT_TRUE(passed) << passed.status().message();
        EXPECT_EQ(word[3], std::byte{4});
        ASSERT_GE(passed.value(), 0);
        auto adopted = SharedMemory::adopt(passed.value(), kBytes);
        ASSERT_TRUE(adopted) << adopted.status().message();
        made.value()->bytes()[kBytes - 1] = std::byte{77};
        EXPECT_EQ(adopted.value()->bytes()[kBytes - 1], std::byte{77});
        made.value().reset();
        adopted.value()->bytes()[0] = std::byte{5};   // it goes with the last of them
        EXPECT_EQ(adopted.value()->bytes()[kBytes - 1], std::byte{77});
    }
    EXPECT_EQ(descriptors(), before);
}

TEST(SharedMemory, nobody_can_make_it_shorter) {
    auto made = SharedMemory::create(kBytes);
    ASSERT_TRUE(made) << made.status().message();
    EXPECT_NE(::ftruncate(made.value()->number(), 0), 0);
    EXPECT_NE(::fcntl(made.value()->number(), F_ADD_SEALS, F_SEAL_WRITE), 0);
}

TEST(SharedMemory, what_could_become_shorter_is_not_taken) {
    const std::size_t before = descriptors();
    const auto refused = [](int number, std::size_t bytes) {
        const auto adopted = SharedMemory::adopt(number, bytes);
        return adopted.status().code() == Code::kCorrupt;
    };
    const int unsealed = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(::ftruncate(unsealed, kBytes), 0);
    EXPECT_TRUE(refused(unsealed, kBytes));
    const int sealed = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ASSERT_EQ(::ftruncate(sealed, kBytes), 0);
    ASSERT_EQ(::fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    EXPECT_TRUE(refused(::dup(sealed), kBytes));   // a seal may come that keeps its pages
    ASSERT_EQ(::fcntl(sealed, F_ADD_SEALS, F_SEAL_SEAL), 0);
    EXPECT_TRUE(refused(::dup(sealed), kBytes + 4096));
    EXPECT_TRUE(refused(::dup(sealed), 0));
    EXPECT_FALSE(refused(sealed, kBytes));
    EXPECT_TRUE(refused(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC), kBytes));
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    EXPECT_TRUE(refused(pipe[0], kBytes));
    ::close(pipe[1]);
    EXPECT_FALSE(SharedMemory::adopt(::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), kBytes));
    EXPECT_EQ(descriptors(), before);
}

TEST(SharedMemory, bytes_without_a_descriptor_or_with_two_bring_none) {
    const std::size_t before = descriptors();
    {
        const auto ends = connected();
        ASSERT_TRUE(send_with(*ends[0], -1));
        std::array<std::byte, 4> word{};
        const auto none = ends[1]->receive_passed(word);
        ASSERT_TRUE(none) << none.status().message();
        EXPECT_EQ(none.value(), -1);
        const std::array<int, 2> two{0, 0};
        alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof two)> room{};
        iovec part{word.data(), word.size()};
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = room.data();
        message.msg_controllen = room.size();
        cmsghdr* const control = CMSG_FIRSTHDR(&message);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN(sizeof two);
        std::memcpy(CMSG_DATA(control), two.data(), sizeof two);
        ASSERT_EQ(::sendmsg(ends[0]->number(), &message, 0), 4);
        const auto neither = ends[1]->receive_passed(word);
        ASSERT_TRUE(neither) << neither.status().message();
        EXPECT_EQ(neither.value(), -1);
        // Whoever expects none gets none.
        ASSERT_TRUE(send_with(*ends[0], 0));
        ASSERT_TRUE(ends[1]->receive(word));
        // What is incomplete brings none, either.
        ASSERT_TRUE(send_with(*ends[0], 0));
        ends[0]->shut_down();
        std::array<std::byte, 5> more{};
        EXPECT_FALSE(ends[1]->receive_passed(more));
    }
    EXPECT_EQ(descriptors(), before);
}

// Beyond its limit on the size of files the system would send the process a signal.
TEST(SharedMemory, a_limit_on_files_is_respected) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit lower{kBytes - 1, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &lower), 0);
    const auto made = SharedMemory::create(kBytes);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_FALSE(made);
}

}   // namespace
}   // namespace forebay::io
