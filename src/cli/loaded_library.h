// Which libhdf5 a program loads.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::cli {

// Runs the program to its end, as run_child does, and has the dynamic linker list what it and all that it starts load.
// In the order of loading; empty: no libhdf5, or one that is linked statically. kNotFound, kPermissionDenied: there is
// no such program, or it cannot be executed.
[[nodiscard]] Result<std::vector<std::string>> hdf5_libraries_of(const std::vector<std::string>& program);

}   // namespace forebay::cli
