// Opens existing files without HDF5's lock, for a process whose file another process has locked for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/descriptor.h"
#include "io/file.h"

namespace forebay::io {

// Opens a file or folder with these flags of open(2), close-on-exec. Returns its descriptor, or -1 with errno set.
// Blocks while another process has a lease on the file, as open(2) does: a deferred close drains the file meanwhile.
// Does not wait for the other end of a pipe that has replaced the file.
[[nodiscard]] int open_patiently(const std::string& path, int flags) noexcept;

struct OpenedExisting {
    std::shared_ptr<Descriptor> descriptor;
    Identity identity;
};
enum class Access : std::uint8_t { kReadWrite, kRead };
// Errors: kNotFound, kPermissionDenied, and kInvalidArgument if `path` is no regular file. Blocks as open(2) does.
[[nodiscard]] Result<OpenedExisting> open_existing(const std::string& path, Access access = Access::kReadWrite);

}   // namespace forebay::io
