// Files and directories in memory: the seam's twin for tests that must not touch a disk. Contents live as long as the
// last handle or the directory entry. Mappings see writes, and reads see stores to mappings, as on a real file system.
// A file holds at most `kMemoryFileMax` bytes (kNoSpace beyond).
#pragma once

#include "io/file.h"

namespace forebay::io {

inline constexpr std::uint64_t kMemoryFileMax = std::uint64_t{1} << 32;

[[nodiscard]] std::unique_ptr<File> make_memory_file(std::string name);
[[nodiscard]] std::unique_ptr<Directory> make_memory_directory(std::string name);

}   // namespace forebay::io
