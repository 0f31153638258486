// A process that outlives this one. Its own session keeps it from signals of a terminal; its standard streams are
// /dev/null, and its signals have default actions. posix_spawn creates it, so no code of this process runs in it. It
// closes descriptors and changes the folder itself (settle_detached); posix_spawn can since glibc 2.34. Any thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::io {

// The descriptor on which the new process writes one byte when it is ready.
inline constexpr int kReadyDescriptor = 3;

// Starts arguments[0], a path, with this process's environment, and returns ok once the process is ready. Returns
// kUnavailable if the process ends before, or is late; it may then go on. Blocks for at most `at_most`.
[[nodiscard]] Status start_detached(const std::vector<std::string>& arguments, std::chrono::milliseconds at_most);

// Runs in the new process before it is ready. Closes all descriptors except the standard ones and kReadyDescriptor, so
// no reader of a pipe waits for this process. Changes to the root, so it keeps no file system busy.
[[nodiscard]] Status settle_detached();

}   // namespace forebay::io
