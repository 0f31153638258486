// Who is at the other end of a connection to another machine, and seals for what follows (docs/protocol.md).
//
// Each side sends a credential that only the other's user can read, with a secret in it. Out of both secrets come the
// keys of the seals. So whoever stands in between has no key, and each side knows that the other one has read its
// credential once the first sealed frame fits.
// Thread-safety: as the connection. Blocking: on the credentials' authority, and on the other side.
#pragma once

#include "base/status.h"
#include "wire/connection.h"
#include "wire/credentials.h"

namespace forebay::wire {

// The client begins. kPermissionDenied: the server is another user's, and not root's either.
[[nodiscard]] Status prove_to_server(Connection& connection, Credentials& credentials);
// The answer to `first`, which is the connection's first frame. kPermissionDenied: the client is another user's; it was
// told so.
[[nodiscard]] Status prove_to_client(Connection& connection, Credentials& credentials, const Connection::Frame& first);

}   // namespace forebay::wire
