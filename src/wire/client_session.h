// The beginning of a client's session: connect, PROVE to another machine, HELLO, OPEN (docs/protocol.md).
//
// Thread-safety: pure functions. Blocking: until the server has answered, for `patience_s` and half a minute at most
// (0: without end); the same bound holds for each later wait of the connection.
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

// What the server has refused comes as it says. kNotFound: nobody listens there. kPermissionDenied: it belongs to
// another user. kUnavailable: it does not answer, or this machine cannot prove who it is to another one. `unanswered`:
// whether OPEN was sent and not refused, so that the server may carry it out, and when is not known. `locked`: through
// what this process has the file locked, or will have: a server on this machine keeps that lock (io/handed_lock.h).
[[nodiscard]] Result<ClientSession> open_session(const io::Address& server, std::uint64_t patience_s,
                                                 const Open& message, bool* unanswered = nullptr,
                                                 const std::shared_ptr<io::Descriptor>& locked = nullptr);

// The beginning alone: HELLO was request 1, and OPEN comes next. Errors as above. Who listens there is known before
// anything is waited for. No wait is longer than `patience` (0: without end), and at `deadline` it has failed, or after
// half a minute.
[[nodiscard]] Result<ClientSession> begin_session(const io::Address& server, std::chrono::seconds patience,
                                                  std::optional<std::chrono::steady_clock::time_point> deadline = {});

// One request and its answer; a FAILED is returned as the failure that it tells of. kCorrupt: another answer.
[[nodiscard]] Result<Connection::Frame> call(Connection& connection, std::uint64_t request, Type type,
                                             io::Bytes payload, Type answer);

// The answer alone, of the only request that has none yet.
[[nodiscard]] Result<Connection::Frame> answer_to(Connection& connection, std::uint64_t request, Type answer);

// For OPEN. kUnsupported: the path is not absolute, or too long for a server.
[[nodiscard]] Status check_path(const std::string& path);
// OPEN of this file. kUnsupported: as above; or the file lies on this machine, and the server on another one.
[[nodiscard]] Result<Open> describe(io::File& file, Purpose purpose, const io::Address& server);

}   // namespace forebay::wire
