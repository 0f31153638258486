// Further calls of a file whose writes another process, a staging server, stages. Only the same object may read written
// bytes, because they may not be in the file yet. Thread-safety: as io::File. All calls block until the other process
// has answered, and report failures of earlier writes.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "io/file.h"

namespace forebay::io {

class ForwardedTarget {
  public:
    virtual ~ForwardedTarget() = default;

    // Works like File::write_at, for metadata. The bytes reach the file at the next commit, not before.
    virtual Status write_metadata_at(std::uint64_t offset, Bytes bytes) = 0;
    // Marks the end of one program call's writes. In a file with several writers, the others can read the bytes now.
    virtual Status end_call() = 0;
    // Makes all earlier writes one consistent state. On return the death of either process loses none of it.
    virtual Status commit() = 0;
    // Returns when all written bytes are in the file, committed or not.
    virtual Status drain() = 0;
    // Drains, and makes later writes return only when their bytes are in the file.
    virtual Status step_aside() = 0;
    // Makes `close` commit nothing and fail with `why`: the writes since the last commit are incomplete.
    virtual void withhold(const Status& why) noexcept = 0;
    // Commits, drains, and releases the other process. Later reads go to the file itself. A second call does nothing.
    virtual Status close() = 0;

  protected:
    ForwardedTarget() = default;
    ForwardedTarget(const ForwardedTarget&) = default;
    ForwardedTarget& operator=(const ForwardedTarget&) = default;
};

}   // namespace forebay::io
