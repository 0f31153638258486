// Does the plugin load, and which HDF5 is it that loads it? Asked in a process of its own, so that a
// library that crashes or hangs takes nothing along.
#pragma once

#include <string>

#include "base/status.h"

namespace forebay::cli {

struct PluginProbe {
    bool library_loads = false;
    std::string library;           // that was asked for
    std::string library_message;   // why it does not load
    std::string library_version;   // "1.14.5"
    bool library_parallel = false;
    bool library_threadsafe = false;

    bool plugin_loads = false;
    bool registered = false;      // HDF5 itself loaded it, as it does for a program
    std::string plugin_message;   // why it does not
    // A new HDF5 can be built to load only plugins that somebody it trusts has signed
    // (HDF5_REQUIRE_SIGNED_PLUGINS). This one is, and refuses the plugin.
    bool demands_signature = false;
};

// Starts the hidden subcommand `probe-plugin` and reads its answer. Blocks for 20 seconds at most.
// `plugin` is the plugin's file; `library` the libhdf5 to load, a name or a path.
[[nodiscard]] Result<PluginProbe> probe_plugin(const std::string& plugin, const std::string& library);

}   // namespace forebay::cli
