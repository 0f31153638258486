#include "cli/hdf5_choice.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string_view>

#include "cli/build_facts.h"
#include "cli/loaded_library.h"

namespace forebay::cli {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLinkerName = "libhdf5.so";
// The connector is removed from the environment, because this run does not need the plugin.
constexpr const char* kImportH5py = "import os\n"
                                    "os.environ.pop('HDF5_VOL_CONNECTOR', None)\n"
                                    "try:\n"
                                    "    import h5py\n"
                                    "except BaseException:\n"
                                    "    pass\n";

std::string compiler_line(const std::string& script) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> output(::popen((script + " -show 2>/dev/null").c_str(), "re"),
                                                                 &::pclose);
    std::string line;
    std::array<char, 4096> block;
    while (output != nullptr) {
        const std::size_t got = std::fread(block.data(), 1, block.size(), output.get());
        if (got == 0) break;
        line.append(block.data(), got);
    }
    return line;
}

// Returns the libhdf5 of each folder in the line: from -L, an rpath, or a library of HDF5 there.
std::vector<std::string> libraries_of_compiler(const std::string& script) {
    std::vector<std::string> found;
    std::istringstream words(compiler_line(script));
    for (std::string word; words >> word;) {
        std::string folder;
        for (const std::string_view flag : {"-L", "-Wl,-rpath,", "-Wl,-rpath="})
            if (word.starts_with(flag)) folder = word.substr(flag.size());
        if (word.starts_with('/')) folder = fs::path(word).parent_path().string();
        const std::string library = folder + "/" + std::string(kLinkerName);
        std::error_code error;
        if (!folder.empty() && fs::exists(library, error) && std::ranges::find(found, library) == found.end())
            found.push_back(library);
    }
    return found;
}

class Choosing {
  public:
    explicit Choosing(const std::string& plugin) : plugin_(plugin) {}

    Result<Hdf5Choice> operator()() {
        if (!kHdf5Library.empty() && try_one(std::string(kHdf5Library))) return std::move(choice_);
        for (const char* const script : {"h5cc", "h5pcc"})
            for (const std::string& library : libraries_of_compiler(script))
                if (try_one(library)) return std::move(choice_);
        if (try_one(std::string(kLinkerName))) return std::move(choice_);
        const auto loaded = hdf5_libraries_of({"python3", "-c", kImportH5py});
        if (!loaded || loaded.value().empty())
            pass_over("python3", loaded ? "its h5py loads no libhdf5" : loaded.status().message());
        else
            for (const std::string& library : loaded.value())
                if (try_one(library)) return std::move(choice_);
        FOREBAY_TRY(failure_);
        // Without a usable HDF5, the dynamic linker can still check the plugin itself.
        auto alone = probe_plugin(plugin_, "");
        FOREBAY_TRY(alone.status());
        choice_.probe = std::move(alone).value();
        return std::move(choice_);
    }

  private:
    void pass_over(std::string library, std::string reason, bool too_old = false) {
        choice_.passed_over.push_back({std::move(library), std::move(reason), too_old});
    }

    bool try_one(const std::string& library) {
        const bool known = std::ranges::any_of(choice_.passed_over,
                                               [&](const PassedOver& one) { return one.library == library; });
        if (known || !failure_) return false;
        if (library.starts_with('/') && ::access(library.c_str(), R_OK) != 0) {
            pass_over(library, std::strerror(errno));
            return false;
        }
        auto probe = probe_plugin(plugin_, library);
        if (!probe) {
            failure_ = probe.status();
            return false;
        }
        if (!probe.value().library_loads) {
            const std::string& why = probe.value().library_message;
            pass_over(library, why.empty() ? probe.value().plugin_message : why);
            return false;
        }
        if (is_older_than_1_14(probe.value().library_version)) {
            pass_over(library,
                      fmt::format("HDF5 {} is too old: forebay needs 1.14.0 or later", probe.value().library_version),
                      true);
            return false;
        }
        choice_.probe = std::move(probe).value();
        return true;
    }

    const std::string& plugin_;
    Hdf5Choice choice_;
    Status failure_;   // the plugin cannot be probed at all
};

}   // namespace

bool is_older_than_1_14(const std::string& version) {
    unsigned major = 0, minor = 0;
    if (std::sscanf(version.c_str(), "%u.%u", &major, &minor) != 2) return false;
    return major < 1 || (major == 1 && minor < 14);
}

Result<Hdf5Choice> choose_hdf5(const std::string& plugin) { return Choosing(plugin)(); }

}   // namespace forebay::cli
