// The operating system's files behind the seam of io/file.h.
//
// System calls are restarted after EINTR and continued after short transfers; every other failure is a
// Status that names the call, the offset, the length and the file.
#pragma once

#include "io/file.h"

namespace forebay::io {

// Takes ownership of `descriptor` (closed by the File). `name` is for messages.
[[nodiscard]] std::unique_ptr<File> adopt_posix_file(int descriptor, std::string name);

// A second descriptor for the same open file (dup, close-on-exec); the caller's stays the caller's.
[[nodiscard]] Result<std::unique_ptr<File>> duplicate_posix_file(int descriptor, std::string name);

[[nodiscard]] Result<Identity> identify(int descriptor, const std::string& name);

// Opens an existing directory without following a symbolic link in the last component.
[[nodiscard]] Result<std::unique_ptr<Directory>> open_posix_directory(const std::string& path);

}   // namespace forebay::io
