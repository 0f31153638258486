// Small files that only their user can read, such as keys. Thread-safety: pure functions. Blocks on the file system.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::io {

// Returns the content of a regular file of this user that gives no rights to others. kNotFound: missing.
// kPermissionDenied: another user's, or others have rights. kInvalidArgument: no regular file, or too long (bytes_max).
[[nodiscard]] Result<std::string> read_private_file(const std::string& path, std::size_t bytes_max);

// Makes such a file, and a missing directory (0700). It is complete when it gets its name. An existing one stays, with
// success, so concurrent makers find the same file. Errors: of system calls. A killed process may leave PATH.XXXXXX.
[[nodiscard]] Status make_private_file(const std::string& path, std::string_view text);

// Makes or replaces such a file in an existing directory, atomically. Errors: those of the system calls.
[[nodiscard]] Status replace_private_file(const std::string& path, std::string_view text);

// Makes a directory with mode 0700 if it is missing. kPermissionDenied: it belongs to another user, or others have
// rights to it. kInvalidArgument: `path` is a link, or no directory. Its parent must exist.
[[nodiscard]] Status make_private_directory(const std::string& path);

}   // namespace forebay::io
