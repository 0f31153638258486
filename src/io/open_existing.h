// Opening a file that is there, without locking it: of somebody who has locked it for this process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "io/descriptor.h"
#include "io/file.h"

namespace forebay::io {

// Opens a file or folder with these flags of open(2), close-on-exec, and returns its descriptor, or -1 with errno set.
// Blocks while another process has a lease on the file, as open(2) does: after a deferred close the file is drained
// until then. Does not wait for the other end of a pipe that has taken the file's place.
[[nodiscard]] int open_patiently(const std::string& path, int flags) noexcept;

struct OpenedExisting {
    std::shared_ptr<Descriptor> descriptor;
    Identity identity;
};
enum class Access : std::uint8_t { kReadWrite, kRead };
// kNotFound, kPermissionDenied; kInvalidArgument: no regular file. Blocks as open(2) does.
[[nodiscard]] Result<OpenedExisting> open_existing(const std::string& path, Access access = Access::kReadWrite);

}   // namespace forebay::io
