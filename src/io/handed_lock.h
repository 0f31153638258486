// HDF5's lock of a file (flock, exclusive) that another process has, and that this one keeps once that process is gone.
//
// A program locks the file, and a staging server writes it. The lock must not end with the program while the server
// still writes. On one machine the program passes its descriptor to the server: both then have the same open file, and
// its lock lasts until the last of them has closed it. Without that descriptor the server takes the lock through its
// own one, as soon as it sees that the program is gone; another process may be faster.
//
// A program without locks has none here either until it is gone. A file system without locks is no error.
// Ownership: closes the descriptor that was passed. Thread-safety: all calls from any thread. Blocking:
// `keep` as it says.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>

#include "io/descriptor.h"
#include "io/file.h"

namespace forebay::io {

class HandedLock {
  public:
    // `own`: this process's descriptor of the file `identity`. `passed`: the other process's; -1: none came. One of
    // another file is closed.
    HandedLock(std::shared_ptr<Descriptor> own, const Identity& identity, int passed) noexcept;
    ~HandedLock();
    HandedLock(const HandedLock&) = delete;
    HandedLock& operator=(const HandedLock&) = delete;

    // The other process is gone, or has lost this one. From now on this process has the lock, if that returns true.
    // False: a process that is neither of them has it, or the other process has it and has not passed it. A process
    // that ends may end its connections before its locks: so long that is waited for.
    [[nodiscard]] bool keep(std::chrono::milliseconds at_most = std::chrono::milliseconds(0));
    // The lock of the other process does not end before this object.
    [[nodiscard]] bool is_passed() const noexcept { return passed_ >= 0; }
    // Nothing is written any more: ends the lock, for the other process, too.
    void end() noexcept;

  private:
    [[nodiscard]] bool keep_now() noexcept;

    const std::shared_ptr<Descriptor> own_;
    int passed_;
    std::mutex mutex_;
    bool kept_ = false;   // guarded by mutex_
};

}   // namespace forebay::io
