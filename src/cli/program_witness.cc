#include "cli/program_witness.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "cli/hdf5_choice.h"
#include "cli/launch.h"
#include "cli/plugin_probe.h"

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kProcessesMax = 1024;   // of one program, at one look
constexpr std::size_t kRemembered = 8;        // of each kind
constexpr std::uintmax_t kScriptBytesMax = std::uintmax_t{1} << 20;

std::string contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();   // an iterator would throw if the process ends before the read
    return std::move(text).str();
}

std::vector<pid_t> family(pid_t child) {
    std::vector<pid_t> found{child};
    for (std::size_t at = 0; at < found.size() && found.size() < kProcessesMax; ++at) {
        std::error_code gone;
        fs::directory_iterator task(fmt::format("/proc/{}/task", found[at]), gone);
        for (const fs::directory_iterator end; !gone && task != end; task.increment(gone)) {
            std::istringstream children(contents(task->path() / "children"));
            for (pid_t one = 0; children >> one;) found.push_back(one);
        }
    }
    return found;
}

std::optional<std::string> variable_in(const std::string& environment, std::string_view name) {
    for (std::size_t at = 0; at < environment.size();) {
        const std::string_view entry(environment.c_str() + at);
        if (entry.starts_with(name) && entry.substr(name.size()).starts_with('='))
            return std::string(entry.substr(name.size() + 1));
        at += entry.size() + 1;
    }
    return std::nullopt;
}

std::string name_in(const std::string& path) { return fs::path(path).filename().string(); }

}   // namespace

bool is_hdf5_library(const std::string& name) {
    if (!name.starts_with("libhdf5") || name.find(".so") == std::string::npos) return false;
    for (const char* other : {"_hl", "_cpp", "_fortran", "_tools", "_f90cstub"})
        if (name.find(other) != std::string::npos) return false;
    return true;
}

void ProgramWitness::look(pid_t child) {
    for (const pid_t process : family(child)) look_at(process);
}

void ProgramWitness::look_at(pid_t process) {
    bool has_hdf5 = false;
    std::istringstream maps(contents(fmt::format("/proc/{}/maps", process)));
    for (std::string line; std::getline(maps, line);)
        if (const std::size_t slash = line.find('/');
            slash != std::string::npos && is_hdf5_library(name_in(line.substr(slash)))) {
            has_hdf5 = true;
            if (libraries_.size() < kProcessesMax || libraries_.contains(process))
                libraries_[process].insert(line.substr(slash));
        }
    const std::string environment = contents(fmt::format("/proc/{}/environ", process));
    if (environment.empty()) return;   // unreadable, or not set up yet
    std::string name = contents(fmt::format("/proc/{}/comm", process));
    while (name.ends_with('\n')) name.pop_back();
    name = fmt::format("{} (process {})", name, process);
    const std::string connector = variable_in(environment, kConnectorVariable).value_or("");
    const std::string plugin_path = variable_in(environment, kPluginVariable).value_or("");
    if (connector.starts_with("forebay") && !names_folder(plugin_path, folder_)) {
        if (lacking_.size() < kRemembered) lacking_[name] = plugin_path;
    } else if (!connector.starts_with("forebay") && has_hdf5 && unswitched_.size() < kRemembered) {
        unswitched_.insert(name);
    }
}

// Reports a library that is too old if its process has no other one. Debian's PyTorch, for example, loads HDF5 1.10
// along with OpenCV and never calls it, while h5py has an HDF5 of its own.
std::vector<std::string> ProgramWitness::about_libraries() const {
    const std::string plugin = plugin_file(folder_).value_or("");
    std::map<std::string, std::string> too_old;   // version by library; may be empty
    std::set<std::string> told;
    for (const auto& [process, mapped] : libraries_) {
        for (const std::string& library : mapped) {
            if (too_old.contains(library) || too_old.size() == kRemembered) continue;
            const auto probe = probe_plugin(plugin, library);
            const bool is_old = probe && is_older_than_1_14(probe.value().library_version);
            too_old[library] = is_old ? probe.value().library_version : "";
        }
        const auto is_told = [&](const std::string& library) { return !too_old[library].empty(); };
        if (std::ranges::all_of(mapped, is_told)) told.insert(mapped.begin(), mapped.end());
    }
    std::vector<std::string> sentences;
    for (const std::string& library : told)
        sentences.push_back(fmt::format("HDF5 {} ({}) is too old to be staged: forebay needs HDF5 1.14.0 or later",
                                        too_old[library], library));
    return sentences;
}

std::vector<std::string> ProgramWitness::remarks(const std::vector<std::string>& program, bool began) const {
    std::vector<std::string> told = about_libraries();
    const bool explained = !told.empty() || !unswitched_.empty();
    for (const auto& [name, plugin_path] : lacking_)
        told.push_back(fmt::format("{} had HDF5_PLUGIN_PATH={}: HDF5 finds the plugin only if that also names {}", name,
                                   plugin_path, folder_));
    for (const std::string& name : unswitched_)
        told.push_back(fmt::format("{} was started without HDF5_VOL_CONNECTOR=forebay", name));
    if (began || explained) return told;
    // No look shows the variables that a script sets for itself. Its children may live too briefly to be seen.
    for (const std::string& argument : program) {
        std::error_code error;
        const std::uintmax_t bytes = fs::is_regular_file(argument, error) ? fs::file_size(argument, error) : 0;
        if (error || bytes == 0 || bytes > kScriptBytesMax) continue;
        const std::string text = contents(argument);
        if (text.find('\0') != std::string::npos) continue;
        for (const std::string_view variable : {kPluginVariable, kConnectorVariable})
            if (text.find(variable) != std::string::npos)
                told.push_back(fmt::format("{} mentions {}: if it sets it, {}", argument, variable,
                                           variable == kPluginVariable ? "it must keep " + folder_ + " in it"
                                                                       : std::string("it must be forebay")));
    }
    return told;
}

}   // namespace forebay::cli
