// Small files that only their user can read, such as keys. Thread-safety: pure functions. Blocks on the file system.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::io {

// Returns the content of a regular file that belongs to this process's user and gives no rights to other users.
// kNotFound: the file does not exist. kPermissionDenied: it belongs to another user, or others have rights to it.
// kInvalidArgument: it is no regular file, or has more than `bytes_max` bytes.
[[nodiscard]] Result<std::string> read_private_file(const std::string& path, std::size_t bytes_max);

// Makes such a file, and its directory (mode 0700) if it is missing. The file is complete when it gets its name. If the
// name exists, the file stays, and the call succeeds. So processes that make the file at once all find the same one.
// Errors: those of the system calls. A killed process may leave a file PATH.XXXXXX.
[[nodiscard]] Status make_private_file(const std::string& path, std::string_view text);

// Makes or replaces such a file in an existing directory, atomically. Errors: those of the system calls.
[[nodiscard]] Status replace_private_file(const std::string& path, std::string_view text);

// Makes a directory with mode 0700 if it is missing. kPermissionDenied: it belongs to another user, or others have
// rights to it. kInvalidArgument: `path` is a link, or no directory. Its parent must exist.
[[nodiscard]] Status make_private_directory(const std::string& path);

}   // namespace forebay::io
