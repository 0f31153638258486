// Tests if the plugin loads, and finds the HDF5 version that loads it. The test runs in a child process, so that a
// library that crashes or hangs does no harm.
#pragma once

#include <string>

#include "base/status.h"

namespace forebay::cli {

struct PluginProbe {
    bool library_loads = false;
    std::string library;           // the requested one
    std::string library_message;   // why the library does not load
    std::string library_version;   // "1.14.5"
    bool library_parallel = false;
    bool library_threadsafe = false;

    bool plugin_loads = false;
    bool registered = false;      // HDF5 itself loaded it, as it does for a program
    std::string plugin_message;   // why the plugin does not load
    // True if HDF5 was built to load only plugins with a trusted signature (HDF5_REQUIRE_SIGNED_PLUGINS), and so
    // refuses the plugin.
    bool demands_signature = false;
};

// Starts the hidden subcommand `probe-plugin` and reads its answer. Blocks for 20 seconds at most. `plugin` is the
// plugin's file; `library` the libhdf5 to load, a name or a path.
[[nodiscard]] Result<PluginProbe> probe_plugin(const std::string& plugin, const std::string& library);

}   // namespace forebay::cli
