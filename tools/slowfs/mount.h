// Mounts a file system and serves it until it is unmounted or must end.
#pragma once

#include <functional>
#include <string>

#include "filesystem.h"

namespace forebay::slowfs {

struct MountOptions {
    std::string mount_point;       // an existing directory
    unsigned threads_max = 128;    // operations that can be in flight
    bool allow_other = false;      // other users may use the mount
    bool end_with_stdin = false;   // end when standard input ends
};

// Checks that FUSE is there, and the mount point is a directory. The message tells the user what to do.
[[nodiscard]] Status check_mountable(const std::string& mount_point);

// Blocks until SIGINT, SIGTERM, SIGHUP, or an unmount from outside; then the mount point is unmounted. Calls `mounted`
// once it serves requests. Call it on the main thread, before other threads exist.
[[nodiscard]] Status serve(FileSystem& fs, const MountOptions& options, const std::function<void()>& mounted);

}   // namespace forebay::slowfs
