#pragma once

#include <sys/types.h>

#include <string>

#include "base/status.h"
#include "io/descriptor.h"

namespace forebay::io {

// A file that this open creates. It is removed unless `keep` is called: a refused open leaves no file.
class MadeFile {
  public:
    MadeFile() = default;
    ~MadeFile();
    MadeFile(const MadeFile&) = delete;
    MadeFile& operator=(const MadeFile&) = delete;

    // Works like open(2), but leaves O_TRUNC to `empty`. Returns -1 with errno on failure.
    [[nodiscard]] int open(const char* name, int o_flags);
    [[nodiscard]] bool made() const noexcept { return made_; }
    void keep() noexcept { made_ = false; }

  private:
    std::string name_;
    dev_t device_ = 0;
    ino_t inode_ = 0;
    bool made_ = false;
};

// Does what O_TRUNC does. Leaves an empty file alone, as some file systems would write it back at its close.
[[nodiscard]] Status empty(Descriptor& file, const std::string& path);

}   // namespace forebay::io
