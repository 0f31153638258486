// That the other end of a connection to another machine has the same key, and seals for what follows
// (docs/protocol.md, "Who is let in").
//
// Each side sends 32 random bytes. Out of these and the shared key come the keys of the seals. So nobody without the
// key can make a frame that fits, and what was recorded of another session does not fit either.
// Thread-safety: as the connection. Blocking: on the other side.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "wire/connection.h"

namespace forebay::wire {

inline constexpr std::uint64_t kBeforeHello = 0;   // the request of PROVE

// The client begins. On return the server has proved that it has the key. kPermissionDenied: it has another one.
[[nodiscard]] Status prove_to_server(Connection& connection, const SealKey& key);
// Answers the client's first frame. The client has proved that it has the key once its next frame fits its seal.
[[nodiscard]] Status prove_to_client(Connection& connection, const SealKey& key);

}   // namespace forebay::wire
