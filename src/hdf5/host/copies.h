// The copies of the plugin that serve other HDF5 libraries of the process (plugin.cc).
//
// HDF5 finds the plugin by its path, so it is the first copy that loads all others, and that a program finds by dlopen.
// Thread-safety: any thread. Blocks while a copy is being loaded.
#pragma once

#include <vector>

namespace forebay::hdf5 {

// As dlopen has given them; they stay loaded for good. None in a copy.
[[nodiscard]] std::vector<void*> loaded_copies();

}   // namespace forebay::hdf5
