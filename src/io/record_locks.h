// Record locks of this process (fcntl, F_SETLK), which all end when the process closes any descriptor of the file.
// Thread-safety: any thread. Blocks on reading /proc only.
#pragma once

#include "io/file.h"

namespace forebay::io {

// Returns true if /proc/locks lists a lock of the process on this inode, or cannot be read. Compares no device numbers:
// on some file systems they differ from those of stat(2).
[[nodiscard]] bool has_record_locks(const Identity& identity) noexcept;

}   // namespace forebay::io
