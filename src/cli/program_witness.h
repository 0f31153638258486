// Explains why a program under `forebay run` is not staged: an HDF5 without such connectors, or other variables. While
// the program runs, it reads /proc: the mapped libraries and the environment of all descendants. It misses a process
// that starts and ends between two looks.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace forebay::cli {

// Matches libhdf5.so.103 and libhdf5-9e18f0c6.so.320.0.0, but not the high-level, C++, Fortran or tools library.
[[nodiscard]] bool is_hdf5_library(const std::string& name);

class ProgramWitness {
  public:
    // `folder` is the plugin's folder, which must be in HDF5_PLUGIN_PATH.
    explicit ProgramWitness(std::string folder) : folder_(std::move(folder)) {}

    void look(pid_t child);

    // Sentences for the summary. If `began` (a process has used forebay), only on the others. Blocks: probes libraries.
    [[nodiscard]] std::vector<std::string> remarks(const std::vector<std::string>& program, bool began) const;

  private:
    void look_at(pid_t process);
    [[nodiscard]] std::vector<std::string> about_libraries() const;

    const std::string folder_;
    std::map<pid_t, std::set<std::string>> libraries_;   // mapped libhdf5s, by process
    std::map<std::string, std::string> lacking_;         // processes without the plugin's folder, and their value
    std::set<std::string> unswitched_;                   // processes without the connector
};

}   // namespace forebay::cli
