// What the counters of a file say about its drain.
#pragma once

#include <cstdint>
#include <string>

#include "ledger/ledger.h"

namespace forebay::ledger {

// The file lacks bytes, or has not got its size yet.
[[nodiscard]] inline bool is_outstanding(const FileCounters& file) noexcept {
    return file.pending > 0 || file.oldest_ns != 0;
}

// As strerror says, or for what has no errno of its own in forebay's words. Not thread-safe, as strerror is not.
[[nodiscard]] std::string error_text(std::uint64_t error);

}   // namespace forebay::ledger
