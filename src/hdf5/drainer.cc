#include "hdf5/drainer.h"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>

#include "hdf5/warning.h"
#include "io/detached_process.h"

namespace forebay::hdf5 {

namespace {

constexpr std::chrono::seconds kComesUpWithin{10};

// Builds and installations put the command beside the plugin's folder, or beside a folder above it.
std::string find_command() {
    Dl_info self{};
    if (dladdr(reinterpret_cast<const void*>(&leave_to_drainer), &self) == 0) return {};
    std::string folder = self.dli_fname;
    if (!folder.starts_with('/')) return {};
    for (int level = 0; level < 4 && !folder.empty(); ++level) {
        folder.erase(folder.rfind('/'));
        std::string command = folder + "/bin/forebay";
        if (::access(command.c_str(), X_OK) == 0) return command;
    }
    return {};
}

Status start(const std::string& directory) {
    const std::string command = find_command();
    if (command.empty()) return {Code::kNotFound, "the command `forebay` is not beside the plugin"};
    return io::start_detached({command, "drain", "--finish", directory}, kComesUpWithin);
}

}   // namespace

Status leave_to_drainer(const std::string& directory) {
    Status started = start(directory);
    if (!started) warn_once("close=linger: " + started.message() + "; the program waits for its drains");
    return started;
}

}   // namespace forebay::hdf5
