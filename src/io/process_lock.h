// A lock that ends with its process, more exactly with this image of the process. flock belongs to the open file
// description, which a mapping of the file keeps alive. So this opens, locks and maps the file, closes its descriptor,
// and hides the mapping from children (MADV_DONTFORK). The program has no descriptor of it to close. The lock ends with
// exec, also from a thread, and with the death of the last thread; neither a zombie nor a forked child holds it. It has
// the same meaning in every PID namespace. Measured on ext4 and tmpfs (test/unit/io/process_lock_test.cc).
// A process that asks for the holder takes a shared lock for a moment, so any number may ask at once. A taker that
// meets a shared lock tries again. Files of older versions are empty, and locked with fcntl while their process lives.
// This lock is still found; without it, such a file tells nothing. Thread-safety: all functions. No call waits for
// another process. A fork waits while another thread takes a lock.
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
    // Locks `name` in the open directory `folder`, and makes a missing file. kUnavailable with EBUSY: another process
    // holds it, which the message names by its own number ("process 4711"); with EAGAIN: others look at it all the
    // time. Other errors: no locks, mappings, memory or descriptors. Without a mapping, an empty file is removed again.
    [[nodiscard]] static Result<std::unique_ptr<ProcessLock>> take(int folder, const std::string& name,
                                                                   const std::string& path);
    // Ends the lock; the file stays.
    ~ProcessLock() override;

    // Returns false in a forked child of the taker: the object has no effect there.
    [[nodiscard]] bool is_of_this_process() const noexcept;

    // See Directory::holder_of and Directory::keep_free.
    [[nodiscard]] static Result<Holder> holder(int folder, const std::string& name, const std::string& path);
    [[nodiscard]] static Result<std::unique_ptr<Lock>> keep_free(int folder, const std::string& name,
                                                                 const std::string& path);
    // Looks up the holder by the path of the directory, without memory. Returns 0, or an errno if it cannot look now;
    // then `holder` is untold. A missing directory has no holder. A link, a pipe or a file that this user may not open
    // is untold, because no process of this user has locked it.
    [[nodiscard]] static int look_at(const std::string& directory, const std::string& name, Holder& holder) noexcept;
    // Waits for the end of the lock. Returns false after `at_most`, or if the lock cannot be checked.
    [[nodiscard]] static bool await_end(const std::string& directory, const std::string& name,
                                        std::chrono::milliseconds at_most);

    // Returns true if this errno of the open means that the file is no lock of this user.
    [[nodiscard]] static bool is_no_lock(int error) noexcept;

  private:
    ProcessLock(void* page, std::size_t bytes) noexcept;

    void* const page_;
    const std::size_t bytes_;
    const pid_t process_;
    const std::uint64_t forks_;
};

// Returns a count that rises in every forked child.
[[nodiscard]] std::uint64_t forks_so_far() noexcept;

}   // namespace forebay::io
