// A process that outlives this one.
//
// It has a session of its own, so no signal of a terminal reaches it; /dev/null as its standard streams; and default
// signals. It is made by posix_spawn: nothing of this process runs in it. The rest it does itself, first of all
// (settle_detached): a posix_spawn that closes descriptors and changes the folder came with glibc 2.34.
// Thread-safety: any thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::io {

// In the process: the descriptor on which it writes one byte once it is ready.
inline constexpr int kReadyDescriptor = 3;

// Starts arguments[0], a path, with this process's environment. Ok once it is ready. kUnavailable: it has ended before,
// or was not ready in time; it may go on then. Blocks for so long at most.
[[nodiscard]] Status start_detached(const std::vector<std::string>& arguments, std::chrono::milliseconds at_most);

// In the process, before it says that it is ready: closes all descriptors but the standard ones and kReadyDescriptor,
// so nobody waits for its end of a pipe, and goes to the root, so it keeps no file system busy.
[[nodiscard]] Status settle_detached();

}   // namespace forebay::io
