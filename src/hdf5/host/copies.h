// The copies of the plugin that serve other HDF5 libraries of the process (plugin.cc). The first copy loads the others.
// HDF5 and dlopen find it by its path. Any thread. Blocks while a copy is loaded.
#pragma once

#include <vector>

namespace forebay::hdf5 {

// Returns handles of dlopen, which stay open. A copy itself returns none.
[[nodiscard]] std::vector<void*> loaded_copies();

}   // namespace forebay::hdf5
