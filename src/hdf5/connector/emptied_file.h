// Voids the logs of a file that another driver than forebay's makes or empties, as forebay's drivers do themselves.
// Invariant: after such an open no bytes of a dead process are replayed over the new file. Some opens leave the file as
// it is, such as core's without a backing store, and then its logs stay. So only a file that was made, or whose times
// changed in the open, counts. Thread-safety: one thread at a time.
#pragma once

#include <sys/stat.h>

#include <optional>

#include "base/status.h"
#include "io/file.h"

namespace forebay::hdf5 {

class EmptiedFile {
  public:
    // Call this before the open, with MPI before any rank can open the file. Blocks as stat(2).
    explicit EmptiedFile(const char* path) noexcept;

    // Call this after the open has succeeded, with the same path. False: the open has left the file as it was, or there
    // is none.
    [[nodiscard]] bool is_touched(const char* path) const noexcept { return touched(path).has_value(); }
    // Call this like `is_touched`. An error: logs could not be removed. Blocks while a process that is not known to be
    // dead may write the file, within option patience.
    [[nodiscard]] Status void_logs(const char* path) const;

  private:
    [[nodiscard]] std::optional<io::Identity> touched(const char* path) const noexcept;

    struct stat before_{};   // of an existing file
    const bool existed_;
};

}   // namespace forebay::hdf5
