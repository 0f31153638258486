// Frames on a socket. Both sides use it: a client asks, a server answers.
//
// Thread-safety: one thread at a time. Blocking: until the frame is sent or received, or the socket's patience is over.
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
    // The payload is `head` and `bytes`.
    [[nodiscard]] Status send(Type type, std::uint64_t request, io::Bytes head, io::Bytes bytes);

    // Memory of this side's, which the other side may use from then on (`take_exposed` there). On one machine.
    [[nodiscard]] Status expose(std::uint64_t request, const io::SharedMemory& memory);
    // Copies what the other side says that it has brought to the beginning of this memory. kUnavailable: it may have
    // taken that back, as it has ended meanwhile; nothing more can be received.
    [[nodiscard]] Status copy_exposed(const io::SharedMemory& memory, io::MutableBytes into) const;
    // What came with the EXPOSE that was received last. kUnsupported: nothing came; others: it cannot be used.
    [[nodiscard]] Result<std::unique_ptr<io::SharedMemory>> take_exposed(std::size_t bytes);

    struct Frame {
        Header header;
        io::Bytes payload;   // until the next frame is received
    };
    // kCorrupt: malformed, or its seal does not fit; nothing more can be received; kNotFound: the other side has closed
    // it between two frames.
    // A DATA of the size of `into` comes there.
    [[nodiscard]] Result<Frame> receive(io::MutableBytes into = {});

    // A request whose payload comes with a descriptor of this side's, where there is a Unix socket: the other side gets
    // a number of its own for the same open file (`take_passed`). -1: none.
    [[nodiscard]] Status send_with(Type type, std::uint64_t request, io::Bytes payload, int passed);
    // What came with the EXPOSE or OPEN that was received last, which is the caller's; -1: nothing came.
    [[nodiscard]] int take_passed() noexcept { return passed_.take(); }
    void close_passed() noexcept { passed_.put(-1); }

    // A client's side: WORKING is passed over, and the wait for the answer begins anew.
    void pass_over_working() noexcept { passes_over_working_ = true; }

    // Longer payloads are malformed, from now on.
    void allow_payload(std::size_t most) noexcept { payload_max_ = most; }

    // From now on each frame of either side has a seal. kUnavailable: as FrameSeal.
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
    } passed_;   // with an EXPOSE, or an OPEN
    bool passes_over_working_ = false;
    Payload buffer_;   // as long as the longest payload so far
};

}   // namespace forebay::wire
