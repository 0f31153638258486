// Carrying out one target write: in few calls, whatever its pieces are.
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

// The error of a write or a change of size that the file has given up.
[[nodiscard]] inline Status given_up_error() { return {Code::kUnavailable, "given up", ECANCELED}; }

// `waits`: the target is known to answer slowly. `given_up` is asked before each call of the target: if it returns
// true, the write ends with ECANCELED. EFAULT: bytes of the log cannot be read. Blocks as the target does.
[[nodiscard]] Status write_to_target(io::File& target, const plan::TargetWrite& write, bool waits,
                                     const std::function<bool()>& given_up);

// The parts of a write, page by page, that cannot be read back from the log.
struct Unreadable {
    std::vector<ByteRange> ranges;
    plan::Keeper keeper = plan::Keeper::kNone;   // of the first byte of them,
    const std::byte* address = nullptr;          // and where that should have been read
};
[[nodiscard]] Unreadable find_unreadable(const plan::TargetWrite& write);

}   // namespace forebay::drain
