#pragma once

#include <string>

#include "io/file.h"

namespace forebay::io {

// Puts the working directory before a relative name; `link/..` stays, as `link` may be a symbolic link. If that
// directory was removed, returns the path of the open `descriptor` (-1: none), else the name unchanged.
[[nodiscard]] std::string complete_path(const std::string& name, int descriptor = -1);

// Works like complete_path, but returns the name unchanged if the result is too long for the system.
[[nodiscard]] std::string usable_path(const std::string& name);

// Returns true if two absolute paths have one last name, and their folders are one as far as these exist now. So links,
// `.` and `..` in them do not matter. The files may be missing. Blocks on the folders' file systems.
[[nodiscard]] bool same_place(const std::string& one, const std::string& other);

// Searches for a file by its identity, whatever its name is now, and returns its path. Begins in the folder of `path`
// and below, and goes on below the folders above, up to the root of its file system. For a renamed folder, the search
// begins at its first ancestor that exists. It resolves symbolic links in that folder's path, and follows no others. It
// looks at `names_max` names at most. Blocks meanwhile.
// Empty: not found. That never proves that the file has no name. A mount may show a part of its file system only, or
// hide a folder. A server may be partly down. The file may be renamed during the search.
[[nodiscard]] std::string find_file(const std::string& path, const Identity& identity, std::size_t names_max = 100'000);

}   // namespace forebay::io
