// The requests that a session's client may make after its OPEN: one class for each purpose (docs/protocol.md,
// "Sessions"). Thread-safety: the session's thread makes all calls. Blocking: as the calls of the file do.
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

    // Carries out and answers one request. An error ends the session. kCorrupt: it is malformed, or not allowed.
    [[nodiscard]] virtual Result<Next> serve(const wire::Connection::Frame& request) = 0;
    // The last call: the session has ended with `end`, its socket is shut down. Returns a line for the operator, or "".
    [[nodiscard]] virtual std::string end(const Status& end);
};

// Returns the operator's line for a session without a file left, or "" if the client closed it.
[[nodiscard]] std::string describe_end(const Status& end);

[[nodiscard]] inline Status out_of_turn() { return {Code::kCorrupt, "a request that is not allowed here"}; }

// Sends DONE, or FAILED with `outcome`.
[[nodiscard]] Status answer(wire::Connection& connection, const wire::Connection::Frame& request,
                            const Status& outcome);

}   // namespace forebay::server
