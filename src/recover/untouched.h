// Tells whether a target is as a dead process left it, by the state noted in the log (log/target_state.h).
// Certain if the target has this machine's times and no write was in flight at the death. Writes in flight explain
// limited changes (docs/recovery.md, "Is it still the file?"). Blocks on reads of the target; changes nothing.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "io/file.h"
#include "log/target_state.h"

namespace forebay::recover {

// A write so long after the last sign of life is another program's. Servers' clocks differ, and learn of writes late.
inline constexpr std::uint64_t kClocksApartNs = 60'000'000'000;
// From the note of a write to its begin, when a local file system sets the time: a busy processor, a debugger.
inline constexpr std::uint64_t kBeginsWithinNs = 250'000'000;

struct Death {
    std::uint64_t last_sign_ns = 0;   // CLOCK_REALTIME; 0: unknown
    bool renamed = false;             // a rename has changed the ctime
    bool lost = false;                // unsynced bytes may be lost: a restart, or a device was gone
    bool others_recover = false;      // other nodes recover their parts, and set the times
};

// Errors: kUnsupported: another program has changed it; the text has the evidence. Those of reading it.
[[nodiscard]] Status check_untouched(const log::TargetState& known, const io::FileState& now, io::File& target,
                                     const Death& death);

}   // namespace forebay::recover
