// The beginning of a client's session: connect, PROVE to another machine, HELLO, OPEN (docs/protocol.md).
// Thread-safe: the functions share no state. Blocks until the server has answered. Each wait, also a later one of the
// connection, ends after `patience_s` + 30 s at the latest (0: without limit).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/status.h"
#include "io/descriptor.h"
#include "io/socket.h"
#include "wire/connection.h"

namespace forebay::wire {

struct ClientSession {
    std::unique_ptr<Connection> connection;   // HELLO and OPEN were requests 1 and 2
    Welcome welcome;
    Opened opened;
};

// Passes on the server's refusals. kNotFound: no server listens there. kPermissionDenied: the server belongs to another
// user. kUnavailable: it does not answer, or this machine cannot prove its identity. `unanswered` becomes true if OPEN
// was sent and not refused: the server may carry it out at an unknown time. `locked`: the descriptor by which this
// process has, or will have, the file locked; a server on this machine keeps that lock (io/handed_lock.h).
[[nodiscard]] Result<ClientSession> open_session(const io::Address& server, std::uint64_t patience_s,
                                                 const Open& message, bool* unanswered = nullptr,
                                                 const std::shared_ptr<io::Descriptor>& locked = nullptr);

// Begins a session without OPEN: HELLO was request 1, and OPEN comes next. Errors as above. Checks the listening user
// before any wait. No wait is longer than `patience` (0: no such limit). HELLO fails at `deadline`, or after 30 s.
[[nodiscard]] Result<ClientSession> begin_session(const io::Address& server, std::chrono::seconds patience,
                                                  std::optional<std::chrono::steady_clock::time_point> deadline = {});

// Sends one request and returns its answer. Returns the failure in a FAILED. kCorrupt: another answer.
[[nodiscard]] Result<Connection::Frame> call(Connection& connection, std::uint64_t request, Type type,
                                             io::Bytes payload, Type answer);

[[nodiscard]] Result<Connection::Frame> answer_to(Connection& connection, std::uint64_t request, Type answer);

// Checks a path for OPEN. Returns kUnsupported if it is not absolute, or too long for a server.
[[nodiscard]] Status check_path(const std::string& path);
// Makes the OPEN of this file. kUnsupported: as above, or the file is local and the server is not.
[[nodiscard]] Result<Open> describe(io::File& file, Purpose purpose, const io::Address& server);

}   // namespace forebay::wire
