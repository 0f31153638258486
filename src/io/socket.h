// Stream sockets: Unix sockets, and TCP. No call raises SIGPIPE. A Socket closes its number only if that still stands
// for its socket: a program may close unknown descriptors, and reuse their numbers. Thread-safety: one thread sends and
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
    // A Unix socket or the loopback interface: the system knows the user at the other end.
    [[nodiscard]] bool is_local() const noexcept { return !path.empty() || host >> 24 == 127; }
};
// kInvalidArgument: neither form. kNotFound: the name is unknown. Blocks while it looks up a name.
[[nodiscard]] Result<Address> parse_address(const std::string& text);

class Socket {
  public:
    explicit Socket(int number) noexcept;
    ~Socket();
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    // Blocks for at most `patience` (0: as connect(2)), then fails with ETIMEDOUT. Forked children lack the socket.
    [[nodiscard]] static Result<std::unique_ptr<Socket>> connect(
        const Address& address, std::chrono::seconds patience = std::chrono::seconds(0));

    // Makes a socket without a peer: its `is_ours` shows whether the program closes unknown descriptors.
    [[nodiscard]] static Result<std::unique_ptr<Socket>> without_peer();

    // Sends all pieces, or fails. Blocks until the system has taken them. Through a Unix socket, the other side gets
    // its own number for the descriptor `passed`, with the first byte.
    [[nodiscard]] Status send(std::span<const Bytes> pieces, int passed = -1);
    // Fills `into`, or fails. kNotFound: the other side closed the socket before the first byte. Blocks.
    [[nodiscard]] Status receive(MutableBytes into);
    // Receives the bytes that have arrived, without waiting; 0: none yet. kNotFound: the other side has closed it.
    [[nodiscard]] Result<std::size_t> receive_some(MutableBytes into);
    // Receives bytes of one `send`, and returns the descriptor that came with them, for the caller, or -1. Blocks.
    [[nodiscard]] Result<int> receive_passed(MutableBytes into);
    // Limits each system call of `receive` and `send`; beyond it they fail with EAGAIN. 0: no limit.
    [[nodiscard]] Status set_patience(std::chrono::seconds receiving, std::chrono::seconds sending);

    // At that time `receive` fails with ETIMEDOUT, however much has arrived. None: no deadline.
    void set_deadline(std::optional<std::chrono::steady_clock::time_point> deadline) noexcept { deadline_ = deadline; }

    // Returns the limit for receiving; 0: none.
    [[nodiscard]] std::chrono::milliseconds receiving_patience() const noexcept;
    // Returns this end's address of a TCP connection.
    [[nodiscard]] Result<std::uint32_t> own_host() const;

    // Returns true for a Unix socket, or if both ends are addresses of the loopback interface.
    [[nodiscard]] bool is_local() const;
    [[nodiscard]] bool is_unix() const noexcept;
    // Returns the user at the other end of a local connection, as the system knows it; for TCP from /proc/net/tcp.
    [[nodiscard]] Result<std::uint32_t> peer_user() const;
    // Returns the listener's user: known once `connect` has returned, before the connection is accepted.
    [[nodiscard]] Result<std::uint32_t> listening_user() const;
    // Blocks. Returns true if bytes can be received or the other side closed it, and false once `wake` is readable.
    [[nodiscard]] Result<bool> await_input(int wake) const;
    // Returns true after the other side's close or death. Bytes that it sent before may still be received.
    [[nodiscard]] bool hung_up() const noexcept;
    // Returns true if the system takes a short message at once.
    [[nodiscard]] bool may_send() const noexcept;
    // From now on forked children lack the socket. Call it once.
    void close_in_children() noexcept { forked_.name(number_, inode_); }
    [[nodiscard]] bool is_ours() const noexcept;
    [[nodiscard]] bool is_connected() const noexcept { return is_ours() && !hung_up(); }
    // Wakes threads that send or receive; both fail from now on.
    void shut_down() noexcept;

    [[nodiscard]] int number() const noexcept { return number_; }

  private:
    [[nodiscard]] Status check_ours() const;
    [[nodiscard]] Status await_bytes() const;
    // True if the system connected the socket to itself, as no process listens (RFC 9293, 3.5: simultaneous open).
    [[nodiscard]] bool is_own_peer() const;
    int number_;
    std::uint64_t inode_ = 0;
    ClosedOnFork forked_;
    std::optional<std::chrono::steady_clock::time_point> deadline_;
};

// Waits until a process may listen at an address again: until a Unix socket's name appears (inotify), or for a pause,
// which grows. Thread-safety: one thread at a time. Takes a descriptor, if there is one.
class ListenerWatch {
  public:
    // Events from here on end `await`.
    explicit ListenerWatch(const Address& address) noexcept;
    ~ListenerWatch();
    ListenerWatch(const ListenerWatch&) = delete;
    ListenerWatch& operator=(const ListenerWatch&) = delete;

    // Returns when another attempt may succeed, after `at_most` at the latest. Blocks.
    void await(std::optional<std::chrono::milliseconds> at_most) noexcept;

  private:
    [[nodiscard]] bool named(std::span<const std::byte> events) const noexcept;

    [[nodiscard]] bool is_ours() const noexcept;

    std::string name_;
    int number_ = -1;            // of the inotify instance
    std::uint64_t device_ = 0;   // of `number_`
    std::uint64_t inode_ = 0;
    std::chrono::milliseconds pause_;
};

// Returns this machine's address on the way to another one. Sends nothing. kUnsupported: `other` is a Unix socket.
[[nodiscard]] Result<std::uint32_t> own_host_towards(const Address& other);

// Listens until its destruction, which removes a Unix socket's name. Forked children have neither it nor accepted
// sockets: they would keep the port open, and clients waiting, after this process's end.
class Listener {
  public:
    // A Unix socket has mode 0600, so only this user may connect, and replaces one of a dead server of this user.
    // kUnavailable: another process listens there. EEXIST: the name belongs to something else, which stays.
    [[nodiscard]] static Result<std::unique_ptr<Listener>> open(const Address& address);
    ~Listener();
    Listener(const Listener&) = delete;
    Listener& operator=(const Listener&) = delete;

    // Blocks until the next connection; null: one of `wakes` is readable (negative ones do not count). EBADF: the
    // program has closed the listener. Without a descriptor for the connection it fails after a pause.
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
    std::uint64_t device_ = 0, inode_ = 0;   // of the file with a Unix socket's name
};

[[nodiscard]] std::string format_address(const Address& address);

}   // namespace forebay::io
