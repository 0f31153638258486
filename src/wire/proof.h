// Proves to both ends of a connection between machines that they have the same key, and seals all later frames
// (docs/protocol.md, "Who is let in").
//
// Each side sends 32 random bytes. The keys of the seals are made of these and the shared key. A frame made without the
// key does not match, nor does one recorded in another session.
// Thread-safety: as the connection. Blocking: on the other side.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "wire/connection.h"

namespace forebay::wire {

inline constexpr std::uint64_t kBeforeHello = 0;   // the request of PROVE

// The client begins. On return the server has proved that it has the key. Returns kPermissionDenied if the
// server's seal does not match: it has another key.
[[nodiscard]] Status prove_to_server(Connection& connection, const SealKey& key);
// Answers the client's first frame. The client has proved that it has the key once its next frame fits its seal.
[[nodiscard]] Status prove_to_client(Connection& connection, const SealKey& key);

}   // namespace forebay::wire
