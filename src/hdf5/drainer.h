// The process that drains what this one leaves at its end (close=linger).
#pragma once

#include <string>

#include "base/status.h"

namespace forebay::hdf5 {

// Starts `forebay drain --finish DIRECTORY`, the command that belongs to this plugin, and returns once it has taken
// over the directory of this process. For the end of the process. An error, which is written to standard error: there
// is none, or it did not come up within ten seconds; then nothing is taken over. Blocks.
[[nodiscard]] Status leave_to_drainer(const std::string& directory);

}   // namespace forebay::hdf5
