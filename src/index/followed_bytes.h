// What a participant of a shared file knows of it that does not drain it: all that is staged, for reading.
//
// It keeps no account of what it writes. When it reads it follows the logs of all, its own included. Everything that it
// finds counts as held, so that a later truncation finds it; nothing drains from here. Segments may be given back and
// used again at any time, so whoever has copied bytes checks that they were still there, and otherwise begins afresh.
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

    // Takes in what was found (group::RecordOrder::find). May throw std::bad_alloc; then that comes again.
    void take_in(FileBounds& bounds);
    // Gives back those of this participant's own segments, the newest `keep` not, that the drainer has released.
    static void release(const group::OwnLog& own, log::FileLog& log, std::size_t keep);

  private:
    void take_in(const group::RecordOrder::Record& record, FileBounds& bounds);

    group::RecordOrder& order_;   // of the file's group
    ExtentIndex index_;
};

}   // namespace forebay::index
