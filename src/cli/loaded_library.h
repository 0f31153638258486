// Finds the libhdf5 that a program loads.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace forebay::cli {

// Runs the program to its end, as run_child does, while the dynamic linker lists the libraries of the program and its
// children. Returns them in the order of loading. Empty: the program loads no libhdf5, or links it statically.
// kNotFound, kPermissionDenied: the program does not exist, or it is not executable.
[[nodiscard]] Result<std::vector<std::string>> hdf5_libraries_of(const std::vector<std::string>& program);

}   // namespace forebay::cli
