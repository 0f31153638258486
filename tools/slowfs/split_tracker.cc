#include "split_tracker.h"

#include <utility>

namespace forebay::slowfs {

bool SplitTracker::is_rest(pid_t thread, std::uint64_t offset, std::uint64_t size_bytes) {
    const std::scoped_lock lock(mutex_);
    const bool continues = std::exchange(thread_, thread) == thread && end_ == offset;
    end_ = offset + size_bytes;
    if (continues && size_bytes <= missing_bytes_) {
        missing_bytes_ -= size_bytes;
        return true;
    }
    const bool cut = size_bytes < kUnitBytes && size_bytes > kUnitBytes - kPageBytes;
    // After a split request the kernel sends full units, whose buffers begin on a page.
    const bool whole = continues && size_bytes == kUnitBytes;
    if (!whole) missing_bytes_ = cut ? kUnitBytes - size_bytes : 0;
    return false;
}

}   // namespace forebay::slowfs
