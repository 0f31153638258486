// Who is at the other end of a connection to another machine, and seals for what follows (docs/protocol.md).
//
// Each side sends a credential that only the other's user can read, with a secret in it. Out of both secrets come the
// keys of the seals. So whoever stands in between has no key, and each side knows that the other one has read its
// credential once the first sealed frame fits.
// Before that the client says which user it is, to processes of the user kIdentifiers. A server of root has one of
// those, which has no other rights, and only chooses by that whose process asks for the proof.
// Thread-safety: as the connection. Blocking: on the credentials' authority, and on the other side.
#pragma once

#include "base/status.h"
#include "wire/connection.h"
#include "wire/credentials.h"

namespace forebay::wire {

inline constexpr std::uint64_t kBeforeHello = 0;       // the request of IDENTIFY and PROVE
inline constexpr std::uint32_t kIdentifiers = 65534;   // nobody

// The client begins. kPermissionDenied: the server is another user's, and not root's either.
[[nodiscard]] Status prove_to_server(Connection& connection, Credentials& credentials);
// Receives the client's first frames, and answers them. kPermissionDenied: the client is another user's; it was told
// so.
[[nodiscard]] Status prove_to_client(Connection& connection, Credentials& credentials);

// Whose process has made the credential in an IDENTIFY. kCorrupt: the frame is none; others: the credential cannot be
// read.
[[nodiscard]] Result<std::uint32_t> identified_user(const Connection::Frame& frame, Credentials& credentials);

}   // namespace forebay::wire
