#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"

namespace forebay::io {

// Makes `path` for a user, as root: mode 0700, owner `user` and `group`. An existing one stays unchanged. Blocks as
// mkdir(2). kPermissionDenied: other users could replace it, as its parent is writable for others and not sticky.
[[nodiscard]] Status make_owned_directory(const std::string& path, uid_t user, gid_t group);

}   // namespace forebay::io
