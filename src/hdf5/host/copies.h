// The copies of the plugin that serve other HDF5 libraries of the process (plugin.cc).
//
// HDF5 and dlopen find the first copy by its path; it loads all others. Thread-safety: any thread. Blocks while a copy
// is loaded.
#pragma once

#include <vector>

namespace forebay::hdf5 {

// Returns handles of dlopen, which stay open. A copy itself returns none.
[[nodiscard]] std::vector<void*> loaded_copies();

}   // namespace forebay::hdf5
