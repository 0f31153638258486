// A name that one process at a time has: while it lives, and does not give it up.
//
// A file of that name, with a lock that ends with the process (process_lock.h), which is removed when the claim is
// given up. After a crash the file stays, unlocked, and means nothing. Thread-safety: none needed, a claim is a value.
// Nothing blocks.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "io/process_lock.h"

namespace forebay::io {

class Claim {
  public:
    // kUnavailable with EBUSY: somebody has the name; the message says who. Other errors: it cannot be known. The
    // folder is made if it is missing (0700); its parent has to be there.
    [[nodiscard]] static Result<std::unique_ptr<Claim>> make(const std::string& folder, const std::string& name);
    // In a forked child it gives nothing up.
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

    // Whether a process has the name now, in whatever PID namespace, this one included. An error: it cannot be known,
    // for want of descriptors, for example.
    [[nodiscard]] static Result<bool> is_held(const std::string& folder, const std::string& name);

    // Removes the files that processes which have died left. Best effort.
    static void remove_leftovers(const std::string& folder);

  private:
    Claim(std::string path, std::unique_ptr<ProcessLock> lock) noexcept
        : path_(std::move(path)), lock_(std::move(lock)) {}

    const std::string path_;
    const std::unique_ptr<ProcessLock> lock_;
};

}   // namespace forebay::io
