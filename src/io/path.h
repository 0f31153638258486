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

// Looks for a file by what it is, whatever its name is now: first in the folder that `path` lies in and below it, then
// below the folders above, up to the root of its file system. Of a folder that has another name now the first one above
// that is there begins. Symbolic links are not followed. At most so many names are looked at. Blocks as long as that
// takes.
struct Search {
    std::string path;          // of the file; empty: it was not found
    bool everywhere = false;   // the whole file system was looked at: it has no such file
};
[[nodiscard]] Search find_file(const std::string& path, const Identity& identity, std::size_t names_max = 100'000);

}   // namespace forebay::io
