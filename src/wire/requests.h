// The requests of one session, on the client's side (docs/protocol.md). Requests are sent and answered in one order.
// WRITEs are pipelined: the server's credits limit how many are sent ahead of their answers. Every other request waits
// for its answer, and so for those to all earlier WRITEs. Large reads and writes go through memory that both sides use
// (exposed_memory.h), after kExposeAfter bytes through a Unix socket. If after an error the connection is not `lost`,
// the error is the server's answer. Thread-safety: one thread. Blocks (not `lost`) for the socket's patience.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "io/file.h"
#include "wire/client_session.h"
#include "wire/connection.h"
#include "wire/exposed_memory.h"

namespace forebay::wire {

class Requests {
  public:
    // Called with the failure of each refused WRITE, when its answer arrives.
    using RefusedWrite = std::function<void(const Status& why)>;
    // `local`: the server is on this machine, behind a Unix socket. `refused` is null for a session without writes.
    Requests(ClientSession session, bool local, RefusedWrite refused = nullptr);
    ~Requests();
    Requests(const Requests&) = delete;
    Requests& operator=(const Requests&) = delete;

    // Sends a WRITE. `head` is the encoded part table, and `bytes` are the bytes of all parts, at most kDataMax.
    [[nodiscard]] Status write(std::span<const Part> parts, io::Bytes head, io::Bytes bytes);
    // Sends a WRITE with a payload that was sent before, on another connection.
    [[nodiscard]] Status write_again(io::Bytes payload) { return send_write(payload, {}); }
    [[nodiscard]] Status await_writes() { return await_writes(nullptr); }
    // Fills `into`, at most kDataMax bytes.
    [[nodiscard]] Status read(std::uint64_t offset, io::MutableBytes into);
    // Sends a request and returns its answer, valid until the next call. If no answer comes within the socket's
    // patience, and `late` is not null, sets `late` and keeps the connection.
    [[nodiscard]] Result<Connection::Frame> call(Type type, io::Bytes payload, Type answer, bool* late = nullptr);

    [[nodiscard]] bool lost() const noexcept { return lost_; }
    [[nodiscard]] io::Socket& socket() noexcept { return connection_->socket(); }

  private:
    struct Unanswered {
        std::uint32_t bytes;
        bool exposed;   // it has a place in `exposed_`
    };
    [[nodiscard]] Status await_credit(std::size_t bytes);
    [[nodiscard]] Status await_writes(bool* late);
    [[nodiscard]] Status receive_write_answer(bool* late = nullptr);
    [[nodiscard]] Result<Connection::Frame> receive_in_time(bool* late);
    [[nodiscard]] Result<Connection::Frame> receive_answer(Type answer, bool* late);
    [[nodiscard]] Status send_write(io::Bytes head, io::Bytes bytes);
    [[nodiscard]] Status send_exposed_write(std::span<const Part> parts, io::Bytes bytes);
    [[nodiscard]] Status expose_for(std::size_t bytes);
    [[nodiscard]] bool is_exposed(std::size_t bytes) const noexcept {
        return exposed_ != nullptr && bytes >= kExposedMin;
    }
    Status lose(const Status& why) noexcept;

    const std::unique_ptr<Connection> connection_;
    const Welcome credits_;
    const RefusedWrite refused_;
    std::uint64_t sent_ = 2, answered_ = 2;   // ids of the last request and of the last answer
    std::vector<Unanswered> unanswered_;      // WRITEs, oldest first
    std::uint64_t unanswered_bytes_ = 0;
    std::unique_ptr<ExposedMemory> exposed_;
    bool may_expose_;
    std::uint64_t unexposed_bytes_ = 0;   // of large requests that went through the socket
    bool lost_ = false;
};

}   // namespace forebay::wire
