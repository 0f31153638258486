// The drop-in for Cache VOL: its connector string, its configuration file and its variables, as options of forebay.
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include <fmt/format.h>

#include "cache_vol/connector_text.h"
#include "hdf5/host/guard.h"
#include "hdf5/identity.h"

namespace forebay::hdf5 {

namespace {

// A text of lines as in a configuration file; H5Pset_fapl_cache puts it into the list (src/api/local_storage.c).
constexpr const char* kListSettings = "forebay.local_storage";
constexpr std::size_t kConfigurationMax = std::size_t{1} << 20;
// For storage in memory: the first of these that is a directory.
constexpr std::array kMemory{"/dev/shm", "/run/shm"};

Result<std::string> read_file(const std::string& path) {
    const auto failure = [&](int error) {
        return Status::from_errno(error, fmt::format("read the configuration {} (connector string)", path));
    };
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return failure(error ? error.value() : EINVAL);
    struct Close {
        void operator()(std::FILE* file) const noexcept { std::fclose(file); }
    };
    const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rbe"));
    if (!file) return failure(errno);
    std::string text;
    std::array<char, 65536> block;
    while (const std::size_t got = std::fread(block.data(), 1, block.size(), file.get())) {
        text.append(block.data(), got);
        if (text.size() > kConfigurationMax) return failure(EFBIG);
    }
    if (std::ferror(file.get()) != 0) return failure(errno);
    return text;
}

std::string memory_directory() {
    for (const char* const path : kMemory) {
        struct stat facts{};
        if (::stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) return path;
    }
    return kMemory.front();   // opening it tells
}

std::string working_directory() {
    std::error_code error;
    const std::string path = std::filesystem::current_path(error).string();
    return error ? "." : path;
}

// What decides: an option of forebay, if somebody has set it; else Cache VOL's variable; else the list of each file.
Switch decide(const LoadedOptions& loaded, const char* option, bool on, const char* variable) {
    if (!loaded.is_default(option)) return on ? Switch::kOn : Switch::kOff;
    return cache_vol::switch_of(look_up_variable, variable);
}

}   // namespace

std::string text_of_list(hid_t file_access_list, const std::string& connector_text) {
    const QuietErrors quiet;
    std::size_t size = 0;
    if (host().H5Pexist(file_access_list, kListSettings) <= 0 ||
        host().H5Pget_size(file_access_list, kListSettings, &size) < 0 || size == 0 || size > kConfigurationMax)
        return connector_text;
    std::string settings(size, '\0');
    if (host().H5Pget(file_access_list, kListSettings, settings.data()) < 0) return connector_text;
    settings.resize(settings.find('\0') == std::string::npos ? size : settings.find('\0'));
    return fmt::format("{};local_storage={{{}}}", connector_text, settings);
}

const Identity& identity() noexcept {
    static constexpr Identity kCacheExt{"cache_ext", 513};
    return kCacheExt;
}

TextMeaning read_text(const std::string& text) {
    TextMeaning meaning;
    cache_vol::ConnectorText parsed = cache_vol::parse_connector_text(text);
    cache_vol::Settings settings;
    std::vector<Status> problems;
    cache_vol::read_variables(look_up_variable, settings);
    if (!parsed.config.empty()) {
        const auto file = read_file(parsed.config);
        if (file) cache_vol::read_lines(file.value(), parsed.config, settings);
        else problems.push_back(file.status());
    }
    cache_vol::read_lines(parsed.local_storage, "LOCAL_STORAGE of the file access list", settings);
    cache_vol::Translation translated = cache_vol::translate(settings, working_directory(), memory_directory());
    // Files are read through the cache if their list says so: whether that is so is asked for each file.
    translated.defaults.push_back({"read_cache", "on", "cache_ext"});
    translated.defaults.push_back({"under_vol", parsed.under_vol, "the connector string"});
    translated.defaults.push_back({"under_info", parsed.under_info, "the connector string"});
    if (parsed.under_vol != "0")
        meaning.notices.push_back(fmt::format("under_vol={}: what a connector beneath writes, other than HDF5's own, "
                                              "is not staged",
                                              parsed.under_vol));
    meaning.loaded = load_options(parsed.options, look_up_variable, forebay_variables(), translated.defaults);
    meaning.writes = decide(meaning.loaded, "stage", meaning.loaded.options.stage, "HDF5_CACHE_WR");
    meaning.reads = decide(meaning.loaded, "read_cache", meaning.loaded.options.read_cache, "HDF5_CACHE_RD");
    if (meaning.reads == Switch::kOff) meaning.loaded.options.read_cache = false;
    for (auto* notices : {&parsed.notices, &settings.notices, &translated.notices})
        for (std::string& notice : *notices) meaning.notices.push_back(std::move(notice));
    for (auto* list : {&problems, &translated.problems})
        for (Status& problem : *list) meaning.loaded.problems.push_back(std::move(problem));
    return meaning;
}

}   // namespace forebay::hdf5
