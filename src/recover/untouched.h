// Whether a target is still as a dead process has left it: what the process knew of it (log/target_state.h), against
// what it is now.
//
// Certain where its times are those of this machine, and nothing was under way at the death: then nothing may have
// changed. What was under way may have changed the file, but only so far. docs/recovery.md, "Is it still the file?",
// tells what holds on which file system. Blocks on reads of the target; changes nothing.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "io/file.h"
#include "log/target_state.h"

namespace forebay::recover {

// A target that was written so long after the last sign of life was written by somebody else, whatever else is known of
// it: clocks of file servers differ, and so do the times at which they hear of a write.
inline constexpr std::uint64_t kClocksApartNs = 60'000'000'000;
// On a local file system a write has its time when it begins. So long it may take from when the process said that it
// begins: processors are shared, and a debugger may hold a thread up.
inline constexpr std::uint64_t kBeginsWithinNs = 250'000'000;

struct Death {
    std::uint64_t last_sign_ns = 0;   // CLOCK_REALTIME; 0: nobody knows
    bool renamed = false;             // the file has another name now, which has changed its ctime
    bool lost = false;                // what was not synced may be: the machine was restarted, or a device was gone
    bool others_recover = false;      // other nodes bring their parts home, and set the times
};

// kNotFound never; kUnsupported: somebody else has changed it, and the text says what shows it. Other errors are those
// of reading it.
[[nodiscard]] Status check_untouched(const log::TargetState& known, const io::FileState& now, io::File& target,
                                     const Death& death);

}   // namespace forebay::recover
