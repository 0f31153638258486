// What a program needs in its environment to be staged: the connector, the plugin's folder, options.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/status.h"

namespace forebay::cli {

// The folder that holds the plugin, found relative to this executable: beside bin/ in a build folder,
// at its place below the prefix once installed. kNotFound names where it was looked for.
[[nodiscard]] Result<std::string> plugin_folder();
// The plugin's file in that folder.
[[nodiscard]] std::optional<std::string> plugin_file(const std::string& folder);
// This executable.
[[nodiscard]] Result<std::string> own_path();

inline constexpr const char* kConnectorVariable = "HDF5_VOL_CONNECTOR";
inline constexpr const char* kPluginVariable = "HDF5_PLUGIN_PATH";
// In the place of Cache VOL: its connector's name, the folder of that plugin, and its file there.
[[nodiscard]] bool names_cache_vol(std::string_view connector);
[[nodiscard]] std::string cache_vol_folder(const std::string& plugin_folder);
inline constexpr const char* kCacheVolPlugin = "libh5cache_vol.so";
// Whether a value of the latter has the folder in it.
[[nodiscard]] bool names_folder(std::string_view plugin_path, std::string_view folder);

// The package's folder with the module that each Python of a program imports at its start, which follows DataLoaders
// (python/forebay/startup). Nothing if this installation has no Python package, or FOREBAY_FOLLOW switches it off.
[[nodiscard]] std::optional<std::string> python_startup_folder();
inline constexpr const char* kPythonPathVariable = "PYTHONPATH";
// Our PYTHONPATH with that folder in front, unless it is in there already.
[[nodiscard]] std::string python_path_with(const std::string& folder);

// Variables to set, by name.
using Variables = std::map<std::string, std::string>;

// HDF5_VOL_CONNECTOR, HDF5_PLUGIN_PATH, and one FOREBAY_* for each "key=value" of `settings`, which are
// checked against the option table. Relative paths in settings become absolute. A connector string of
// forebay, or of Cache VOL, that is set already is kept, and a setting overrides what it says.
// kInvalidArgument: a bad setting, or another connector is set. `folder` is the plugin's.
[[nodiscard]] Result<Variables> launch_variables(const std::vector<std::string>& settings, const std::string& folder);

// A staging area that is named with --nls has to be there: otherwise nothing would be staged, and a mistyped name would
// come to light at the end only. kInvalidArgument: there is no such directory, or it cannot be written to.
[[nodiscard]] Status check_named_area(const std::vector<std::string>& settings);

// Says in the environment of a program which of its variables come from -o.
inline constexpr const char* kGivenVariable = "FOREBAY_RUN_OPTIONS";

// The options that a program sees which is started with these variables in addition to our own.
[[nodiscard]] LoadedOptions options_with(const Variables& variables);
// What of its connector string for Cache VOL, and of that configuration, is not done as written; one sentence each.
[[nodiscard]] std::vector<std::string> notices_with(const Variables& variables);

// HDF5_PLUGIN_PATH of our own environment without the plugin's folder.
[[nodiscard]] std::string plugin_path_without(const std::string& folder);

// The whole environment with forebay switched off: a program started with it runs natively.
[[nodiscard]] std::vector<std::string> native_environment(const std::string& folder);

// The whole environment, with the variables set, as "NAME=value".
[[nodiscard]] std::vector<std::string> environment_with(const Variables& variables);

}   // namespace forebay::cli
