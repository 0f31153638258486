// The operating system's files and directories behind the seam of io/file.h. System calls are restarted after EINTR and
// continued after short transfers. Other failures are a Status that names call, offset, length and file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/descriptor.h"
#include "io/file.h"

namespace forebay::io {

// Takes ownership of `descriptor`. `name` is for messages, and for opening it anew (io/descriptor.h).
[[nodiscard]] std::unique_ptr<File> adopt_posix_file(int descriptor, std::string name);

// Shares the descriptor with the code that opened the file: each open file has one.
[[nodiscard]] std::unique_ptr<File> make_posix_file(std::shared_ptr<Descriptor> descriptor, std::string name);

// For a file that forebay has made for itself: it never grows beyond the process's limit for files (ulimit -f).
[[nodiscard]] std::unique_ptr<File> make_staging_file(std::shared_ptr<Descriptor> descriptor, std::string name);

[[nodiscard]] Result<Identity> identify(int descriptor, const std::string& name);

// A file that other processes may have open as well.
struct ExistingFile {
    std::unique_ptr<File> file;
    Identity identity;
    std::uint64_t modified_ns = 0;   // CLOCK_REALTIME, of the machine that keeps the file
    // Sets the file's time of the last change, even after a rename. Empty: it cannot be set. Only while `file` exists.
    std::function<Status(std::uint64_t modified_ns)> set_modified{};
};
// Opens an existing regular file for reading and writing, with HDF5's lock for writing (flock, exclusive), until its
// close, whatever a forked child has inherited. Errors: kNotFound, kPermissionDenied; kInvalidArgument: it is no
// regular file; kUnavailable: another process has it open and locked for longer than `patience`. A file system without
// locks is no error.
[[nodiscard]] Result<ExistingFile> open_existing_file(const std::string& path,
                                                      Directory::Patience patience = Directory::Patience::kTry);
// Shares the descriptor of a caller that has the file open and locked.
[[nodiscard]] Result<ExistingFile> existing_file(const std::shared_ptr<Descriptor>& descriptor,
                                                 const std::string& path);

// Returns the birth time, CLOCK_REALTIME, or 0 if it is unknown.
[[nodiscard]] std::uint64_t born_ns(const std::string& path) noexcept;

// Returns the owner of the file at `path`, or this process's user if the owner is unknown.
[[nodiscard]] std::uint64_t owner_of(const std::string& path) noexcept;

// Returns the identity of the file at `path`. Follows symbolic links.
[[nodiscard]] Result<Identity> identify(const std::string& path);

// Returns true if `path` itself is that file, and no symbolic link to it.
[[nodiscard]] bool is_name_of(const std::string& path, const Identity& identity) noexcept;

// Opens an existing directory without following a symbolic link in the last component.
[[nodiscard]] Result<std::unique_ptr<Directory>> open_posix_directory(const std::string& path);

}   // namespace forebay::io
