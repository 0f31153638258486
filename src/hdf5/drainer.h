// Hands the files that are still to drain at the process's end to another process (close=linger).
#pragma once

#include <string>

#include "base/status.h"

namespace forebay::hdf5 {

// Starts this plugin's command `forebay drain --finish DIRECTORY` at the process's end, and blocks until it has taken
// over the directory. If it is missing or not ready in ten seconds, takes over no file and fails with a line on
// standard error.
[[nodiscard]] Status leave_to_drainer(const std::string& directory);

}   // namespace forebay::hdf5
