// Hands the files that are still to drain at the process's end to another process (close=linger).
#pragma once

#include <string>

#include "base/status.h"

namespace forebay::hdf5 {

// Starts this plugin's command `forebay drain --finish DIRECTORY`, and returns after it has taken over this process's
// directory. Call it at the end of the process. Fails with a line on standard error if the command is missing or not
// ready within ten seconds; then no file is taken over. Blocks.
[[nodiscard]] Status leave_to_drainer(const std::string& directory);

}   // namespace forebay::hdf5
