// A lock that ends with the process that holds it: with this image of it, to be exact.
//
// flock belongs to the open file description, and a mapping of the file keeps that description. So the file is opened,
// locked and mapped, its descriptor is closed, and the mapping is not inherited (MADV_DONTFORK). There is no descriptor
// that the program could close. The lock ends with exec, also from a thread, and with the death of the last thread; a
// zombie holds none. A forked child does not keep it. It means the same in every PID namespace. Measured on ext4 and
// tmpfs (test/unit/io/process_lock_test.cc).
//
// Whoever asks tries for a shared lock for a moment, so any number may ask at once. A taker that meets one tries again.
// Files of versions before it are empty, and locked with fcntl while their process lives: that is still found, but such
// a file that is not locked tells nothing. Thread-safety: all of it. Nothing waits for another process. A fork waits
// until a lock that is being taken is taken.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/file.h"

namespace forebay::io {

class ProcessLock final : public Lock {
  public:
    // Of the file `name` in the directory that `folder` is open on; it is made if it is missing. kUnavailable with
    // EBUSY: somebody has it, and the message says who ("process 4711", by its own number). Other errors: the system
    // cannot lock or map there.
    [[nodiscard]] static Result<std::unique_ptr<ProcessLock>> take(int folder, const std::string& name,
                                                                   const std::string& path);
    // The lock ends; the file stays.
    ~ProcessLock() override;

    // False in a forked child of the process that took it: there it is nothing.
    [[nodiscard]] bool is_of_this_process() const noexcept;

    // As Directory::holder_of and Directory::keep_free.
    [[nodiscard]] static Result<Holder> holder(int folder, const std::string& name, const std::string& path);
    [[nodiscard]] static Result<std::unique_ptr<Lock>> keep_free(int folder, const std::string& name,
                                                                 const std::string& path);
    // The same by the path of the directory, without memory. Returns 0, or the errno of why it cannot be looked at now;
    // then `holder` is untold. A directory that is gone has no holder, and no process of this user has locked a link, a
    // pipe or a file that this user may not open: untold.
    [[nodiscard]] static int look_at(const std::string& directory, const std::string& name, Holder& holder) noexcept;
    // Waits until no process has it, at most so long. False: a process has it still, or it cannot be looked at.
    [[nodiscard]] static bool await_end(const std::string& directory, const std::string& name,
                                        std::chrono::milliseconds at_most);

    // Such a file, by the errno of opening it.
    [[nodiscard]] static bool is_no_lock(int error) noexcept;

  private:
    ProcessLock(void* page, std::size_t bytes) noexcept;

    void* const page_;
    const std::size_t bytes_;
    const pid_t process_;
    const std::uint64_t forks_;
};

// Raised in every forked child.
[[nodiscard]] std::uint64_t forks_so_far() noexcept;

}   // namespace forebay::io
