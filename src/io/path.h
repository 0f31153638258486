// Names of files, as programs give them, made complete.
#pragma once

#include <string>

#include "io/file.h"

namespace forebay::io {

// The name with the working directory before it, unless it is complete. Nothing is folded: `link/..` is not where it
// seems to be if `link` is a symbolic link. Where the working directory has been removed: what the system says of
// `descriptor`, if that is open on the file (-1: none is); else the name as it is.
[[nodiscard]] std::string complete_path(const std::string& name, int descriptor = -1);

// The same for whoever hands the path to the system, which takes only so long ones: of a longer one the name as it is.
[[nodiscard]] std::string usable_path(const std::string& name);

// The path of the file `identity` in the folder that `path` lies in, whatever its name there is. Empty: it is not
// there, or the folder cannot be read. Blocks: it reads the whole folder.
[[nodiscard]] std::string find_beside(const std::string& path, const Identity& identity);

}   // namespace forebay::io
