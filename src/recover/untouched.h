// Tells whether a target is as a dead process left it, by the state noted in the log (log/target_state.h).
//
// The answer is certain if the target has this machine's times and no write was in flight at the death. Writes in
// flight explain limited changes. docs/recovery.md, "Is it still the file?", has the details by file system. Blocks on
// reads of the target; changes nothing.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "io/file.h"
#include "log/target_state.h"

namespace forebay::recover {

// A write so long after the last sign of life was another program's. Clocks of file servers differ, and servers learn
// of writes late.
inline constexpr std::uint64_t kClocksApartNs = 60'000'000'000;
// The longest time from the note of a write to its begin, when a local file system sets the time: processors are
// shared, and a debugger may stop a thread.
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
