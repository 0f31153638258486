// The regions of a group's file that may have staged bytes, as the board shows them (group/board_format.h, Exposed).
// With several nodes a region's mark is the ticket of its last record, so that other nodes can ask if it is drained. On
// one node a mark is 1 once a byte of the region was staged.
// Thread-safety: any thread, and any process that maps the board. No call blocks.
#pragma once

#include <cstdint>
#include <span>

#include "extent/range.h"
#include "group/board_format.h"
#include "log/file_log.h"

namespace forebay::group {

void mark_regions(Exposed& exposed, ByteRange range, std::uint64_t ticket) noexcept;
// Marks the parts' regions as staged, until the file is closed.
void note_staged(Exposed& exposed, std::span<const log::FileLog::Part> parts) noexcept;
// Returns the first part of the range that no earlier write has staged. Concurrent writes may count or not. The result
// may be empty although there is such a part.
[[nodiscard]] ByteRange first_unstaged(const Exposed& exposed, ByteRange range) noexcept;

}   // namespace forebay::group
