// What a file can do beyond io/file.h when another process stages what is written to it: a staging server.
//
// What is written need not be in the file, and is read through the same object only. Thread-safety: as io::File. All
// calls block until the other process has answered, and report a failure of any write before them.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "io/file.h"

namespace forebay::io {

class ForwardedTarget {
  public:
    virtual ~ForwardedTarget() = default;

    // As File::write_at, of bytes that describe others. They reach the file with the next commit, not before it.
    virtual Status write_metadata_at(std::uint64_t offset, Bytes bytes) = 0;
    // One call of the program has written all its parts. Of a file that others write, too: they read them from now on.
    virtual Status end_call() = 0;
    // Everything written before is one consistent state. On return the death of either process loses nothing of it.
    virtual Status commit() = 0;
    // All that was written is in the file on return, committed or not.
    virtual Status drain() = 0;
    // The same, and from now on what is written is in the file when the call returns.
    virtual Status step_aside() = 0;
    // `close` commits nothing and fails with `why`: what was written since the last commit is incomplete.
    virtual void withhold(const Status& why) noexcept = 0;
    // Commits, drains, and lets go of the other process. From then on the file itself is read. Does nothing the second
    // time.
    virtual Status close() = 0;

  protected:
    ForwardedTarget() = default;
    ForwardedTarget(const ForwardedTarget&) = default;
    ForwardedTarget& operator=(const ForwardedTarget&) = default;
};

}   // namespace forebay::io
