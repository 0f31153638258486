#pragma once

namespace forebay::io {

// Returns true if this process was forked and has executed no program since; it may then end without exit handlers.
// Also returns true if the system does not tell. Reads /proc.
[[nodiscard]] bool is_forked() noexcept;

}   // namespace forebay::io
