// Carries out one target write in few calls. Blocks as the target does.
#pragma once

#include <cerrno>
#include <cstddef>
#include <functional>
#include <vector>

#include "base/status.h"
#include "extent/range.h"
#include "io/file.h"
#include "plan/merge.h"

namespace forebay::drain {

// The error of work that its file has abandoned.
[[nodiscard]] inline Status given_up_error() { return {Code::kUnavailable, "given up", ECANCELED}; }

// `waits`: the target is known to answer slowly. Before each call of the target it asks `given_up`.
// Errors: ECANCELED: `given_up` returned true. EFAULT: bytes of the log are unreadable.
[[nodiscard]] Status write_to_target(io::File& target, const plan::TargetWrite& write, bool waits,
                                     const std::function<bool()>& given_up);

// The unreadable parts of a write, page by page.
struct Unreadable {
    std::vector<ByteRange> ranges;
    plan::Keeper keeper = plan::Keeper::kNone;   // of the first unreadable byte
    const std::byte* address = nullptr;          // of the first unreadable byte
};
[[nodiscard]] Unreadable find_unreadable(const plan::TargetWrite& write);

}   // namespace forebay::drain
