// One client's session: the handshake, the OPEN, and then the client's requests in order. The purpose in the OPEN
// selects the handler that serves them (docs/protocol.md, "Sessions"). One thread makes all calls. `run` returns when
// the session has ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "server/cached_files.h"
#include "server/served_files.h"
#include "server/session_handler.h"
#include "server/write_handler.h"
#include "wire/connection.h"

namespace forebay::server {

// The use of a session, for a server that stops.
struct SessionUse {
    std::atomic<bool> writes{false};   // true before an open for writing, and false once its close has failed
    std::atomic<bool> wrote{false};    // true before an open for writing, to the end
};

class Session {
  public:
    // `files` null: the server stages no files. `cached` null: the server has no read cache. `epoch` identifies this
    // server process. `key` is shared with clients on other machines; null: such clients are refused. A server that
    // stops cuts off the sessions that do not write (`use`).
    Session(ServedFiles* files, CachedFiles* cached, std::uint64_t epoch, const Report& report,
            const wire::SealKey* key, SessionUse& use) noexcept
        : files_(files), cached_files_(cached), epoch_(epoch), report_(report), key_(key), use_(use) {}

    // Serves until the client closes its file or is gone. The file is then at its last commit.
    void run(wire::Connection& connection);

  private:
    using Handler = std::unique_ptr<SessionHandler>;
    [[nodiscard]] Status welcome(wire::Connection& connection);
    [[nodiscard]] Status prove(wire::Connection& connection);   // both sides prove that they have the key
    [[nodiscard]] Status open(wire::Connection& connection, Handler& handler);
    [[nodiscard]] Status open_file(wire::Connection& connection, wire::Open& request, Handler& handler);
    [[nodiscard]] Status open_cached(wire::Connection& connection, const wire::Open& request, Handler& handler);

    ServedFiles* const files_;
    CachedFiles* const cached_files_;
    const std::uint64_t epoch_;
    const Report& report_;
    const wire::SealKey* const key_;
    SessionUse& use_;
};

}   // namespace forebay::server
