#include "io/passed_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

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
    struct stat facts{};
    const bool came = passed.number() >= 0;
    if (came && (::fstat(passed.number(), &facts) != 0 || !S_ISSOCK(facts.st_mode))) {
        ::close(passed.number());
        return Status(Code::kIo, "what was passed on is no connection", ENOTSOCK, true);
    }
    if (!came && passed.cut())
        return Status(Code::kIo, "a connection was passed on, and did not arrive", EBADMSG, true);
    PassedSocket come;
    if (came) come.socket = std::make_unique<Socket>(passed.number());
    come.note.assign(reinterpret_cast<const char*>(bytes.data()) + 1, static_cast<std::size_t>(received) - 1);
    return std::optional(std::move(come));
}

bool is_readable(int number) noexcept {
    pollfd look{number, POLLIN, 0};
    return ::poll(&look, 1, 0) > 0;
}

void take_no_more(int channel) noexcept { (void)::shutdown(channel, SHUT_RD); }

}   // namespace forebay::io
