// The environment variables that make a program stage: the connector, the plugin's folder, options.
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

// Beside bin/ in a build folder, or at its place below the prefix. The message of kNotFound names the searched places.
[[nodiscard]] Result<std::string> plugin_folder();
[[nodiscard]] std::optional<std::string> plugin_file(const std::string& folder);
[[nodiscard]] Result<std::string> own_path();

inline constexpr const char* kConnectorVariable = "HDF5_VOL_CONNECTOR";
inline constexpr const char* kPluginVariable = "HDF5_PLUGIN_PATH";
// Names of Cache VOL, which forebay replaces: the connector's name, the plugin's folder, and its file.
[[nodiscard]] bool names_cache_vol(std::string_view connector);
[[nodiscard]] std::string cache_vol_folder(const std::string& plugin_folder);
inline constexpr const char* kCacheVolPlugin = "libh5cache_vol.so";
[[nodiscard]] bool names_folder(std::string_view plugin_path, std::string_view folder);

// The folder of the Python package beside this command. Nullopt if this installation has none.
[[nodiscard]] std::optional<std::string> python_package_folder();

// That folder with the module that each Python imports at its start to follow DataLoaders (python/forebay/startup).
// Nullopt: this installation has none, or FOREBAY_FOLLOW switches it off.
[[nodiscard]] std::optional<std::string> python_startup_folder();
inline constexpr const char* kPythonPathVariable = "PYTHONPATH";
[[nodiscard]] std::string python_path_with(const std::string& folder);

using Variables = std::map<std::string, std::string>;

// Returns HDF5_VOL_CONNECTOR, HDF5_PLUGIN_PATH, and one FOREBAY_* for each "key=value" of `settings`, checked against
// the option table. Relative paths in settings become absolute. An existing connector string of forebay, or of Cache
// VOL, is kept; a setting overrides its values. kInvalidArgument: a setting is wrong, or another connector is set.
// `folder` is the plugin's.
[[nodiscard]] Result<Variables> launch_variables(const std::vector<std::string>& settings, const std::string& folder);

// Checks that a staging area named with --nls exists. Otherwise a mistyped name would show only at the end, when no
// file was staged. kInvalidArgument: there is no such directory, or it is not writable.
[[nodiscard]] Status check_named_area(const std::vector<std::string>& settings);

// The variable that tells a program which of its variables come from -o.
inline constexpr const char* kGivenVariable = "FOREBAY_RUN_OPTIONS";

// The options of a program that starts with these variables in addition to our own.
[[nodiscard]] LoadedOptions options_with(const Variables& variables);
// One sentence for each part of the program's Cache VOL string and configuration that forebay ignores or changes.
[[nodiscard]] std::vector<std::string> notices_with(const Variables& variables);

[[nodiscard]] std::string plugin_path_without(const std::string& folder);

// The complete environment without forebay. A program started with it runs natively.
[[nodiscard]] std::vector<std::string> native_environment(const std::string& folder);

[[nodiscard]] std::vector<std::string> environment_with(const Variables& variables);

}   // namespace forebay::cli
