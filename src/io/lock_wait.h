#pragma once

#include <chrono>
#include <functional>

namespace forebay::io {

// Calls `try_lock(number)` until it returns true, for at most `at_most`. Returns false with the errno of the last try;
// any but EWOULDBLOCK ends the wait at once. Blocks. Takes a descriptor while it waits. Thread-safety: any thread.
[[nodiscard]] bool await_lock(int number, std::chrono::milliseconds at_most,
                              const std::function<bool(int number)>& try_lock);

// Works like `await_lock` with `flock(number, LOCK_EX | LOCK_NB)`, which is restarted after a signal.
[[nodiscard]] bool await_exclusive_lock(int number, std::chrono::milliseconds at_most);

}   // namespace forebay::io
