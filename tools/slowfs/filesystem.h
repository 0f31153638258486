// The mounted file system: carries out FUSE requests on a backing directory; a Simulation slows and fails them. The
// calls are in file_calls.cc and directory_calls.cc. Each runs on a thread of the FUSE session, many at a time. The
// kernel does not cache attributes and names, so changes in the backing directory are visible at once.
#pragma once

#include <fuse_lowlevel.h>

#include <memory>
#include <string>
#include <string_view>

#include "inode_table.h"
#include "simulation.h"

namespace forebay::slowfs {

struct FileSystemOptions {
    bool page_cache = false;            // use the kernel's page cache: it caches reads, and mmap(MAP_SHARED) works
    bool locks = true;                  // false: flock and fcntl locks fail with ENOSYS
    std::uint64_t clock_behind_s = 0;   // the server's clock is so much behind
};

class FileSystem {
  public:
    // The control file, at the root; not listed.
    static constexpr std::string_view kControlName = ".slowfs";
    static constexpr fuse_ino_t kControlNode = 2;   // no address, so no Inode's

    // `simulation` outlives the file system.
    [[nodiscard]] static Result<std::unique_ptr<FileSystem>> open(const std::string& backing, Simulation& simulation,
                                                                  FileSystemOptions options);

    // For fuse_session_new, with the file system as user data.
    [[nodiscard]] const fuse_lowlevel_ops& calls() const noexcept { return calls_; }

    [[nodiscard]] Simulation& simulation() noexcept { return simulation_; }
    [[nodiscard]] const FileSystemOptions& options() const noexcept { return options_; }
    [[nodiscard]] InodeTable& inodes() noexcept { return inodes_; }

    [[nodiscard]] Inode& inode(fuse_ino_t node) noexcept;
    [[nodiscard]] static bool is_control(fuse_ino_t parent, const char* name) noexcept;
    [[nodiscard]] static struct stat control_attributes() noexcept;

    // Shifts the times in the attributes by `clock_behind_s`.
    void tell_times(struct stat& attributes) const noexcept;

    // Returns a file's current path, relative to the mount point, without a leading slash.
    [[nodiscard]] std::string path_of(fuse_ino_t node);
    [[nodiscard]] std::string path_of(fuse_ino_t parent, const char* name);

    // Looks `name` up and fills `entry`, whose node gets one more lookup. Returns 0 or an errno.
    [[nodiscard]] int look_up(fuse_ino_t parent, const char* name, fuse_entry_param& entry);

  private:
    FileSystem(int root_fd, const struct stat& attributes, std::string root_path, Simulation& simulation,
               FileSystemOptions options);

    Inode root_;
    std::string root_path_;
    Simulation& simulation_;
    FileSystemOptions options_;
    InodeTable inodes_;
    fuse_lowlevel_ops calls_{};
};

// Returns a magic link to an open descriptor. It can reopen, change or link a file that has no name any more.
[[nodiscard]] std::string link_to(int fd);

void add_file_calls(fuse_lowlevel_ops& calls);
void add_directory_calls(fuse_lowlevel_ops& calls);
void add_lock_refusals(fuse_lowlevel_ops& calls);

}   // namespace forebay::slowfs
