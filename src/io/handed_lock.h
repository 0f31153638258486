// HDF5's exclusive lock (flock) of a file that another process holds, and that this process keeps after that process
// ends.
//
// A program locks the file, and a staging server writes it. The lock must outlast the program while the server still
// writes. On one machine the program passes its descriptor to the server. Both then have the same open file, and its
// lock lasts until both have closed it. Without that descriptor the server takes the lock through its own descriptor as
// soon as it sees the program's end; another process may be faster.
//
// A program without locks has none here either while it lives. A file system without locks is no error. Ownership:
// closes the passed descriptor. Thread-safety: all calls from any thread. Blocking: only `keep`.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>

#include "io/descriptor.h"
#include "io/file.h"

namespace forebay::io {

class HandedLock {
  public:
    // `own` is this process's descriptor of `identity`, `passed` the other one's, or -1. A wrong one is closed.
    HandedLock(std::shared_ptr<Descriptor> own, const Identity& identity, int passed) noexcept;
    ~HandedLock();
    HandedLock(const HandedLock&) = delete;
    HandedLock& operator=(const HandedLock&) = delete;

    // Takes over the lock after the other process has ended or lost its connection. Returns true if this process now
    // holds the lock. Returns false if a third process holds it, or if the other process holds it without having passed
    // it. Waits for at most `at_most`, because an ending process may close its connections before its locks.
    [[nodiscard]] bool keep(std::chrono::milliseconds at_most = std::chrono::milliseconds(0));
    // Returns true if the other process's lock lasts at least as long as this object.
    [[nodiscard]] bool is_passed() const noexcept { return passed_ >= 0; }
    // Ends the lock after the last write, for the other process, too.
    void end() noexcept;

  private:
    [[nodiscard]] bool keep_now() noexcept;

    const std::shared_ptr<Descriptor> own_;
    int passed_;
    std::mutex mutex_;
    bool kept_ = false;   // guarded by mutex_
};

}   // namespace forebay::io
