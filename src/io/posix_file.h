// The operating system's files and directories behind the seam of io/file.h.
//
// System calls are restarted after EINTR and continued after short transfers; every other failure is a
// Status that names the call, the offset, the length and the file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/descriptor.h"
#include "io/file.h"

namespace forebay::io {

// Takes ownership of `descriptor` (closed by the File). `name` is for messages, and for opening it anew
// (io/descriptor.h).
[[nodiscard]] std::unique_ptr<File> adopt_posix_file(int descriptor, std::string name);

// The same of a descriptor that is shared with whoever opened the file: there is one for each open file.
[[nodiscard]] std::unique_ptr<File> make_posix_file(std::shared_ptr<Descriptor> descriptor, std::string name);

// The same of a file that forebay has made for itself: it never grows beyond the process's limit for files (ulimit -f).
[[nodiscard]] std::unique_ptr<File> make_staging_file(std::shared_ptr<Descriptor> descriptor, std::string name);

[[nodiscard]] Result<Identity> identify(int descriptor, const std::string& name);

// A file that somebody else may have open as well.
struct ExistingFile {
    std::unique_ptr<File> file;
    Identity identity;
    std::uint64_t modified_ns = 0;   // CLOCK_REALTIME, of the machine that keeps the file
    // Makes that the time at which the file was last written: of this file, also if it has another name by then. None:
    // it cannot be set. As long as `file` is there.
    std::function<Status(std::uint64_t modified_ns)> set_modified{};
};
// Opens an existing regular file for reading and writing, and locks it as HDF5 locks a file that it opens for
// writing (flock, exclusive), until it is closed. kNotFound, kPermissionDenied; kInvalidArgument: it is no
// regular file; kUnavailable: another process has it open and locked, for longer than `patience`. A file system without
// locks is no error.
[[nodiscard]] Result<ExistingFile> open_existing_file(const std::string& path,
                                                      Directory::Patience patience = Directory::Patience::kTry);
// The same of one that the caller has open and locked, and shares.
[[nodiscard]] Result<ExistingFile> existing_file(const std::shared_ptr<Descriptor>& descriptor,
                                                 const std::string& path);

// When the file was made, CLOCK_REALTIME; 0: its file system does not tell.
[[nodiscard]] std::uint64_t born_ns(const std::string& path) noexcept;

// The user that the file at `path` belongs to; the calling one, if that cannot be known.
[[nodiscard]] std::uint64_t owner_of(const std::string& path) noexcept;

// What `path` is now; symbolic links are followed.
[[nodiscard]] Result<Identity> identify(const std::string& path);

// Whether `path` itself is that file, and no symbolic link that leads to it.
[[nodiscard]] bool is_name_of(const std::string& path, const Identity& identity) noexcept;

// Opens an existing directory without following a symbolic link in the last component.
[[nodiscard]] Result<std::unique_ptr<Directory>> open_posix_directory(const std::string& path);

}   // namespace forebay::io
