// The bytes of one session's reads and writes: in the frames, or in memory that the client exposes (docs/protocol.md,
// "Exposed memory"). Thread-safety: one thread at a time. Blocking: until the answer is sent.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "io/shared_memory.h"
#include "wire/connection.h"

namespace forebay::server {

class Transfer {
  public:
    explicit Transfer(wire::Connection& connection) noexcept : connection_(connection) {}

    // Answers EXPOSE, with FAILED and kUnsupported if the server cannot use the memory.
    [[nodiscard]] Status expose(const wire::Connection::Frame& request);
    // Answers READ and READ_EXPOSED. `read` fills `into` with the bytes of the file from `offset` on.
    using Read = std::function<Status(std::uint64_t offset, io::MutableBytes into)>;
    [[nodiscard]] Status read(const wire::Connection::Frame& request, const Read& read);
    // Parses WRITE and WRITE_EXPOSED. The result is valid until the next frame is received.
    [[nodiscard]] Result<wire::Write> parse_write(const wire::Connection::Frame& request) const;
    // Marks the exposed memory as unused, which tells the client that the session has ended.
    void end() noexcept;

  private:
    [[nodiscard]] Status expose_read(const wire::Connection::Frame& request, const Read& read);
    [[nodiscard]] io::MutableBytes exposed() const noexcept;

    wire::Connection& connection_;
    wire::Payload buffer_;   // for answers to READ; as long as the longest so far
    std::unique_ptr<io::SharedMemory> exposed_;
};

}   // namespace forebay::server
