// A name that one process at a time has: while it lives, and does not give it up.
//
// An empty file of that name, locked (fcntl, so that a forked child does not inherit the lock), which is removed when the claim is
// given up. After a crash the file stays, unlocked, and means nothing. A process must not claim a name twice: the system takes
// the lock away with the first of the two. Thread-safety: none needed, a claim is a value. Nothing blocks.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "base/status.h"

namespace forebay::io {

class Claim {
  public:
    // kUnavailable with EBUSY: another process has the name; the message names it. Other errors: it cannot be known. The folder
    // is made if it is missing (0700); its parent has to be there.
    [[nodiscard]] static Result<std::unique_ptr<Claim>> make(const std::string& folder, const std::string& name);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

    // Whether another process has the name now, whatever namespace it is in. Must not be asked of a name that this process has: that
    // would take the claim away from it.
    [[nodiscard]] static bool is_held(const std::string& folder, const std::string& name) noexcept;

    // Removes the files that processes which have died left. Best effort.
    static void remove_leftovers(const std::string& folder);

  private:
    Claim(int folder, int file, std::string name) noexcept;

    int folder_, file_;
    std::string name_;
    pid_t process_;   // that has it: not a child that was forked meanwhile
};

}   // namespace forebay::io
