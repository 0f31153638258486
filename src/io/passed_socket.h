// Connections that one process passes to another, through a pair of sockets between both, each with a note.
//
// Ownership: the receiver owns what it gets; the sender keeps its own. Thread-safety: one thread for each end at a
// time. Blocking: as each call says. Source: unix(7), SCM_RIGHTS.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "io/socket.h"

namespace forebay::io {

inline constexpr std::size_t kNoteMax = 511;

struct PassedSocket {
    std::unique_ptr<Socket> socket;   // null: the note has come alone
    std::string note;
};

// The two ends, which the caller closes.
[[nodiscard]] Result<std::array<int, 2>> make_channel();

// `connection`: null: the note alone, which is cut behind kNoteMax bytes. kNo: EAGAIN instead of waiting until the
// other process takes them. EPIPE, ECONNRESET: it takes no more.
enum class Waits : bool { kNo, kYes };
[[nodiscard]] Status pass(int channel, const Socket* connection, std::string_view note, Waits waits = Waits::kNo);

// Blocks until something has come; none: the other end is closed. Retryable: a connection did not arrive.
[[nodiscard]] Result<std::optional<PassedSocket>> receive_passed(int channel);

// Whether something has come there, or its end.
[[nodiscard]] bool is_readable(int number) noexcept;

// From now on `pass` at the other end fails with EPIPE. What it has passed before can still be received.
void take_no_more(int channel) noexcept;

}   // namespace forebay::io
