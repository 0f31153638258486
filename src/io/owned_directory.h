// A directory that root makes for a user.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"

namespace forebay::io {

// Makes `path` with mode 0700, and gives it to `user` and `group`. One that is there already stays as it is.
// kPermissionDenied: others could put another directory in its place, since they may rename what is in the one above
// (it is writable for others, and not sticky). Blocks as mkdir(2).
[[nodiscard]] Status make_owned_directory(const std::string& path, uid_t user, gid_t group);

}   // namespace forebay::io
