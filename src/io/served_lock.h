// The mark that a staging server leaves on a file while it writes it for clients (server_mode=drain): a shared lock of
// one of the last bytes that a file can have (fcntl, F_OFD_SETLK), which ends with the server's descriptor. A file may
// be spread over several servers. Each has a number then, which the client gives it, and a byte of its own.
//
// The server may still be at a client's last write when that client has died. Whoever recovers the file, empties it, or
// writes it by himself after the server has gone, waits for the end of the mark: then no such write comes any more. A
// file system without such locks, or one on which the client's own lock of the file excludes this one, has no mark.
// Thread-safety: any thread. Blocking: `await_unserved` as it says, `mark_served` as the file system does.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "base/status.h"
#include "io/descriptor.h"

namespace forebay::io {

// A staging server ends a write for a client that has died, and its mark with it.
inline constexpr std::chrono::seconds kServerEnds{10};

// Their numbers are below that.
inline constexpr std::uint32_t kServersMax = 64;

// Lasts until the descriptor is closed. False: the mark cannot be had.
bool mark_served(Descriptor& descriptor, std::uint32_t server = 0) noexcept;
// Until nobody else has the file marked, or no server of that number has, or it cannot be told. kUnavailable,
// retryable: somebody still has it.
[[nodiscard]] Status await_unserved(Descriptor& descriptor, std::chrono::milliseconds at_most,
                                    std::optional<std::uint32_t> server = {});

}   // namespace forebay::io
