#include "io/passed_socket.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "io/passed_number.h"

namespace forebay::io {

namespace {

constexpr std::byte kBegin{'.'};   // so that no message is empty, as the end is

}   // namespace

Result<std::array<int, 2>> make_channel() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0) return ends;
    return Status::from_errno(errno, "make a channel between two processes");
}

Status pass(int channel, const Socket* connection, std::string_view note, Waits waits) {
    std::array<std::byte, 1 + kNoteMax> bytes{kBegin};
    const std::size_t length = std::min(note.size(), kNoteMax);
    std::memcpy(bytes.data() + 1, note.data(), length);
    iovec part{bytes.data(), 1 + length};
    PassedNumber passed;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (connection != nullptr) passed.put(connection->number(), message);
    ssize_t sent;
    do sent = ::sendmsg(channel, &message, MSG_NOSIGNAL | (waits == Waits::kYes ? 0 : MSG_DONTWAIT));
    while (sent < 0 && errno == EINTR);
    return sent >= 0 ? Status::ok() : Status::from_errno(errno, "pass a connection on");
}

Result<std::optional<PassedSocket>> receive_passed(int channel) {
    std::array<std::byte, 1 + kNoteMax> bytes;
    PassedNumber passed;
    const ssize_t received = receive_with(channel, bytes, passed);
    if (received == 0) return std::optional<PassedSocket>();
    if (received < 0)
        return Status(Code::kIo, "a connection was passed on, and did not arrive", errno, errno != ECONNRESET);
    PassedSocket come;
    if (passed.number() >= 0) come.socket = std::make_unique<Socket>(passed.number());
    come.note.assign(reinterpret_cast<const char*>(bytes.data()) + 1, static_cast<std::size_t>(received) - 1);
    return std::optional(std::move(come));
}

void take_no_more(int channel) noexcept { (void)::shutdown(channel, SHUT_RD); }

}   // namespace forebay::io
