// The index of a participant that does not drain: all staged bytes of the shared file, for reading.
//
// The participant keeps no account of its writes. When it reads, it follows all logs, its own included. Everything that
// it finds counts as held, so that a later truncation finds it; nothing drains from here. Segments may be given back
// and reused at any time. So a reader checks after a copy that the bytes were still there, and otherwise begins afresh.
//
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

    // What was found.
    [[nodiscard]] ExtentIndex& index() noexcept { return index_; }
    [[nodiscard]] const ExtentIndex& index() const noexcept { return index_; }

    // Takes in the records that group::RecordOrder::find found. May throw std::bad_alloc; the next call repeats them.
    void take_in(FileBounds& bounds);
    // Gives back this participant's own segments that the drainer has released, except the newest `keep`.
    static void release(const group::OwnLog& own, log::FileLog& log, std::size_t keep);

  private:
    void take_in(const group::RecordOrder::Record& record, FileBounds& bounds);

    group::RecordOrder& order_;   // of the file's group
    ExtentIndex index_;
};

}   // namespace forebay::index
