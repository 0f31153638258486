#include "cli/loaded_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/child_process.h"
#include "cli/launch.h"
#include "cli/program_witness.h"

namespace forebay::cli {

namespace fs = std::filesystem;

Result<std::vector<std::string>> hdf5_libraries_of(const std::vector<std::string>& program) {
    const char* const temporary = std::getenv("TMPDIR");
    std::string folder = fmt::format("{}/forebay-doctor-XXXXXX",
                                     temporary != nullptr && *temporary == '/' ? temporary : "/tmp");
    if (::mkdtemp(folder.data()) == nullptr) return Status::from_errno(errno, "create " + folder);
    // The linker writes one file for each process.
    const auto end = run_child(program,
                               environment_with({{"LD_DEBUG", "libs"}, {"LD_DEBUG_OUTPUT", folder + "/loaded"}}));
    std::vector<std::string> found;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), last; !error && entry != last; entry.increment(error)) {
        std::ifstream file(entry->path());
        constexpr std::string_view kLoaded = "calling init: ";
        for (std::string line; std::getline(file, line);) {
            const std::size_t at = line.find(kLoaded);
            if (at == std::string::npos) continue;
            const std::string path = line.substr(at + kLoaded.size());
            if (is_hdf5_library(fs::path(path).filename().string()) && std::ranges::find(found, path) == found.end())
                found.push_back(path);
        }
    }
    fs::remove_all(folder, error);
    if (!end) return end.status();
    return found;
}

}   // namespace forebay::cli
