// A directory that root makes for a user.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"

namespace forebay::io {

// Makes `path` with mode 0700, and gives it to `user` and `group`. One that is there already stays as it is. What
// somebody else puts in its place meanwhile is given to nobody, unless it is a directory. Blocks as mkdir(2).
[[nodiscard]] Status make_owned_directory(const std::string& path, uid_t user, gid_t group);

}   // namespace forebay::io
