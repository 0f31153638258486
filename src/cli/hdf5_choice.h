// Chooses the libhdf5 with which `forebay doctor` tries the plugin if no program and no option names one.
#pragma once

#include <string>
#include <vector>

#include "cli/plugin_probe.h"

namespace forebay::cli {

struct PassedOver {
    std::string library;   // a path, or a text about the searched places
    std::string reason;
    bool too_old = false;   // loads, but is older than 1.14.0
};

struct Hdf5Choice {
    PluginProbe probe;   // with the chosen library; `library_loads` is false if there is none
    std::vector<PassedOver> passed_over;
};

// Tries these libraries in order: the one that forebay was built with, those of h5cc and h5pcc on the PATH, the dynamic
// linker's, and the one that h5py of python3 loads. Takes the first that loads and is recent enough. `plugin` is the
// plugin's file. Runs those programs, and blocks as probe_plugin does for each library.
[[nodiscard]] Result<Hdf5Choice> choose_hdf5(const std::string& plugin);

// HDF5 1.14.0 is the first version that supports staging.
[[nodiscard]] bool is_older_than_1_14(const std::string& version);

}   // namespace forebay::cli
