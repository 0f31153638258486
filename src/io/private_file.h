// Small files that only their user can read, such as keys.
//
// Thread-safety: pure functions. Blocking: on the file system.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::io {

// The content of a regular file that belongs to the user of this process, and to which nobody else has any right.
// kNotFound: there is no such file. kPermissionDenied: it belongs to another user, or others have rights to it.
// kInvalidArgument: it is no regular file, or has more than `bytes_max` bytes.
[[nodiscard]] Result<std::string> read_private_file(const std::string& path, std::size_t bytes_max);

// Makes such a file, with its directory (mode 0700) if there is none. The file is complete when it gets its name. If
// there is a file of that name already, that file stays, and this is no error: of several processes that make the file
// at once one wins.
[[nodiscard]] Status make_private_file(const std::string& path, std::string_view text);

}   // namespace forebay::io
