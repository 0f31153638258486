// What opening a file that clients write has in common, whoever stages it.
#pragma once

#include <chrono>

#include "base/status.h"
#include "io/open_existing.h"
#include "wire/frame.h"

namespace forebay::server {

// A client may have died, or be about to close the file, and its session not know yet. So long that is waited for; and
// so long what a session does at its end, which the file's own target may delay.
inline constexpr std::chrono::seconds kUnknown{5}, kEnding{600};

// A process that ends has its connections ended, and its locks a moment later.
inline constexpr std::chrono::seconds kEndsItsLocks{2};

// Only what the server finds under its name. kUnsupported: another file, or none that the server may write.
[[nodiscard]] Result<io::OpenedExisting> open_as_named(const wire::Open& request);

}   // namespace forebay::server
