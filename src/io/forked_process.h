#pragma once

namespace forebay::io {

// Returns true if this process was forked without a later exec (it may end without exit handlers), or /proc fails.
[[nodiscard]] bool is_forked() noexcept;

}   // namespace forebay::io
