#pragma once

#include <cstdint>
#include <string>

#include "ledger/ledger.h"

namespace forebay::ledger {

// Returns true if the target lacks bytes, or does not have its size yet.
[[nodiscard]] inline bool is_outstanding(const FileCounters& file) noexcept {
    return file.pending > 0 || file.oldest_ns != 0;
}

// Returns the text of strerror, or forebay's text for errors without an errno. Not thread-safe, like strerror.
[[nodiscard]] std::string error_text(std::uint64_t error);

}   // namespace forebay::ledger
