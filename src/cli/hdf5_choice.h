// The libhdf5 that `forebay doctor` tries the plugin with when no program and no option names one.
#pragma once

#include <string>
#include <vector>

#include "cli/plugin_probe.h"

namespace forebay::cli {

struct PassedOver {
    std::string library;   // a path, or words for where it was looked for
    std::string reason;
    bool too_old = false;   // it loads, and is older than 1.14.0
};

struct Hdf5Choice {
    PluginProbe probe;   // with the library that was chosen; `library_loads` is false if none was
    std::vector<PassedOver> passed_over;
};

// Tries, in this order, the library that forebay was built with, those of h5cc and h5pcc on the PATH, that of the
// dynamic linker, and the one that h5py of python3 loads. Takes the first that loads and is recent enough. `plugin` is
// the plugin's file. Runs those programs, and blocks as probe_plugin does for each library.
[[nodiscard]] Result<Hdf5Choice> choose_hdf5(const std::string& plugin);

// HDF5 1.14.0 is the first version that stages.
[[nodiscard]] bool is_older_than_1_14(const std::string& version);

}   // namespace forebay::cli
