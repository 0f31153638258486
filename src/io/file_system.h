// What kind of file system a file is on, by the magic number that statfs(2) gives.
//
// Thread-safety: all of it. Pure but for `file_system_of` and `traits_of`, which block as statfs(2) does.
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>

#include "base/status.h"
#include "io/file.h"

namespace forebay::io {

// What a file system's magic number (statfs) stands for. `network` is true if it is reached over a
// network or through FUSE, where writing is no faster than to the real file.
struct FileSystemKind {
    std::string name;
    bool network = false;
    bool memory = false;
    bool local = false;   // known to be on this machine
};
// What the times of files tell there.
[[nodiscard]] TimesKind times_kind(std::uint64_t magic);
[[nodiscard]] FileSystemKind file_system_kind(std::uint64_t magic);

// Of the open file. One that cannot be asked has the traits of an unknown file.
[[nodiscard]] FileTraits traits_of(int descriptor);

// Whether identity and state of a file name one content for good on the file system with this magic number; `type` is
// its type in the mount table ("fuse.glusterfs"), which only FUSE needs. An allow-list.
[[nodiscard]] bool has_sure_versions(std::uint64_t magic, std::string_view type);
// The type of the file system with the device number `major`:`minor`, in a table as /proc/self/mountinfo. Empty: none.
[[nodiscard]] std::string mounted_type(std::istream& table, unsigned major, unsigned minor);

// The kind of file system that holds `path`.
[[nodiscard]] Result<FileSystemKind> file_system_of(const std::string& path);

}   // namespace forebay::io
