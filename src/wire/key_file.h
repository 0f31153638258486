// The key that staging servers and programs on several machines share: a file of 64 hexadecimal digits and a line feed,
// of this process's user, without rights for others. Pure functions. Blocks on the file system.
#pragma once

#include <string>

#include "base/status.h"
#include "wire/frame_seal.h"

namespace forebay::wire {

// Returns the path in option server_key. If the option is empty, returns .config/forebay/server.key in the home
// directory, or an empty string if HOME is not an absolute path.
[[nodiscard]] std::string key_file(const std::string& option);

// Errors: as io::read_private_file, and kInvalidArgument if the content is no key.
[[nodiscard]] Result<SealKey> read_key(const std::string& path);

// Makes a missing file with a new key, and its directory with mode 0700. Concurrent processes get the same key. Errors:
// those of `read_key`, and those of making it.
[[nodiscard]] Result<SealKey> read_or_make_key(const std::string& path);

}   // namespace forebay::wire
