// The files that this process has open through a driver that is not forebay's: core, stdio, mpio, or sec2 with staging
// off. Such a driver reads and writes the target, and knows nothing of a log. Invariant: while the process has a file
// open so, it stages no byte of that file. A file that it stages already drains first, and then bypasses the log
// (connector/driver_swap.h); a later open for writing through forebay's driver is not staged. So each driver sees what
// the other has written, as natively. Not so with a file that ranks write together or that a server stages; and the
// read cache takes what the other driver writes for changes by another process. HDF5 does not tell when it closes a
// file that an external link has opened. Such a file counts until this process creates a file with the same inode
// number. Not counted: members of family, multi and split files. Thread-safety: any thread. No call blocks.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>

#include "base/immortal.h"
#include "io/file.h"

namespace forebay::hdf5 {

class OtherDriverFiles {
  public:
    static OtherDriverFiles& get();

    // One open of a file, until its last object is closed.
    class Use {
      public:
        // `by_default`: through HDF5's default driver, sec2.
        Use(const io::Identity& identity, bool by_default);
        ~Use();
        Use(const Use&) = delete;
        Use& operator=(const Use&) = delete;

      private:
        const io::Identity identity_;
        const bool by_default_;
    };

    void note_linked(const io::Identity& identity);
    // The process has created a file that has this identity now.
    void note_created(const io::Identity& identity) noexcept;

    [[nodiscard]] bool contains(const io::Identity& identity);
    // HDF5 takes a file that it opens through sec2 again for the same file, and shares its caches.
    [[nodiscard]] bool has_by_default(const io::Identity& identity);
    [[nodiscard]] bool any_by_default();

  private:
    friend class forebay::Immortal<OtherDriverFiles>;
    OtherDriverFiles() = default;
    struct Uses {
        std::size_t all = 0, by_default = 0;
    };

    std::mutex mutex_;
    std::map<io::Identity, Uses> open_;
    std::set<io::Identity> linked_;
    std::size_t by_default_ = 0;   // opens in `open_`
};

}   // namespace forebay::hdf5
