// One descriptor that is sent beside bytes through a Unix socket. Source: unix(7), SCM_RIGHTS; cmsg(3). Ownership: the
// receiver closes it. Thread-safety: one thread at a time. Blocking: as recvmsg(2).
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "io/file.h"

namespace forebay::io {

class PassedNumber {
  public:
    void put(int number, msghdr& message) noexcept {
        make_room(message);
        cmsghdr* const control = CMSG_FIRSTHDR(&message);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN(sizeof number);
        std::memcpy(CMSG_DATA(control), &number, sizeof number);
    }
    void make_room(msghdr& message) noexcept {
        message.msg_control = room_.data();
        message.msg_controllen = room_.size();
    }
    // The buffer has room for two (the system rounds up). If a message has more than one, this closes all of them.
    void take(msghdr& message) noexcept {
        cut_ = (message.msg_flags & MSG_CTRUNC) != 0;
        const cmsghdr* const control = CMSG_FIRSTHDR(&message);
        if (control == nullptr || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) return;
        const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof number_;
        for (std::size_t i = 0; i < count; ++i) {
            int number;
            std::memcpy(&number, CMSG_DATA(control) + i * sizeof number, sizeof number);
            if (count == 1) number_ = number;
            else ::close(number);
        }
    }
    [[nodiscard]] int number() const noexcept { return number_; }   // -1: none arrived
    [[nodiscard]] bool cut() const noexcept { return cut_; }        // this process could not receive a sent descriptor

  private:
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(int))> room_{};
    int number_ = -1;
    bool cut_ = false;
};

// Works like recvmsg(2). The system closes descriptors without room.
inline ssize_t receive_with(int socket, MutableBytes into, PassedNumber& passed) noexcept {
    iovec part{into.data(), into.size()};
    ssize_t received;
    do {
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        passed.make_room(message);
        received = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
        if (received > 0) passed.take(message);
    } while (received < 0 && errno == EINTR);
    return received;
}

}   // namespace forebay::io
