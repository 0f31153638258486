// Record locks of this process (fcntl, F_SETLK): the system ends those on a file when the process closes any descriptor
// of it.
//
// Thread-safety: any thread. Blocks on reading /proc only.
#pragma once

#include "io/file.h"

namespace forebay::io {

// Whether the process has any on this file, as far as /proc/locks tells; true if that cannot be read. Device numbers
// are not compared: some file systems show others there than stat(2) does.
[[nodiscard]] bool has_record_locks(const Identity& identity) noexcept;

}   // namespace forebay::io
