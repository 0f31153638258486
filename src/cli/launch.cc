#include "cli/launch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "cache_vol/load.h"
#include "cli/build_facts.h"

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kConnector = "forebay", kCacheVolConnector = "cache_ext";
// HDF5's default folder. Setting the variable replaces it, and hides the filters there.
constexpr const char* kDefaultPluginFolder = "/usr/local/hdf5/lib/plugin";

std::string variable(const char* name) {
    const char* value = ::getenv(name);
    return value != nullptr ? value : "";
}

// Returns the connector string without the name: "forebay nls=/local" gives "nls=/local".
std::string info_of(const std::string& connector) {
    const std::size_t blank = connector.find_first_of(" \t");
    return blank == std::string::npos ? "" : connector.substr(blank + 1);
}

Result<std::string> absolute(const OptionSpec& spec, const std::string& value) {
    if (spec.type != OptionType::kPath || value.empty() || value.front() == '/') return value;
    // The value as given, as `on` must not become a path. Skips nls and registry, whose relative paths it would refuse.
    if (spec.name != "nls" && spec.name != "registry") FOREBAY_TRY(check_option(spec.name, value, "-o"));
    std::error_code error;
    const fs::path path = fs::absolute(value, error);
    if (error) return Status::from_errno(error.value(), "find the working directory");
    return path.lexically_normal().string();
}

std::string plugin_path_with(const std::string& folder) {
    const std::string present = variable(kPluginVariable);
    if (present == folder || present.starts_with(folder + ":")) return present;
    if (!present.empty()) return folder + ":" + present;
    std::error_code ignored;
    return fs::is_directory(kDefaultPluginFolder, ignored) ? folder + ":" + kDefaultPluginFolder : folder;
}

std::string_view name_of(std::string_view connector) { return connector.substr(0, connector.find_first_of(" \t")); }

// Returns true if FOREBAY_FOLLOW switches it off. The Python package accepts the same words (loader_hook.py).
bool following_is_off() {
    std::string value = variable("FOREBAY_FOLLOW");
    for (char& c : value) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return value == "off" || value == "no" || value == "false" || value == "0";
}

}   // namespace

bool names_cache_vol(std::string_view connector) { return name_of(connector) == kCacheVolConnector; }

std::string cache_vol_folder(const std::string& plugin_folder) { return plugin_folder + "-cache_ext"; }

bool names_folder(std::string_view plugin_path, std::string_view folder) {
    for (;;) {
        const std::size_t colon = plugin_path.find(':');
        if (plugin_path.substr(0, colon) == folder) return true;
        if (colon == std::string_view::npos) return false;
        plugin_path.remove_prefix(colon + 1);
    }
}

Result<std::string> own_path() {
    std::error_code error;
    const fs::path path = fs::read_symlink("/proc/self/exe", error);
    if (error) return Status::from_errno(error.value(), "read /proc/self/exe");
    return path.string();
}

std::optional<std::string> plugin_file(const std::string& folder) {
    std::vector<std::string> found;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (name.find("forebay") != std::string::npos && name.find(".so") != std::string::npos)
            found.push_back(entry->path().string());
    }
    if (found.empty()) return std::nullopt;
    return *std::min_element(found.begin(), found.end());
}

Result<std::string> plugin_folder() {
    const Result<std::string> self = own_path();
    if (!self) return self.status();
    const fs::path prefix = fs::path(self.value()).parent_path().parent_path();
    std::string looked;
    for (const fs::path& folder : {prefix / "plugins", prefix / kPluginInstallFolder}) {
        if (plugin_file(folder.string())) return folder.string();
        looked += (looked.empty() ? "" : " and in ") + folder.string();
    }
    return Status(Code::kNotFound, fmt::format("find the plugin: none is in {}", looked));
}

std::optional<std::string> python_package_folder() {
    const Result<std::string> self = own_path();
    if (!self) return std::nullopt;
    const fs::path prefix = fs::path(self.value()).parent_path().parent_path();
    // In a wheel the prefix is the package. A build folder is two levels below the checkout.
    std::vector<fs::path> packages{prefix};
    std::error_code error;
    if (fs::exists(prefix / "CMakeCache.txt", error))
        packages.push_back(prefix.parent_path().parent_path() / "python" / "forebay");
    for (fs::directory_iterator entry(prefix / "lib", error), end; !error && entry != end; entry.increment(error))
        if (entry->path().filename().string().starts_with("python"))
            for (const char* const packages_of : {"site-packages", "dist-packages"})
                packages.push_back(entry->path() / packages_of / "forebay");
    for (const fs::path& package : packages)
        if (fs::exists(package / "startup" / "sitecustomize.py", error)) return package.string();
    return std::nullopt;
}

std::optional<std::string> python_startup_folder() {
    const auto package = following_is_off() ? std::nullopt : python_package_folder();
    return package ? std::optional(*package + "/startup") : std::nullopt;
}

std::string python_path_with(const std::string& folder) {
    const std::string present = variable(kPythonPathVariable);
    if (names_folder(present, folder)) return present;
    return present.empty() ? folder : folder + ":" + present;
}

Result<Variables> launch_variables(const std::vector<std::string>& settings, const std::string& folder) {
    std::string connector = variable(kConnectorVariable);
    if (connector.empty()) connector = kConnector;
    if (name_of(connector) != kConnector && !names_cache_vol(connector))
        return Status(Code::kInvalidArgument, fmt::format("{} is set to '{}', another connector: unset it first",
                                                          kConnectorVariable, connector));
    // A connector string beats the environment. So the new settings must be in it as well.
    const bool has_info = !info_of(connector).empty();
    Variables variables;
    for (const std::string& setting : settings) {
        const std::size_t sign = setting.find('=');
        if (sign == std::string::npos)
            return Status(Code::kInvalidArgument,
                          fmt::format("-o {}: expected key=value, for example -o size=16GiB", setting));
        const std::string name = setting.substr(0, sign);
        const OptionSpec* spec = find_option(name);
        const Result<std::string> value = spec != nullptr ? absolute(*spec, setting.substr(sign + 1))
                                                          : setting.substr(sign + 1);
        if (!value) return value.status();
        FOREBAY_TRY(check_option(name, value.value(), "-o"));
        variables[option_variable(name)] = value.value();
        std::string& given = variables[kGivenVariable];
        given += fmt::format("{}{}={}", given.empty() ? "" : "\n", name, value.value());
        if (has_info) connector += fmt::format(";{}={}", name, quote_connector_value(value.value()));
    }
    variables[kConnectorVariable] = connector;
    variables[kPluginVariable] = plugin_path_with(names_cache_vol(connector) ? cache_vol_folder(folder) : folder);
    return variables;
}

Status check_named_area(const std::vector<std::string>& settings) {
    std::optional<std::string> folder;
    for (const std::string& setting : settings)
        if (setting.starts_with("nls=")) folder = setting.substr(4);
    if (!folder) return Status::ok();
    const auto text = absolute(*find_option("nls"), *folder);
    const auto devices = text ? parse_staging_devices(text.value()) : text.status();
    if (!devices) return Status(Code::kInvalidArgument, fmt::format("{}: {}", *folder, devices.status().message()));
    for (const StagingDevice& device : devices.value()) {
        const std::string& path = devices.value().size() == 1 ? *folder : device.path;
        const auto refuse = [&](std::string_view why) {
            return Status(Code::kInvalidArgument,
                          fmt::format("{} {}; `-o nls={}` has the program run without {}", path, why, *folder,
                                      device.path == devices.value().front().path ? "staging" : "that device"));
        };
        std::error_code error;
        const fs::file_status facts = fs::status(device.path, error);
        if (facts.type() == fs::file_type::not_found) return refuse("does not exist");
        if (error) return refuse("cannot be examined: " + error.message());
        if (!fs::is_directory(facts)) return refuse("is not a directory");
        if (::access(device.path.c_str(), W_OK | X_OK) != 0) return refuse("cannot be written to");
    }
    return Status::ok();
}

namespace {

cache_vol::Loaded meaning_of(const Variables& variables) {
    std::vector<std::string> names;
    for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        names.emplace_back(text.substr(0, text.find('=')));
    }
    const auto lookup = [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found != variables.end() ? found->second.c_str() : ::getenv(name);
    };
    const char* connector = lookup(kConnectorVariable);
    const std::string text = connector != nullptr ? connector : "";
    if (names_cache_vol(text)) return cache_vol::load(info_of(text), lookup, names);
    cache_vol::Loaded meaning;
    meaning.loaded = load_options(name_of(text) == kConnector ? info_of(text) : "", lookup, names);
    return meaning;
}

}   // namespace

LoadedOptions options_with(const Variables& variables) { return meaning_of(variables).loaded; }

std::vector<std::string> notices_with(const Variables& variables) { return meaning_of(variables).notices; }

std::string plugin_path_without(const std::string& folder) {
    const std::string path = variable(kPluginVariable);
    std::string rest;
    for (std::string_view left = path; !left.empty();) {
        const std::string_view one = left.substr(0, left.find(':'));
        if (one != folder && one != cache_vol_folder(folder)) (rest += rest.empty() ? "" : ":") += one;
        left.remove_prefix(std::min(left.size(), one.size() + 1));
    }
    return rest;
}

std::vector<std::string> native_environment(const std::string& folder) {
    Variables changed;
    const std::string connector = variable(kConnectorVariable), path = plugin_path_without(folder);
    if (path != variable(kPluginVariable)) changed[kPluginVariable] = path;
    if (name_of(connector) == kConnector || names_cache_vol(connector)) changed[kConnectorVariable] = "";
    std::vector<std::string> result = environment_with(changed);
    // HDF5 would take an empty connector name, or plugin folder, as a value.
    std::erase_if(result, [&](const std::string& entry) {
        return entry == std::string(kConnectorVariable) + "=" ||
               (path.empty() && entry == std::string(kPluginVariable) + "=");
    });
    return result;
}

std::vector<std::string> environment_with(const Variables& variables) {
    std::vector<std::string> result;
    for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string text(*entry);
        if (!variables.contains(text.substr(0, text.find('=')))) result.push_back(text);
    }
    for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
    return result;
}

}   // namespace forebay::cli
