// Waiting for a lock of a file that somebody else has, for a bounded time.
//
// Thread-safety: any thread. Takes a descriptor while it waits.
#pragma once

#include <chrono>
#include <functional>

namespace forebay::io {

// Tries `try_lock(number)` until it is true, for so long at most. False: errno is that of the last try; one other than
// EWOULDBLOCK ends it at once. Blocks.
[[nodiscard]] bool await_lock(int number, std::chrono::milliseconds at_most,
                              const std::function<bool(int number)>& try_lock);

// The same with `flock(number, LOCK_EX | LOCK_NB)`, which is restarted after a signal.
[[nodiscard]] bool await_exclusive_lock(int number, std::chrono::milliseconds at_most);

}   // namespace forebay::io
