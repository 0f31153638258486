// What may be opened in a staging area: what belongs to this user, is of the kind that it should be, and can be written
// to by nobody else.
//
// Errors: kPermissionDenied with the reason; those of looking at it. Nothing is opened before it was looked at, so that
// no pipe and no device of somebody else's is. Thread-safety: all of it. Blocks on file I/O.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "io/file.h"

namespace forebay::recover {

// `name` in `directory`, "." for itself. A symbolic link is none of the kinds.
[[nodiscard]] Status check_trusted(io::Directory& directory, const std::string& name, io::Facts::Kind kind);

[[nodiscard]] Result<std::unique_ptr<io::File>> open_trusted(io::Directory& directory, const std::string& name,
                                                             io::OpenMode mode);

}   // namespace forebay::recover
