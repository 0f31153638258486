// Frames on a socket. Both sides use it: a client asks, a server answers.
//
// Thread-safety: one thread at a time. Blocking: until the frame is sent or received, or the socket's patience is over.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "base/status.h"
#include "io/socket.h"
#include "wire/frame.h"

namespace forebay::wire {

class Connection {
  public:
    explicit Connection(std::unique_ptr<io::Socket> socket) noexcept : socket_(std::move(socket)) {}

    [[nodiscard]] Status send(Type type, std::uint64_t request, io::Bytes payload) {
        return send(type, request, payload, {});
    }
    // The payload is `head` and `bytes`.
    [[nodiscard]] Status send(Type type, std::uint64_t request, io::Bytes head, io::Bytes bytes);

    struct Frame {
        Header header;
        io::Bytes payload;   // until the next frame is received
    };
    // kCorrupt: malformed, nothing more can be received; kNotFound: the other side has closed it between two frames.
    [[nodiscard]] Result<Frame> receive();

    [[nodiscard]] io::Socket& socket() noexcept { return *socket_; }

  private:
    const std::unique_ptr<io::Socket> socket_;
    Payload buffer_;   // as long as the longest payload so far
};

}   // namespace forebay::wire
