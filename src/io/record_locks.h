// Record locks (fcntl, F_SETLK), which all end when the process closes any descriptor of the file. Any thread.
#pragma once

#include "io/file.h"

namespace forebay::io {

// Returns true if /proc/locks lists a lock of the process on this inode, or is unreadable. Device numbers may differ
// from those of stat(2).
[[nodiscard]] bool has_record_locks(const Identity& identity) noexcept;

}   // namespace forebay::io
