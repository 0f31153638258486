// The key that staging servers and programs on several machines share: a file that only its user can read.
//
// The file has 64 hexadecimal digits and a line feed. Its owner is the user of this process, and its mode gives nobody
// else any right. Thread-safety: pure functions. Blocking: on the file system.
#pragma once

#include <string>

#include "base/status.h"
#include "wire/frame_seal.h"

namespace forebay::wire {

// Returns the path that option server_key gives, or .config/forebay/server.key in the home directory if the option is
// empty. Returns an empty string if HOME is not an absolute path then.
[[nodiscard]] std::string key_file(const std::string& option);

// kNotFound: there is no such file. kPermissionDenied: it belongs to another user, or others have rights to it.
// kInvalidArgument: its content is no key.
[[nodiscard]] Result<SealKey> read_key(const std::string& path);

// Makes the file with a new key, and its directory with mode 0700, if there is none. Several processes that do that at
// once get one key. Errors: those of `read_key`, and those of making it.
[[nodiscard]] Result<SealKey> read_or_make_key(const std::string& path);

}   // namespace forebay::wire
