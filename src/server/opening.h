// Shared parts of opening a file that clients write.
#pragma once

#include <chrono>

#include "base/status.h"
#include "io/open_existing.h"
#include "wire/frame.h"

namespace forebay::server {

// kUnknown is the wait for a session that does not know yet of its client's death or close. kEnding is the wait for a
// session's end, which the file's target may delay.
inline constexpr std::chrono::seconds kUnknown{5}, kEnding{600};

// The system ends a process's connections a moment before its locks.
inline constexpr std::chrono::seconds kEndsItsLocks{2};

// Opens the file by its name. kUnsupported: that is another file, or the server may not write it.
[[nodiscard]] Result<io::OpenedExisting> open_as_named(const wire::Open& request);

}   // namespace forebay::server
