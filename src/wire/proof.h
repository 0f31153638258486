// Proves to both ends of a connection that they share a key, and seals all later frames (docs/protocol.md, "Who is let
// in"). Each side sends 32 random bytes; the keys of the seals are derived from these and the shared key. So a frame
// without the key, or of another session, does not match. Thread-safety: as the connection. Blocks on the other side.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "wire/connection.h"

namespace forebay::wire {

inline constexpr std::uint64_t kBeforeHello = 0;   // request number of PROVE

// The client begins. On return the server has proved that it has the key. kPermissionDenied: it has another key.
[[nodiscard]] Status prove_to_server(Connection& connection, const SealKey& key);
// Answers the client's first frame. The client has proved that it has the key when its next frame matches its seal.
[[nodiscard]] Status prove_to_client(Connection& connection, const SealKey& key);

}   // namespace forebay::wire
