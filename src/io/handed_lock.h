// HDF5's exclusive lock (flock) of a file that another process holds, and that this process keeps after its end. A
// program locks the file, and a staging server writes it; the lock must outlast the program while the server writes. On
// one machine the program passes its descriptor. Both then have the same open file, whose lock lasts until both have
// closed it. Otherwise the server takes the lock through its own descriptor as soon as it sees the program's end;
// another process may be faster. A living program without locks has none here either. A file system without locks is no
// error. Ownership: closes the passed descriptor. Thread-safety: all calls from any thread. Only `keep` blocks.
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

    // Takes over the lock after the other process's end or disconnection, within `at_most`: connections may close
    // before locks. False: a third process holds the lock, or the other process does, without having passed it.
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
