// Looks up a file system's properties by its statfs(2) magic number.
//
// Thread-safety: any thread may call any function. `file_system_of` and `traits_of` block as statfs(2) and fstat(2) do;
// `traits_of` may also read /proc/self/mountinfo. `mounted_type` reads its stream. The others do no I/O.
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
// How the file system sets a file's times.
[[nodiscard]] TimesKind times_kind(std::uint64_t magic);
[[nodiscard]] FileSystemKind file_system_kind(std::uint64_t magic);

// Traits of an open file with this st_blksize (stat(2)). If statfs fails: those of a file on an unknown file system.
// `mount` is the number of the file's mount, which the system gives once; the answer for a mount that was asked about
// is kept. 0: not known, and nothing is kept.
[[nodiscard]] FileTraits traits_of(int descriptor, std::uint64_t block_bytes, std::uint64_t mount = 0);

// Whether a file's identity and state identify its content, so that no other content ever has the same. `type` is the
// mount type ("fuse.glusterfs"); only FUSE needs it. Returns true for the file systems of an allow-list only.
[[nodiscard]] bool has_sure_versions(std::uint64_t magic, std::string_view type);
// The mount type of device `major`:`minor` in `table`, which has the form of /proc/self/mountinfo; empty if it is not
// listed.
[[nodiscard]] std::string mounted_type(std::istream& table, unsigned major, unsigned minor);

// The kind of file system that holds `path`.
[[nodiscard]] Result<FileSystemKind> file_system_of(const std::string& path);

}   // namespace forebay::io
