#pragma once

#include <chrono>
#include <functional>

namespace forebay::io {

// Waits for the lock of a file that another process holds. Calls `try_lock(number)` until it returns true, for at most
// `at_most`. Returns false with the errno of the last try; an errno other than EWOULDBLOCK ends the wait at once.
// Blocks. Takes a descriptor while it waits. Thread-safety: any thread.
[[nodiscard]] bool await_lock(int number, std::chrono::milliseconds at_most,
                              const std::function<bool(int number)>& try_lock);

// The same with `flock(number, LOCK_EX | LOCK_NB)`, which is restarted after a signal.
[[nodiscard]] bool await_exclusive_lock(int number, std::chrono::milliseconds at_most);

}   // namespace forebay::io
