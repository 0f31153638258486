// Opens only entries of a staging area that belong to this user, are of the expected kind, and not writable by others.
// Looks at an entry before it opens it, so it never opens another user's pipe or device. Errors: kPermissionDenied with
// the reason; those of the system. Thread-safe. Blocks on file I/O.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "io/file.h"

namespace forebay::recover {

// Checks `name` in `directory`; "." is the directory itself. A symbolic link always fails.
[[nodiscard]] Status check_trusted(io::Directory& directory, const std::string& name, io::Facts::Kind kind);

[[nodiscard]] Result<std::unique_ptr<io::File>> open_trusted(io::Directory& directory, const std::string& name,
                                                             io::OpenMode mode);

}   // namespace forebay::recover
