// Record locks of this process (fcntl, F_SETLK), which all end when the process closes any descriptor of the file.
// Thread-safety: any thread. Blocks on reading /proc/self only.
#pragma once

#include "io/file.h"

namespace forebay::io {

// Returns true if this process holds a record lock on the file, or if /proc cannot tell. The kernel shows a lock at the
// descriptor that took it (proc(5), fdinfo), so this looks at every descriptor of the process. /proc/locks lists all
// locks, but a reader stops all locking on the node for milliseconds. Compares no device numbers: on some file systems
// they differ from those of stat(2).
[[nodiscard]] bool has_record_locks(const Identity& identity) noexcept;

}   // namespace forebay::io
