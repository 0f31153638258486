// Opening a target without harm: what is made or emptied is so only once nothing refuses the open any more, or it is
// undone.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"
#include "io/descriptor.h"

namespace forebay::io {

// A file that this open has made. It is removed again unless `keep` is called.
class MadeFile {
  public:
    MadeFile() = default;
    ~MadeFile();
    MadeFile(const MadeFile&) = delete;
    MadeFile& operator=(const MadeFile&) = delete;

    // As open(2), but that an existing file keeps what it holds: O_TRUNC is left to `empty`. `descriptor` is -1 with
    // errno on failure.
    [[nodiscard]] int open(const char* name, int o_flags);
    [[nodiscard]] bool made() const noexcept { return made_; }
    void keep() noexcept { made_ = false; }

  private:
    std::string name_;
    dev_t device_ = 0;
    ino_t inode_ = 0;
    bool made_ = false;
};

// What O_TRUNC does, to a regular file; to one that is empty already nothing, which would make some file systems write
// it back when it is closed.
[[nodiscard]] Status empty(Descriptor& file, const std::string& path);

}   // namespace forebay::io
