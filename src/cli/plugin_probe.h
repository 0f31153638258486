// Tests if the plugin loads, and by which HDF5, in a child process: a library that crashes or hangs does no harm.
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
    // HDF5 refuses the plugin because it loads only those with a trusted signature (HDF5_REQUIRE_SIGNED_PLUGINS).
    bool demands_signature = false;
};

// Starts the hidden `probe-plugin`. Blocks for 20 s at most. `plugin`: a file; `library`: a libhdf5's name or path.
[[nodiscard]] Result<PluginProbe> probe_plugin(const std::string& plugin, const std::string& library);

}   // namespace forebay::cli
