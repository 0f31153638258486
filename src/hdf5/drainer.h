// The process that drains what this one leaves at its end (close=linger).
#pragma once

#include <string>

#include "base/status.h"

namespace forebay::hdf5 {

// Starts `forebay drain --finish DIRECTORY`, the command that belongs to this plugin, and returns once it has taken
// over the directory of this process. To be called at the end of the process. Fails, and says so on standard error, if
// the command is missing or is not ready within ten seconds: nothing is taken over. Blocks.
[[nodiscard]] Status leave_to_drainer(const std::string& directory);

}   // namespace forebay::hdf5
