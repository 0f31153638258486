// Record locks of this process (fcntl, F_SETLK). The system ends all of them on a file when the process closes any of
// its descriptors. Thread-safety: any thread. Blocks on reading /proc only.
#pragma once

#include "io/file.h"

namespace forebay::io {

// Returns true if /proc/locks lists any lock of the process on this file, or cannot be read. Compares no device
// numbers, because they differ from those of stat(2) on some file systems.
[[nodiscard]] bool has_record_locks(const Identity& identity) noexcept;

}   // namespace forebay::io
