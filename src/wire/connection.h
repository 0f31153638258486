// Frames on a socket: a client asks, a server answers. One thread at a time. Blocks, within the socket's patience.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/status.h"
#include "io/shared_memory.h"
#include "io/socket.h"
#include "wire/frame.h"
#include "wire/frame_seal.h"

namespace forebay::wire {

class Connection {
  public:
    explicit Connection(std::unique_ptr<io::Socket> socket) noexcept : socket_(std::move(socket)) {}

    [[nodiscard]] Status send(Type type, std::uint64_t request, io::Bytes payload) {
        return send(type, request, payload, {});
    }
    [[nodiscard]] Status send(Type type, std::uint64_t request, io::Bytes head, io::Bytes bytes);

    // Exposes memory of this side to the other side, on one machine. The other side calls `take_exposed`.
    [[nodiscard]] Status expose(std::uint64_t request, const io::SharedMemory& memory);
    // Copies the bytes that the other side has placed at the beginning of this memory. Returns kUnavailable if the
    // other side has ended meanwhile, and may have cleared the memory; the connection is unusable then.
    [[nodiscard]] Status copy_exposed(const io::SharedMemory& memory, io::MutableBytes into) const;
    // Returns the memory of the last EXPOSE. kUnsupported: it had none. Other errors: the memory is unusable.
    [[nodiscard]] Result<std::unique_ptr<io::SharedMemory>> take_exposed(std::size_t bytes);

    struct Frame {
        Header header;
        io::Bytes payload;   // valid until the next frame is received
    };
    // Receives a frame. The bytes of a DATA with the size of `into` go there. kCorrupt: it is malformed, or its seal
    // does not match; the connection is then unusable. kNotFound: the other side closed the connection between frames.
    [[nodiscard]] Result<Frame> receive(io::MutableBytes into = {});

    // Sends a request with the descriptor `passed` (-1: none) through a Unix socket, for the peer's `take_passed`.
    [[nodiscard]] Status send_with(Type type, std::uint64_t request, io::Bytes payload, int passed);
    // Returns the descriptor of the last EXPOSE or OPEN, which the caller then owns, or -1.
    [[nodiscard]] int take_passed() noexcept { return passed_.take(); }
    void close_passed() noexcept { passed_.put(-1); }

    // Makes a client skip WORKING frames. Each of them restarts the wait for the answer.
    void pass_over_working() noexcept { passes_over_working_ = true; }

    // Makes longer payloads malformed.
    void allow_payload(std::size_t most) noexcept { payload_max_ = most; }

    // Puts a seal on each later frame of either side. Returns kUnavailable as FrameSeal does.
    [[nodiscard]] Status seal(const SealKey& sent, const SealKey& received);
    [[nodiscard]] bool sealed() const noexcept { return sent_.has_value(); }

    [[nodiscard]] io::Socket& socket() noexcept { return *socket_; }

  private:
    [[nodiscard]] Status receive_rest(io::MutableBytes into);
    [[nodiscard]] Result<Frame> receive_one(io::MutableBytes into);

    const std::unique_ptr<io::Socket> socket_;
    std::optional<FrameSeal> sent_, received_;
    std::size_t payload_max_ = kPayloadMax;
    class Passed {
      public:
        ~Passed();
        void put(int number) noexcept;
        [[nodiscard]] int take() noexcept { return std::exchange(number_, -1); }

      private:
        int number_ = -1;
    } passed_;
    bool passes_over_working_ = false;
    Payload buffer_;   // as long as the longest payload so far
};

}   // namespace forebay::wire
