// Properties of file systems by their statfs(2) magic number. Thread-safety: any thread. `file_system_of` and
// `traits_of` block as statfs(2) and fstat(2) do; `traits_of` may read /proc/self/mountinfo, and `mounted_type` its
// stream. The others do no I/O.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>

#include "base/status.h"
#include "io/file.h"

namespace forebay::io {

// The file system of a statfs magic number. `network` includes FUSE: staging there would be no faster.
struct FileSystemKind {
    std::string name;
    bool network = false;
    bool memory = false;
    bool local = false;
};
// `type` in the table of mounts, such as "fuse.juicefs"; only for FUSE.
[[nodiscard]] TimesKind times_kind(std::uint64_t magic, std::string_view type);
[[nodiscard]] FileSystemKind file_system_kind(std::uint64_t magic);

// Returns the traits of an open file with this st_blksize (stat(2)), or the default traits if statfs fails. `mount` is
// the never reused number of the file's mount. The answer for a mount is kept; with 0 (unknown), none is kept.
[[nodiscard]] FileTraits traits_of(int descriptor, std::uint64_t block_bytes, std::uint64_t mount = 0);

// Returns true if a file's identity and state identify its content, by an allow-list. `type`: as above.
[[nodiscard]] bool has_sure_versions(std::uint64_t magic, std::string_view type);
// Returns the mount type of a device in `table` (/proc/self/mountinfo), or empty text if it is not listed.
[[nodiscard]] std::string mounted_type(std::istream& table, unsigned major, unsigned minor);

[[nodiscard]] Result<FileSystemKind> file_system_of(const std::string& path);

}   // namespace forebay::io
