// Stream sockets: Unix sockets, and TCP.
//
// No call raises SIGPIPE. Ownership: a Socket closes its number only if that still stands for its socket. A program may
// close descriptors that it does not know, and give their numbers to its own files. Thread-safety: one thread sends and
// receives at a time; `shut_down` and `hung_up` may come from any thread. Blocking: as each call says.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "io/closed_on_fork.h"
#include "io/file.h"

namespace forebay::io {

// "unix:PATH" with an absolute path, or "HOST:PORT" with an IPv4 address or a name.
struct Address {
    std::string path = {};   // of a Unix socket; empty: TCP
    std::uint32_t host = 0;
    std::uint16_t port = 0;
    std::string key_file = {};   // for another machine: option server_key
    // A Unix socket, or the loopback interface: the system knows who is at the other end.
    [[nodiscard]] bool is_local() const noexcept { return !path.empty() || host >> 24 == 127; }
};
// kInvalidArgument: neither; kNotFound: nobody has that name. Blocks while a name is looked up.
[[nodiscard]] Result<Address> parse_address(const std::string& text);

class Socket {
  public:
    explicit Socket(int number) noexcept;
    ~Socket();
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    // Blocks as connect(2) does, and for so long at most (0: as long as the system tries). ETIMEDOUT: until then.
    // Forked children do not have it.
    [[nodiscard]] static Result<std::unique_ptr<Socket>> connect(
        const Address& address, std::chrono::seconds patience = std::chrono::seconds(0));

    // One without another side, to see by `is_ours` whether the program closes what it does not know.
    [[nodiscard]] static Result<std::unique_ptr<Socket>> without_peer();

    // Sends all pieces, or fails. Blocks until the system has taken them. `passed`: of a Unix socket, a descriptor that
    // the other side gets with the first byte, a number of its own for the same thing.
    [[nodiscard]] Status send(std::span<const Bytes> pieces, int passed = -1);
    // Fills `into`, or fails. kNotFound: the other side has closed it before the first byte. Blocks.
    [[nodiscard]] Status receive(MutableBytes into);
    // What there is of it, without waiting; 0: nothing yet. kNotFound: the other side has closed it.
    [[nodiscard]] Result<std::size_t> receive_some(MutableBytes into);
    // The same as `receive` of what was sent in one call, and the descriptor that came with it, which is the caller's;
    // -1: none came.
    [[nodiscard]] Result<int> receive_passed(MutableBytes into);
    // No system call of `receive` and `send` waits longer; then they fail with EAGAIN. 0: without end.
    [[nodiscard]] Status set_patience(std::chrono::seconds receiving, std::chrono::seconds sending);

    // `receive` fails with ETIMEDOUT at that time, however much has come; none: without end.
    void set_deadline(std::optional<std::chrono::steady_clock::time_point> deadline) noexcept { deadline_ = deadline; }

    // The former; 0: without end.
    [[nodiscard]] std::chrono::milliseconds receiving_patience() const noexcept;
    // TCP: this end's address.
    [[nodiscard]] Result<std::uint32_t> own_host() const;

    // A Unix socket, or both ends are addresses of the loopback interface.
    [[nodiscard]] bool is_local() const;
    [[nodiscard]] bool is_unix() const noexcept;
    // Of a local one: the user at the other end, as the system knows it. TCP: by /proc/net/tcp.
    [[nodiscard]] Result<std::uint32_t> peer_user() const;
    // The user of the listener: known once `connect` has returned, before the connection is accepted.
    [[nodiscard]] Result<std::uint32_t> listening_user() const;
    // Until there is something to receive, or the other side has closed it: true; or `wake` is readable: false. Blocks.
    [[nodiscard]] Result<bool> await_input(int wake) const;
    // Whether the other side has closed it, or ended; what it had sent before may still be received.
    [[nodiscard]] bool hung_up() const noexcept;
    // Whether the system takes a short message at once.
    [[nodiscard]] bool may_send() const noexcept;
    // From now on forked children do not have it. Once.
    void close_in_children() noexcept { forked_.name(number_, inode_); }
    // Whether the program has not closed it.
    [[nodiscard]] bool is_ours() const noexcept;
    // Neither that, nor has the other side.
    [[nodiscard]] bool is_connected() const noexcept { return is_ours() && !hung_up(); }
    // Wakes whoever sends or receives; both fail from now on.
    void shut_down() noexcept;

    [[nodiscard]] int number() const noexcept { return number_; }

  private:
    [[nodiscard]] Status check_ours() const;
    [[nodiscard]] Status await_bytes() const;
    // Whether the system gave this socket the port that it connects to, as no process listens there (RFC 9293, 3.5:
    // simultaneous open).
    [[nodiscard]] bool is_own_peer() const;
    int number_;
    std::uint64_t inode_ = 0;   // of the socket
    ClosedOnFork forked_;
    std::optional<std::chrono::steady_clock::time_point> deadline_;
};

// Waits until somebody listens at an address again. The directory of a Unix socket tells when its name comes. Nothing
// tells that of a TCP port, nor that a listener which refuses now will not: so it is also tried again after pauses that
// become longer. Thread-safety: one thread at a time. Takes a descriptor, where there is one to be had.
class ListenerWatch {
  public:
    // What happens from here on is noticed by `await`.
    explicit ListenerWatch(const Address& address) noexcept;
    ~ListenerWatch();
    ListenerWatch(const ListenerWatch&) = delete;
    ListenerWatch& operator=(const ListenerWatch&) = delete;

    // Until it may be worth another try; none: without a bound of the caller's. Blocks.
    void await(std::optional<std::chrono::milliseconds> at_most) noexcept;

  private:
    [[nodiscard]] bool named(std::span<const std::byte> events) const noexcept;

    [[nodiscard]] bool is_ours() const noexcept;

    std::string name_;           // in its directory
    int number_ = -1;            // of the inotify instance
    std::uint64_t device_ = 0;   // what the number stands for
    std::uint64_t inode_ = 0;
    std::chrono::milliseconds pause_;
};

// This machine's address on the way to another one. Nothing is sent. kUnsupported: `other` is a Unix socket.
[[nodiscard]] Result<std::uint32_t> own_host_towards(const Address& other);

// Listens until destroyed, which removes a Unix socket's name. Forked children have neither it nor what it has
// accepted: else they would keep the port open, and clients waiting, once this process has ended.
class Listener {
  public:
    // Only this user may connect to a Unix socket: its mode is 0600. A socket left by a dead server of this user
    // is replaced. kUnavailable: another process listens there. EEXIST: the name belongs to something else, which stays
    // as it is.
    [[nodiscard]] static Result<std::unique_ptr<Listener>> open(const Address& address);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    // The next connection; null: one of `wakes` is readable. Blocks until either. Negative ones do not count. EBADF:
    // the program has closed it. Without a descriptor for the connection it fails after a pause.
    [[nodiscard]] Result<std::unique_ptr<Socket>> accept(std::span<const int> wakes);
    [[nodiscard]] Result<std::unique_ptr<Socket>> accept(int wake) { return accept(std::span(&wake, 1)); }
    static constexpr std::size_t kWakesMax = 2;
    // The port that the system has chosen for port 0.
    [[nodiscard]] const Address& address() const noexcept { return address_; }

  private:
    explicit Listener(int number) noexcept;
    [[nodiscard]] bool is_ours() const noexcept;
    void note_name() noexcept;
    void remove_name() const noexcept;
    const int number_;
    Address address_;
    std::uint64_t socket_inode_ = 0;
    ClosedOnFork forked_;
    std::uint64_t device_ = 0, inode_ = 0;   // what has a Unix socket's name
};

// As `parse_address` reads it.
[[nodiscard]] std::string format_address(const Address& address);

}   // namespace forebay::io
