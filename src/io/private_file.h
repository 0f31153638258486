// Small files that only their user can read, such as keys.
//
// Thread-safety: pure functions. Blocking: on the file system.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/status.h"

namespace forebay::io {

// Returns the content of a regular file that belongs to this process's user and gives no rights to other users.
// kNotFound: there is no such file. kPermissionDenied: it belongs to another user, or others have rights to it.
// kInvalidArgument: it is no regular file, or has more than `bytes_max` bytes.
[[nodiscard]] Result<std::string> read_private_file(const std::string& path, std::size_t bytes_max);

// Makes such a file, and its directory (mode 0700) if it is missing. The file is complete when it gets its name. A file
// that has the name already stays, and the call succeeds. So when several processes make the file at once, all of them
// find the same one. Errors: those of the system calls. A process that is killed may leave a file PATH.XXXXXX.
[[nodiscard]] Status make_private_file(const std::string& path, std::string_view text);

// Makes such a file, or puts it in the place of the one that has the name. Others see the old content or the new one.
// Its directory has to be there. Errors: those of the system calls.
[[nodiscard]] Status replace_private_file(const std::string& path, std::string_view text);

// Makes a directory with mode 0700 if it is missing. kPermissionDenied: it belongs to another user, or others have
// rights to it. kInvalidArgument: `path` is a link, or no directory. The one above has to be there.
[[nodiscard]] Status make_private_directory(const std::string& path);

}   // namespace forebay::io
