// Why a program is not staged although `forebay run` has switched that on: it, or what it starts, uses an HDF5 that
// knows no connectors of this kind, or changes the variables that name the plugin.
//
// Looks into /proc while the program runs: at libraries that are mapped, and at the environment of what it has
// started. A process that comes and goes between two looks is not seen.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace forebay::cli {

// libhdf5.so.103, libhdf5_serial.so.103.3.0, libhdf5-9e18f0c6.so.320.0.0; not the high-level, C++, Fortran or tools
// library.
[[nodiscard]] bool is_hdf5_library(const std::string& name);

class ProgramWitness {
  public:
    // `folder` is the plugin's, which HDF5_PLUGIN_PATH has to name.
    explicit ProgramWitness(std::string folder) : folder_(std::move(folder)) {}

    // At `child` and all that it has started.
    void look(pid_t child);

    // Sentences for the summary. `began`: a process of the program has come to forebay; then only what concerns others
    // is told. Blocks: loads, in processes of their own, libraries that were seen.
    [[nodiscard]] std::vector<std::string> remarks(const std::vector<std::string>& program, bool began) const;

  private:
    void look_at(pid_t process);
    [[nodiscard]] std::vector<std::string> about_libraries() const;

    const std::string folder_;
    std::map<pid_t, std::set<std::string>> libraries_;   // libhdf5s that were mapped, by process
    std::map<std::string, std::string> lacking_;   // processes without the plugin's folder: what they have instead
    std::set<std::string> unswitched_;             // processes without the connector
};

}   // namespace forebay::cli
