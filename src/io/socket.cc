#include "io/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "io/own_descriptor.h"
#include "io/passed_number.h"

namespace forebay::io {

namespace {

constexpr int kBacklog = 128;
constexpr std::size_t kSentPiecesMax = 64;

union AnyAddress {
    sockaddr any;
    sockaddr_in tcp;
    sockaddr_un unix_socket;
};

Result<socklen_t> make_address(const Address& address, AnyAddress& made) {
    std::memset(&made, 0, sizeof made);
    if (address.path.empty()) {
        made.tcp.sin_family = AF_INET;
        made.tcp.sin_port = htons(address.port);
        made.tcp.sin_addr.s_addr = htonl(address.host);
        return static_cast<socklen_t>(sizeof made.tcp);
    }
    made.unix_socket.sun_family = AF_UNIX;
    if (address.path.size() >= sizeof made.unix_socket.sun_path)
        return Status(Code::kInvalidArgument, fmt::format("{}: longer than the {} bytes of a Unix socket's name",
                                                          address.path, sizeof made.unix_socket.sun_path - 1));
    std::memcpy(made.unix_socket.sun_path, address.path.data(), address.path.size());
    return static_cast<socklen_t>(sizeof made.unix_socket);
}

int make_socket(const Address& address) {
    return ::socket(address.path.empty() ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

Status look_up(const std::string& host, std::uint32_t& found) {
    in_addr parsed{};
    if (::inet_pton(AF_INET, host.c_str(), &parsed) == 1) {
        found = ntohl(parsed.s_addr);
        return Status::ok();
    }
    addrinfo wanted{}, *list = nullptr;
    wanted.ai_family = AF_INET;
    wanted.ai_socktype = SOCK_STREAM;
    if (const int failed = ::getaddrinfo(host.c_str(), nullptr, &wanted, &list); failed != 0)
        return {Code::kNotFound, fmt::format("no host of this name: {}", ::gai_strerror(failed))};
    sockaddr_in first{};
    std::memcpy(&first, list->ai_addr, sizeof first);
    ::freeaddrinfo(list);
    found = ntohl(first.sin_addr.s_addr);
    return Status::ok();
}

// Detects a vanished peer within half a minute, also while nothing is sent.
void watch_other_side(int number) {
    constexpr int kOn = 1, kIdleSeconds = 10, kEverySeconds = 5, kTimes = 4;
    constexpr unsigned kUnacknowledgedMs = 30'000;
    (void)::setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
    (void)::setsockopt(number, SOL_SOCKET, SO_KEEPALIVE, &kOn, sizeof kOn);
    (void)::setsockopt(number, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof kIdleSeconds);
    (void)::setsockopt(number, IPPROTO_TCP, TCP_KEEPINTVL, &kEverySeconds, sizeof kEverySeconds);
    (void)::setsockopt(number, IPPROTO_TCP, TCP_KEEPCNT, &kTimes, sizeof kTimes);
    (void)::setsockopt(number, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMs, sizeof kUnacknowledgedMs);
}

// Waits for the end of a connect(2) that a signal interrupted.
int end_of_connecting(int number, std::chrono::seconds patience) {
    const int until_ms = patience.count() == 0 ? -1 : static_cast<int>(std::chrono::milliseconds(patience).count());
    pollfd look{number, POLLOUT, 0};
    int found;
    do found = ::poll(&look, 1, until_ms);
    while (found < 0 && errno == EINTR);
    if (found == 0) return ETIMEDOUT;
    int error = 0;
    socklen_t length = sizeof error;
    return ::getsockopt(number, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

}   // namespace

Result<Address> parse_address(const std::string& text) {
    constexpr std::string_view kUnix = "unix:";
    Address address;
    if (text.starts_with(kUnix)) {
        address.path = text.substr(kUnix.size());
        if (address.path.empty() || address.path.front() != '/')
            return Status(Code::kInvalidArgument, fmt::format("{}: the path of a Unix socket is absolute", text));
        AnyAddress made;
        if (const auto fits = make_address(address, made); !fits) return fits.status();
        return address;
    }
    const std::size_t colon = text.rfind(':');
    const std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
    const char* const end = text.data() + text.size();
    const auto port = colon == std::string::npos ? std::from_chars_result{text.data(), std::errc::invalid_argument}
                                                 : std::from_chars(text.data() + colon + 1, end, address.port);
    if (port.ec != std::errc() || port.ptr != end || host.empty())
        return Status(Code::kInvalidArgument,
                      fmt::format("{}: neither unix:PATH nor HOST:PORT with an IPv4 address or a name", text));
    FOREBAY_TRY(look_up(host, address.host).with_context(text));
    return address;
}

std::string format_address(const Address& address) {
    if (!address.path.empty()) return "unix:" + address.path;
    return fmt::format("{}.{}.{}.{}:{}", address.host >> 24, (address.host >> 16) & 0xFF, (address.host >> 8) & 0xFF,
                       address.host & 0xFF, address.port);
}

namespace {

std::uint64_t inode_of(int number) noexcept {
    struct stat facts{};
    return ::fstat(number, &facts) == 0 ? facts.st_ino : 0;
}

bool is_socket(int number, std::uint64_t inode) noexcept {
    struct stat facts{};
    return ::fstat(number, &facts) == 0 && S_ISSOCK(facts.st_mode) && facts.st_ino == inode;
}

}   // namespace

Result<std::uint32_t> own_host_towards(const Address& other) {
    if (!other.path.empty()) return Status(Code::kUnsupported, "a Unix socket is on this machine");
    AnyAddress made;
    const auto length = make_address(other, made);
    if (!length) return length.status();
    if (made.tcp.sin_port == 0) made.tcp.sin_port = htons(1);
    const std::string doing = "find the way to " + format_address(other);
    const OwnDescriptor datagrams(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!datagrams) return Status::from_errno(errno, doing);
    if (::connect(datagrams.number(), &made.any, length.value()) != 0) return Status::from_errno(errno, doing);
    AnyAddress own{};
    socklen_t own_length = sizeof own;
    if (::getsockname(datagrams.number(), &own.any, &own_length) != 0) return Status::from_errno(errno, doing);
    return ntohl(own.tcp.sin_addr.s_addr);
}

Socket::Socket(int number) noexcept : number_(number), inode_(inode_of(number)) {}

Socket::~Socket() {
    if (is_ours()) ::close(number_);
}

bool Socket::is_ours() const noexcept { return is_socket(number_, inode_); }

Status Socket::check_ours() const {
    return is_ours() ? Status::ok() : Status::from_errno(EBADF, "use a socket that the program has closed");
}

Result<std::unique_ptr<Socket>> Socket::without_peer() {
    const int number = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (number < 0) return Status::from_errno(errno, "make a socket");
    return std::make_unique<Socket>(number);
}

Result<std::unique_ptr<Socket>> Socket::connect(const Address& address, std::chrono::seconds patience) {
    AnyAddress made;
    const auto length = make_address(address, made);
    if (!length) return length.status();
    const int number = make_socket(address);
    if (number < 0) return Status::from_errno(errno, "make a socket");
    auto socket = std::make_unique<Socket>(number);
    socket->close_in_children();
    FOREBAY_TRY(socket->set_patience(patience, patience));   // SO_SNDTIMEO also limits connect(2): socket(7)
    const auto connect_once = [&] { return ::connect(number, &made.any, length.value()) == 0 ? 0 : errno; };
    int error = connect_once();
    // After a signal, a TCP connect goes on; that of a Unix socket does not.
    while (error == EINTR && !address.path.empty()) error = connect_once();
    if (error == EINTR) error = end_of_connecting(number, patience);
    if (error == EINPROGRESS) error = ETIMEDOUT;
    if (error == 0 && address.path.empty() && socket->is_own_peer()) error = ECONNREFUSED;
    if (error != 0) return Status::from_errno(error, "connect to " + format_address(address));
    if (address.path.empty()) watch_other_side(number);
    return socket;
}

Status Socket::send(std::span<const Bytes> pieces, int passed) {
    std::array<iovec, kSentPiecesMax> parts;
    std::size_t count = 0;
    for (const Bytes& piece : pieces) {
        if (count == kSentPiecesMax) return {Code::kInternal, "send: too many pieces"};
        if (!piece.empty()) parts[count++] = {const_cast<std::byte*>(piece.data()), piece.size()};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    PassedNumber beside;
    if (passed >= 0) beside.put(passed, message);
    while (message.msg_iovlen > 0) {
        FOREBAY_TRY(check_ours());   // the program may have closed it during the last wait
        const ssize_t sent = ::sendmsg(number_, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return Status::from_errno(errno, "send");
        message.msg_control = nullptr;   // it went with the first byte
        message.msg_controllen = 0;
        auto left = static_cast<std::size_t>(sent);
        while (message.msg_iovlen > 0 && left >= message.msg_iov->iov_len) {
            left -= message.msg_iov->iov_len;
            ++message.msg_iov;
            --message.msg_iovlen;
        }
        if (message.msg_iovlen > 0) {
            message.msg_iov->iov_base = static_cast<char*>(message.msg_iov->iov_base) + left;
            message.msg_iov->iov_len -= left;
        }
    }
    return Status::ok();
}

Status Socket::receive(MutableBytes into) {
    for (bool first = true; !into.empty(); first = false) {
        if (deadline_) FOREBAY_TRY(await_bytes());
        FOREBAY_TRY(check_ours());
        const ssize_t received = ::recv(number_, into.data(), into.size(), deadline_ ? MSG_DONTWAIT : MSG_WAITALL);
        if (received < 0 && deadline_ && (errno == EAGAIN || errno == EWOULDBLOCK)) continue;
        if (received < 0 && errno == EINTR) continue;
        if (received < 0) return Status::from_errno(errno, "receive");
        if (received == 0)
            return first ? Status(Code::kNotFound, "the other side has closed the connection", ECONNRESET)
                         : Status::from_errno(ECONNRESET, "receive");
        into = into.subspan(static_cast<std::size_t>(received));
    }
    return Status::ok();
}

Result<std::size_t> Socket::receive_some(MutableBytes into) {
    FOREBAY_TRY(check_ours());
    ssize_t received;
    do received = ::recv(number_, into.data(), into.size(), MSG_DONTWAIT);
    while (received < 0 && errno == EINTR);
    if (received > 0) return static_cast<std::size_t>(received);
    if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::size_t{0};
    if (received < 0) return Status::from_errno(errno, "receive");
    return Status(Code::kNotFound, "the other side has closed the connection", ECONNRESET);
}

Result<int> Socket::receive_passed(MutableBytes into) {
    if (deadline_) FOREBAY_TRY(await_bytes());
    FOREBAY_TRY(check_ours());
    PassedNumber passed;
    const ssize_t received = receive_with(number_, into, passed);
    Status outcome = received > 0 ? Status::ok() : Status::from_errno(received < 0 ? errno : ECONNRESET, "receive");
    if (outcome)
        outcome = receive(into.subspan(static_cast<std::size_t>(received)));   // the rest, if it came in pieces
    if (outcome) return passed.number();
    if (passed.number() >= 0) ::close(passed.number());
    return outcome;
}

Status Socket::await_bytes() const {
    for (;;) {
        FOREBAY_TRY(check_ours());
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - std::chrono::steady_clock::now());
        pollfd look{number_, POLLIN, 0};
        const int found = left.count() <= 0 ? 0 : ::poll(&look, 1, static_cast<int>(left.count()));
        if (found > 0) return Status::ok();
        if (found == 0) return Status::from_errno(ETIMEDOUT, "receive");
        if (errno != EINTR) return Status::from_errno(errno, "receive");
    }
}

Status Socket::set_patience(std::chrono::seconds receiving, std::chrono::seconds sending) {
    const timeval receive{receiving.count(), 0}, send{sending.count(), 0};
    if (::setsockopt(number_, SOL_SOCKET, SO_RCVTIMEO, &receive, sizeof receive) != 0 ||
        ::setsockopt(number_, SOL_SOCKET, SO_SNDTIMEO, &send, sizeof send) != 0)
        return Status::from_errno(errno, "set the patience of a socket");
    return Status::ok();
}

std::chrono::milliseconds Socket::receiving_patience() const noexcept {
    timeval patience{};
    socklen_t length = sizeof patience;
    if (::getsockopt(number_, SOL_SOCKET, SO_RCVTIMEO, &patience, &length) != 0) return {};
    return std::chrono::seconds(patience.tv_sec) + std::chrono::milliseconds(patience.tv_usec / 1000);
}

Result<bool> Socket::await_input(int wake) const {
    FOREBAY_TRY(check_ours());
    std::array<pollfd, 2> look{{{number_, POLLIN | POLLRDHUP, 0}, {wake, POLLIN, 0}}};
    while (::poll(look.data(), look.size(), -1) < 0)
        if (errno != EINTR) return Status::from_errno(errno, "wait for a socket");
    return look[1].revents == 0;
}

bool Socket::hung_up() const noexcept {
    pollfd look{number_, POLLRDHUP, 0};
    return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool Socket::may_send() const noexcept {
    pollfd look{number_, POLLOUT, 0};
    return is_ours() && ::poll(&look, 1, 0) > 0 && look.revents == POLLOUT;
}

void Socket::shut_down() noexcept {
    if (is_ours()) (void)::shutdown(number_, SHUT_RDWR);
}

namespace {

// A Unix socket's name: free, left by a dead server, or taken by something that stays.
enum class Name : std::uint8_t { kFree, kLeftBehind, kTaken };
struct Found {
    Name name = Name::kFree;
    Status why;   // kTaken
};

// A socket counts as left behind only if it is this user's, and the system says that no process listens.
Found look_at_name(const Address& address) {
    struct stat facts{};
    if (::lstat(address.path.c_str(), &facts) != 0) {
        if (errno == ENOENT) return {};
        return {Name::kTaken, Status::from_errno(errno, "look at " + address.path)};
    }
    if (!S_ISSOCK(facts.st_mode)) return {Name::kTaken, Status::from_errno(EEXIST, "it is no socket")};
    if (facts.st_uid != ::geteuid()) return {Name::kTaken, Status::from_errno(EEXIST, "it belongs to another user")};
    const Status connected = Socket::connect(address).status();
    if (connected.sys_errno() == ECONNREFUSED) return {Name::kLeftBehind, {}};
    return {Name::kTaken, {Code::kUnavailable, "another process does", EADDRINUSE}};
}

Status free_name(const Address& address) {
    const Found found = look_at_name(address);
    if (found.name == Name::kFree) return Status::ok();
    if (found.name == Name::kTaken) return found.why;
    return ::unlink(address.path.c_str()) == 0 ? Status::ok() : Status::from_errno(errno, "remove what a server left");
}

// Fails if the name was taken meanwhile, where the file system can tell.
bool rename_to_free(const std::string& from, const std::string& to) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
    return (errno == EINVAL || errno == ENOSYS) && ::rename(from.c_str(), to.c_str()) == 0;
}

}   // namespace

Result<std::unique_ptr<Listener>> Listener::open(const Address& address) {
    // The name appears only when a process listens there, so clients that wait for it may connect at once.
    Address first = address;
    AnyAddress made;
    if (!address.path.empty()) first.path += '~';
    auto length = make_address(first, made);
    // The longer name does not fit, or another program has it.
    if (!length || (!address.path.empty() && !free_name(first))) length = make_address(first = address, made);
    if (!length) return length.status();
    const std::string doing = "listen at " + format_address(address);
    if (!address.path.empty()) FOREBAY_TRY(free_name(address).with_context(doing));
    const int number = make_socket(address);
    if (number < 0) return Status::from_errno(errno, doing);
    std::unique_ptr<Listener> listener(new Listener(number));   // it has no name to remove yet
    const int on = 1;
    if (address.path.empty()) (void)::setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(number, &made.any, length.value()) != 0) return Status::from_errno(errno, doing);
    listener->address_ = first;
    listener->note_name();
    // Before it listens, so no other user connects earlier.
    if (!first.path.empty() && ::chmod(first.path.c_str(), 0600) != 0) return Status::from_errno(errno, doing);
    if (::listen(number, kBacklog) != 0) return Status::from_errno(errno, doing);
    if (first.path != address.path && !rename_to_free(first.path, address.path))
        return Status::from_errno(errno, doing);
    listener->address_ = address;
    socklen_t named = sizeof made;
    if (address.path.empty() && ::getsockname(number, &made.any, &named) == 0)
        listener->address_.port = ntohs(made.tcp.sin_port);
    return listener;
}

void Listener::note_name() noexcept {
    struct stat facts{};
    if (address_.path.empty() || ::lstat(address_.path.c_str(), &facts) != 0) return;
    device_ = facts.st_dev;
    inode_ = facts.st_ino;
}

// Another server may have the name by now.
void Listener::remove_name() const noexcept {
    struct stat facts{};
    if (address_.path.empty() || ::lstat(address_.path.c_str(), &facts) != 0) return;
    if (facts.st_dev == device_ && facts.st_ino == inode_) (void)::unlink(address_.path.c_str());
}

Listener::Listener(int number) noexcept : number_(number), socket_inode_(inode_of(number)) {
    forked_.name(number, socket_inode_);
}

Listener::~Listener() {
    remove_name();
    if (is_ours()) ::close(number_);
}

bool Listener::is_ours() const noexcept { return is_socket(number_, socket_inode_); }

Result<std::unique_ptr<Socket>> Listener::accept(std::span<const int> wakes) {
    std::array<pollfd, 1 + kWakesMax> look{{{number_, POLLIN, 0}}};
    const std::size_t count = std::min(wakes.size(), kWakesMax);
    for (std::size_t i = 0; i < count; ++i) look[1 + i] = {wakes[i], POLLIN, 0};
    for (;;) {
        if (::poll(look.data(), 1 + count, -1) < 0) {
            if (errno == EINTR) continue;
            return Status::from_errno(errno, "wait for a connection");
        }
        const auto woken = std::span(look).subspan(1, count);
        if (std::any_of(woken.begin(), woken.end(), [](const pollfd& each) { return each.revents != 0; }))
            return std::unique_ptr<Socket>();
        if (!is_ours()) return Status::from_errno(EBADF, "use a socket that the program has closed");
        const int number = ::accept4(number_, nullptr, nullptr, SOCK_CLOEXEC);
        if (number < 0 && (errno == EINTR || errno == ECONNABORTED || errno == EAGAIN)) continue;
        if (number < 0) {
            const int error = errno;
            constexpr int kWithoutDescriptorsMs = 100;   // the listener stays readable until a descriptor is free
            if (error == EMFILE || error == ENFILE) (void)::poll(look.data() + 1, count, kWithoutDescriptorsMs);
            return Status::from_errno(error, "accept a connection");
        }
        if (address_.path.empty()) watch_other_side(number);
        auto socket = std::make_unique<Socket>(number);
        socket->close_in_children();
        return socket;
    }
}

}   // namespace forebay::io
