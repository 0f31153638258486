// The commits of a file that a client of a staging server writes (docs/protocol.md). One thread at a time.
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
    // kUnsupported: no client writes the file. kNotFound: no server. Blocks for `patience_s` and half a minute.
    [[nodiscard]] static Result<CommitStream> open(const io::Address& server, const std::string& path,
                                                   const io::Identity& identity, std::uint64_t patience_s);

    // Waits for new commits that the server still knows, or the writer's end. Returns nothing if `wake` is readable.
    [[nodiscard]] Result<std::optional<Commits>> next(int wake);

  private:
    explicit CommitStream(std::unique_ptr<Connection> connection) noexcept : connection_(std::move(connection)) {}
    [[nodiscard]] Result<Commits> parse_answer();

    std::unique_ptr<Connection> connection_;
    std::uint64_t requests_ = 2, last_ = 0;
    bool asked_ = false;
};

}   // namespace forebay::wire
