// A lock that excludes other recoveries of one file on this node, also while the target is written.
// A locked (flock) directory `recovering-<device>-<inode>` in each staging area, with a file that names the holder. It
// ends with the process; the next recovery takes over or removes it. So a recovery that hangs in a target blocks other
// recoveries of that file only. A full device may lack room for the directory; then the claim locks the areas
// (claim.h), and asks each area that has room for the lock. INVARIANT: two holders that know a common area exclude each
// other, by the file's lock there or by the area's. Blocks on file I/O, and for other holders up to `patience`. Not
// thread-safe.
#pragma once

#include <cstdint>
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
    // kFails: a full area ends the call with kNoSpace. kPassedOver: the call leaves it out and asks the others; the
    // caller has the locks of the areas.
    enum class FullArea : std::uint8_t { kFails, kPassedOver };
    // Errors: kUnavailable with the holder's number; kNoSpace; those of the areas.
    [[nodiscard]] static Result<FileLock> take(std::span<io::Directory* const> areas, const io::Identity& identity,
                                               io::Directory::Patience patience, FullArea full = FullArea::kFails);
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

// Ignores failures.
void remove_dead_file_locks(io::Directory& area);

}   // namespace forebay::recover
