// A name that one process at a time holds, until it gives the name up or dies. It is a file of this name with a lock
// that ends with the process (process_lock.h). Giving up removes the file. After a crash it stays, unlocked, and has no
// meaning. Thread-safety: a claim is a value. No call blocks.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "io/process_lock.h"

namespace forebay::io {

class Claim {
  public:
    // Returns kUnavailable with EBUSY, and a message with the holder, if another process holds the name. Other errors
    // mean that the holder is unknown. Makes a missing folder (0700); its parent must exist.
    [[nodiscard]] static Result<std::unique_ptr<Claim>> make(const std::string& folder, const std::string& name);
    // A forked child's destructor gives nothing up.
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

    // Returns true if any process, in any PID namespace, holds the name. Fails if unknown, as without descriptors.
    [[nodiscard]] static Result<bool> is_held(const std::string& folder, const std::string& name);

    // Removes the files of dead processes. Best effort.
    static void remove_leftovers(const std::string& folder);

  private:
    Claim(std::string path, std::unique_ptr<ProcessLock> lock) noexcept
        : path_(std::move(path)), lock_(std::move(lock)) {}

    const std::string path_;
    const std::unique_ptr<ProcessLock> lock_;
};

}   // namespace forebay::io
