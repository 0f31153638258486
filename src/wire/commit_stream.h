// The commits of a file that a client of a staging server writes, as they come (docs/protocol.md).
//
// Ownership: one connection. Thread-safety: one thread at a time. Blocking: as each call says.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "io/file.h"
#include "io/socket.h"
#include "wire/client_session.h"

namespace forebay::wire {

class CommitStream {
  public:
    // kUnsupported: no client of the server writes the file. kNotFound: no server answers. Blocks for `patience_s` and
    // half a minute at most.
    [[nodiscard]] static Result<CommitStream> open(const io::Address& server, const std::string& path,
                                                   const io::Identity& identity, std::uint64_t patience_s);

    // Commits that it has not returned yet, all that the server still knows of; or the writer has ended. Nothing:
    // `wake` is readable. Blocks until either.
    [[nodiscard]] Result<std::optional<Commits>> next(int wake);

  private:
    explicit CommitStream(std::unique_ptr<Connection> connection) noexcept : connection_(std::move(connection)) {}
    [[nodiscard]] Result<Commits> parse_answer();

    std::unique_ptr<Connection> connection_;
    std::uint64_t requests_ = 2, last_ = 0;
    bool asked_ = false;
};

}   // namespace forebay::wire
