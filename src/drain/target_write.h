// Carrying out one target write: in few calls, whatever its pieces are.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "base/status.h"
#include "extent/range.h"
#include "io/file.h"
#include "plan/merge.h"

namespace forebay::drain {

// `waits`: the target is known to be waited for. `given_up` is asked before each call of the target: where one has hung
// for too long, nobody counts on the rest any more; then ECANCELED. EFAULT: bytes of the log cannot be read. Blocks as
// the target does.
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
