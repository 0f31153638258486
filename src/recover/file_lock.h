// Excludes all other recoveries of one file on this node, while its target is being written too.
//
// The lock is a directory `recovering-<device>-<inode>` in each staging area. Its holder locks it (flock) and names its
// own process in a file in it. The lock ends with the process; the next recovery takes over or removes the directory of
// a killed one. So a recovery that hangs in a target keeps other recoveries from that file only. Blocks on file I/O,
// and for others' locks as long as `patience` says. Not thread-safe.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/file.h"

namespace forebay::recover {

inline constexpr std::string_view kFileLockPrefix = "recovering-";

class FileLock {
  public:
    // kUnavailable, with the number of the process: somebody else has it. Other errors are those of the areas.
    [[nodiscard]] static Result<FileLock> take(std::span<io::Directory* const> areas, const io::Identity& identity,
                                               io::Directory::Patience patience);
    ~FileLock();
    FileLock(FileLock&&) noexcept = default;
    FileLock& operator=(FileLock&&) = delete;

    [[nodiscard]] static std::string name(const io::Identity& identity);   // of the directory

  private:
    struct Held {
        io::Directory* area;
        std::unique_ptr<io::Directory> directory;
        std::unique_ptr<io::Lock> lock;
    };
    explicit FileLock(std::string name) : name_(std::move(name)) {}
    [[nodiscard]] Result<Held> take(io::Directory& area, io::Directory::Patience patience) const;

    std::string name_;
    std::vector<Held> held_;
};

// Removes what killed recoveries have left of such locks. Best effort.
void remove_dead_file_locks(io::Directory& area);

}   // namespace forebay::recover
