#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

#include "io/socket.h"

namespace forebay::io {

namespace {

constexpr unsigned kEstablished = 1, kListening = 10;   // in /proc/net/tcp

struct Ends {
    bool is_unix = false;
    sockaddr_in own{}, other{};
};

Result<Ends> ends_of(int number) {
    Ends ends;
    socklen_t own_length = sizeof ends.own, other_length = sizeof ends.other;   // a Unix socket's name is cut off
    if (::getsockname(number, reinterpret_cast<sockaddr*>(&ends.own), &own_length) != 0 ||
        ::getpeername(number, reinterpret_cast<sockaddr*>(&ends.other), &other_length) != 0)
        return Status::from_errno(errno, "look who is at the other end of a socket");
    ends.is_unix = ends.own.sin_family == AF_UNIX;
    return ends;
}

// Returns an address as /proc/net/tcp writes it: the bytes of the number in memory, then the port.
std::string as_in_proc(const sockaddr_in& address) {
    return fmt::format("{:08X}:{:04X}", address.sin_addr.s_addr, ntohs(address.sin_port));
}

// Returns the user in the first line of /proc/net/tcp for which `fits(local, remote, state)` is true.
template <class Fits>
Result<std::uint32_t> user_in_table(const Fits& fits) {
    std::ifstream table("/proc/net/tcp");
    std::string line;
    while (std::getline(table, line)) {
        std::istringstream words(line);
        std::string number, local, remote, queues, timer, retransmitted;
        unsigned state = 0;
        std::uint32_t user = 0;
        if (words >> number >> local >> remote >> std::hex >> state >> queues >> timer >> retransmitted >> std::dec >>
                user &&
            fits(local, remote, state))
            return user;
    }
    return Status(Code::kPermissionDenied, "the user at the other end of a TCP connection is not in /proc/net/tcp");
}

// While this end is connected, only the owner of the other end can have such a line.
Result<std::uint32_t> user_of_tcp(const Ends& ends) {
    const std::string other = as_in_proc(ends.other), own = as_in_proc(ends.own);
    return user_in_table([&](const std::string& local, const std::string& remote, unsigned state) {
        return local == other && remote == own && state == kEstablished;
    });
}

// Before the accept its own line names root, so this reads the listener's. All listeners at a port belong to one user.
Result<std::uint32_t> listener_of_tcp(const Ends& ends) {
    sockaddr_in everywhere = ends.other;
    everywhere.sin_addr.s_addr = htonl(INADDR_ANY);
    const std::string other = as_in_proc(ends.other), any = as_in_proc(everywhere);
    const auto listens_at = [](const std::string& address) {
        return user_in_table([&](const std::string& local, const std::string&, unsigned state) {
            return local == address && state == kListening;
        });
    };
    const auto exact = listens_at(other);   // the system prefers the more exact address
    return exact ? exact : listens_at(any);
}

}   // namespace

bool Socket::is_own_peer() const {
    const auto ends = ends_of(number_);
    return ends && as_in_proc(ends.value().own) == as_in_proc(ends.value().other);
}

Result<std::uint32_t> Socket::own_host() const {
    const auto ends = ends_of(number_);
    if (!ends) return ends.status();
    return ends.value().is_unix ? 0 : ntohl(ends.value().own.sin_addr.s_addr);
}

bool Socket::is_local() const {
    const auto ends = ends_of(number_);
    if (!ends) return false;
    const auto is_loopback = [](const sockaddr_in& end) { return ntohl(end.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET; };
    return ends.value().is_unix || (is_loopback(ends.value().own) && is_loopback(ends.value().other));
}

bool Socket::is_unix() const noexcept {
    const auto ends = ends_of(number_);
    return ends && ends.value().is_unix;
}

Result<std::uint32_t> Socket::peer_user() const {
    const auto ends = ends_of(number_);
    if (!ends) return ends.status();
    if (!ends.value().is_unix) return user_of_tcp(ends.value());
    ucred user{};
    socklen_t length = sizeof user;
    if (::getsockopt(number_, SOL_SOCKET, SO_PEERCRED, &user, &length) != 0)
        return Status::from_errno(errno, "look who is at the other end of a socket");
    return user.uid;
}

Result<std::uint32_t> Socket::listening_user() const {
    const auto ends = ends_of(number_);
    if (!ends) return ends.status();
    return ends.value().is_unix ? peer_user() : listener_of_tcp(ends.value());
}

}   // namespace forebay::io
