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

// Takes the first library that loads and is recent enough: that of forebay's build, those of h5cc and h5pcc on the
// PATH, the dynamic linker's, that of python3's h5py. `plugin` is the plugin's file. Blocks as probe_plugin for each.
[[nodiscard]] Result<Hdf5Choice> choose_hdf5(const std::string& plugin);

[[nodiscard]] bool is_older_than_1_14(const std::string& version);

}   // namespace forebay::cli
