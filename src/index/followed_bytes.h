// The index of a participant that does not drain: all staged bytes of the shared file, for reading.
// The participant notes no writes. When it reads, it follows all logs, its own included. All found bytes count as held,
// so that a later truncation finds them; this index drains nothing. The drainer may release segments, and their owners
// reuse them, at any time. So a reader checks after a copy that the bytes were still there, and otherwise restarts.
// Thread-safety: guarded by the file's lock.
#pragma once

#include <cstddef>

#include "group/own_log.h"
#include "group/record_order.h"
#include "index/extent_index.h"
#include "index/staged_bytes.h"
#include "log/file_log.h"

namespace forebay::index {

class FollowedBytes {
  public:
    explicit FollowedBytes(group::RecordOrder& order) noexcept : order_(order) {}

    [[nodiscard]] ExtentIndex& index() noexcept { return index_; }
    [[nodiscard]] const ExtentIndex& index() const noexcept { return index_; }

    // Takes in the records that group::RecordOrder::find found. May throw std::bad_alloc; the next call repeats them.
    void take_in(FileBounds& bounds);
    // Releases this participant's own segments that the drainer has released, except the newest `keep`.
    static void release(const group::OwnLog& own, log::FileLog& log, std::size_t keep);

  private:
    void take_in(const group::RecordOrder::Record& record, FileBounds& bounds);

    group::RecordOrder& order_;   // of the file's group
    ExtentIndex index_;
};

}   // namespace forebay::index
