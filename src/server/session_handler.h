// What the client of a session may ask for after its OPEN: one class for each purpose (docs/protocol.md, "Sessions").
//
// Thread-safety: the session's thread makes all calls. Blocking: as the calls of the file do.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "wire/connection.h"

namespace forebay::server {

class SessionHandler {
  public:
    enum class Next : std::uint8_t { kGoesOn, kEnds };

    SessionHandler() = default;
    virtual ~SessionHandler() = default;
    SessionHandler(const SessionHandler&) = delete;
    SessionHandler& operator=(const SessionHandler&) = delete;

    // Carries out one request and answers it. An error ends the session; kCorrupt: the purpose does not allow the
    // request, or the request is malformed.
    [[nodiscard]] virtual Result<Next> serve(const wire::Connection::Frame& request) = 0;
    // The session has ended with `end`, and its socket is shut down. Returns a line for the server's operator, or an
    // empty string. The last call.
    [[nodiscard]] virtual std::string end(const Status& end);
};

// The line for the operator about a session that leaves no file behind. Empty if the client just closed the connection.
[[nodiscard]] std::string describe_end(const Status& end);

[[nodiscard]] inline Status out_of_turn() { return {Code::kCorrupt, "a request that is not allowed here"}; }

// DONE, or FAILED with `outcome`.
[[nodiscard]] Status answer(wire::Connection& connection, const wire::Connection::Frame& request,
                            const Status& outcome);

}   // namespace forebay::server
