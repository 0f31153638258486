#include "cache_vol/load.h"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "base/configuration_text.h"
#include "cache_vol/connector_text.h"

namespace forebay::cache_vol {

namespace {

// Directories in memory; the first that exists is used.
constexpr std::array kMemory{"/dev/shm", "/run/shm"};

// Refuses a pipe or a device, which would keep the program waiting.
Result<std::string> read_file(const std::string& path) {
    constexpr std::string_view kNamedBy = "connector string";
    std::error_code error;
    if (std::filesystem::is_regular_file(path, error)) return read_configuration(path, kNamedBy);
    return Status::from_errno(error ? error.value() : EINVAL,
                              fmt::format("read the configuration {} ({})", path, kNamedBy));
}

std::string memory_directory() {
    for (const char* const path : kMemory) {
        struct stat facts{};
        if (::stat(path, &facts) == 0 && S_ISDIR(facts.st_mode)) return path;
    }
    return kMemory.front();   // opening it reports the failure
}

std::string working_directory() {
    std::error_code error;
    const std::string path = std::filesystem::current_path(error).string();
    return error ? "." : path;
}

// An option of forebay decides if it is set, then Cache VOL's variable, then the access list of each file.
Switch decide(const LoadedOptions& loaded, const char* option, bool on, const Getenv& look_up, const char* variable,
              std::vector<std::string>& notices) {
    if (!loaded.is_default(option)) return on ? Switch::kOn : Switch::kOff;
    return switch_of(look_up, variable, &notices);
}

}   // namespace

Loaded load(std::string_view text, const Getenv& look_up, std::span<const std::string> names) {
    Loaded meaning;
    ConnectorText parsed = parse_connector_text(text);
    Settings settings;
    std::vector<Status> problems;
    read_variables(look_up, settings);
    if (!parsed.config.empty()) {
        const auto file = read_file(parsed.config);
        if (file) read_lines(file.value(), parsed.config, settings);
        else problems.push_back(file.status());
    }
    read_lines(parsed.local_storage, "LOCAL_STORAGE of the file access list", settings, Values::kWholeLine);
    Translation translated = translate(settings, working_directory(), memory_directory());
    // The access list of each file decides if the file is read through the cache.
    translated.defaults.push_back({"read_cache", "on", "cache_ext"});
    translated.defaults.push_back({"under_vol", parsed.under_vol, "the connector string"});
    translated.defaults.push_back({"under_info", parsed.under_info, "the connector string"});
    if (parsed.under_vol != "0")
        meaning.notices.push_back(fmt::format("under_vol={}: what a connector beneath writes, other than HDF5's own, "
                                              "is not staged",
                                              parsed.under_vol));
    meaning.loaded = load_options(parsed.options, look_up, names, translated.defaults);
    const Options& options = meaning.loaded.options;
    meaning.writes = decide(meaning.loaded, "stage", options.stage, look_up, "HDF5_CACHE_WR", meaning.notices);
    meaning.reads = decide(meaning.loaded, "read_cache", options.read_cache != ReadCacheMode::kOff, look_up,
                           "HDF5_CACHE_RD", meaning.notices);
    // Other code uses these two variables; this call only adds the notices for unknown words.
    for (const char* const variable : {"DATASET_PREFETCH_AT_OPEN", "HDF5_CACHE_DELAY_CLOSE"})
        (void)switch_of(look_up, variable, &meaning.notices);
    meaning.asynchronous = parsed.asynchronous;
    if (parsed.asynchronous) meaning.notice_of_user = std::string(kOwnAsynchrony);
    if (meaning.reads == Switch::kOff) meaning.loaded.options.read_cache = ReadCacheMode::kOff;
    for (auto* notices : {&parsed.notices, &settings.notices, &translated.notices})
        for (std::string& notice : *notices) meaning.notices.push_back(std::move(notice));
    for (auto* list : {&problems, &translated.problems})
        for (Status& problem : *list) meaning.loaded.problems.push_back(std::move(problem));
    return meaning;
}

}   // namespace forebay::cache_vol
