#include "base/options.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/configuration_text.h"
#include "base/options_value.h"

// This file contains all of toml++: the host program may have its shared library in another version.
#undef TOML_HEADER_ONLY
#undef TOML_SHARED_LIB
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#endif
#include <toml++/toml.h>
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

namespace forebay {

namespace {

using namespace options_internal;

constexpr std::string_view kPrefix = "FOREBAY_";
constexpr std::string_view kConnectorString = "connector string";
constexpr std::string_view kDefault = "default";
constexpr std::string_view kDefaultBy = "default, by ";

// Variables of forebay that are not options, with those of the project's own tools, builds and tests.
constexpr const char* kGivenVariable = "FOREBAY_RUN_OPTIONS";
constexpr std::array<std::string_view, 12> kOtherVariables{
    kGivenVariable,       "FOREBAY_ENV",    "FOREBAY_CONFIG", "FOREBAY_CACHE", "FOREBAY_BUILD_DIR", "FOREBAY_HDF5",
    "FOREBAY_PLUGIN_DIR", "FOREBAY_PYTHON", "FOREBAY_WERROR", "FOREBAY_RUN",   "FOREBAY_SEED",      "FOREBAY_FOLLOW"};
constexpr std::array<std::string_view, 6> kOtherPrefixes{"FOREBAY_TEST_", "FOREBAY_BENCH_",        "FOREBAY_DEMO_",
                                                         "FOREBAY_HDF5_", "FOREBAY_DIFFERENTIAL_", "FOREBAY_PARALLEL_"};

std::string& origin_in(LoadedOptions& loaded, std::string_view name) {
    return std::find_if(loaded.origins.begin(), loaded.origins.end(),
                        [&](const OptionOrigin& one) { return one.name == name; })
        ->source;
}

// Collects values level by level, weakest first. An unusable value leaves the weaker one in place.
class Loader {
  public:
    Loader() {
        for (const OptionSpec& spec : option_table())
            loaded_.origins.push_back({std::string(spec.name), std::string(kDefault)});
    }

    // Notes the values of `forebay run -o`, one "name=value" per line. Messages name "-o" as their source.
    void note_given(std::string_view lines) { given_ = fmt::format("\n{}\n", lines); }

    void set(std::string_view name, std::string_view value, std::string_view source) {
        if (!given_.empty() && given_.find(fmt::format("\n{}={}\n", name, value)) != std::string::npos) source = "-o";
        if (source == kConnectorString || source.starts_with(kDefaultBy)) {
            const Status beneath = store_beneath(name, value, loaded_.options);
            if (!beneath && beneath.code() != Code::kNotFound)
                loaded_.problems.push_back(refusal(name, value, source, beneath.message()));
            if (beneath.code() != Code::kNotFound) return;
        }
        const OptionSpec* spec = find_option(name);
        if (spec == nullptr) {
            loaded_.problems.push_back(unknown_option(name, value, source));
            return;
        }
        const Status stored = store_value(*spec, value, loaded_.options);
        if (stored) origin(name) = source;
        else loaded_.problems.push_back(refusal(name, value, source, stored.message()));
    }

    void problem(Status status) { loaded_.problems.push_back(std::move(status)); }
    std::string& origin(std::string_view name) { return origin_in(loaded_, name); }
    LoadedOptions& loaded() { return loaded_; }

  private:
    LoadedOptions loaded_;
    std::string given_;
};

// The length of the first value in `rest`: to the partner of its first brace (npos without one), else to a semicolon.
std::size_t value_length(std::string_view rest) {
    const std::size_t begin = rest.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos || rest[begin] != '{') return std::min(rest.find(';'), rest.size());
    std::size_t depth = 0;
    for (std::size_t i = begin; i < rest.size(); ++i) {
        if (rest[i] == '{') ++depth;
        if (rest[i] == '}' && --depth == 0) return i + 1;
    }
    return std::string_view::npos;
}

void load_connector_string(std::string_view rest, Loader& loader) {
    const auto malformed = [&](std::string_view where, std::string_view what) {
        loader.problem({Code::kInvalidArgument,
                        fmt::format("{}: {} at '{}'", kConnectorString, what, where.substr(0, 80))});
    };
    while (!trim(rest).empty()) {
        const std::size_t sign = rest.find_first_of("=;");
        if (sign == std::string_view::npos || rest[sign] == ';') {
            const std::string_view word = trim(rest.substr(0, sign));
            if (!word.empty()) malformed(word, "expected name=value");
            if (sign == std::string_view::npos) return;
            rest.remove_prefix(sign + 1);
            continue;
        }
        const std::string_view name = trim(rest.substr(0, sign));
        rest.remove_prefix(sign + 1);
        const std::size_t length = value_length(rest);
        if (length == std::string_view::npos)
            return malformed(rest, fmt::format("the brace after {}= is never closed", name));
        std::string_view value = trim(rest.substr(0, length));
        rest.remove_prefix(length);
        if (value.starts_with('{')) value = value.substr(1, value.size() - 2);
        const std::size_t end = std::min(rest.find(';'), rest.size());
        if (const std::string_view more = trim(rest.substr(0, end)); !more.empty())
            malformed(more, fmt::format("text after the closing brace of {}", name));
        else loader.set(name, value, kConnectorString);
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
}

void load_environment(const Getenv& getenv, std::span<const std::string> names, Loader& loader) {
    for (const OptionSpec& spec : option_table()) {
        const std::string variable = option_variable(spec.name);
        const char* value = getenv(variable.c_str());
        if (value != nullptr && *value != '\0') loader.set(spec.name, value, variable);
    }
    for (const std::string& variable : names) {
        if (!variable.starts_with(kPrefix)) continue;
        const bool is_option = std::any_of(option_table().begin(), option_table().end(), [&](const OptionSpec& spec) {
            return option_variable(spec.name) == variable;
        });
        const bool is_other = std::find(kOtherVariables.begin(), kOtherVariables.end(), variable) !=
                                  kOtherVariables.end() ||
                              std::any_of(kOtherPrefixes.begin(), kOtherPrefixes.end(),
                                          [&](std::string_view prefix) { return variable.starts_with(prefix); });
        if (!is_option && !is_other) loader.problem(unknown_variable(variable));
    }
}

void load_config(const std::string& path, Loader& loader) {
    const Result<std::string> text = read_configuration(path, "FOREBAY_CONFIG");
    if (!text) return loader.problem(text.status());
    const toml::parse_result parsed = toml::parse(text.value(), path);
    if (!parsed) {
        const toml::source_position at = parsed.error().source().begin;
        return loader.problem({Code::kCorrupt,
                               fmt::format("{}:{}:{}: {}", path, at.line, at.column, parsed.error().description())});
    }
    // toml++ sorts a table by name. Messages follow the order of the lines.
    std::vector<std::pair<std::string_view, const toml::node*>> pairs;
    for (const auto& [key, node] : parsed.table()) pairs.emplace_back(key.str(), &node);
    std::sort(pairs.begin(), pairs.end(),
              [](const auto& a, const auto& b) { return a.second->source().begin < b.second->source().begin; });
    for (const auto& [name, node] : pairs) {
        const std::string source = fmt::format("{}:{}", path, node->source().begin.line);
        if (const auto* word = node->as_string()) loader.set(name, word->get(), source);
        else if (const auto* number = node->as_integer()) loader.set(name, std::to_string(number->get()), source);
        else if (const auto* flag = node->as_boolean()) loader.set(name, flag->get() ? "true" : "false", source);
        else if (find_option(name) == nullptr) loader.problem(unknown_option(name, "...", source));
        else loader.problem(refusal(name, "...", source, "neither a string, a whole number, true nor false"));
    }
}

void choose_staging_area(const Getenv& getenv, Loader& loader) {
    Options& options = loader.loaded().options;
    if (!options.nls.empty()) return;
    const char* temporary = getenv("TMPDIR");
    const bool usable = temporary != nullptr && *temporary == '/';
    options.nls = usable ? temporary : "/tmp";
    loader.origin("nls") = usable ? "TMPDIR" : kDefault;
}

// An unreadable value of Slurm's variable is no error of the program's user, so it is ignored.
void choose_deadline(const Getenv& getenv, Loader& loader) {
    Options& options = loader.loaded().options;
    const char* told = getenv("SLURM_JOB_END_TIME");
    if (!options.deadline.empty() || told == nullptr || *told == '\0' || !check_option("deadline", told, "")) return;
    options.deadline = told;
    loader.origin("deadline") = "SLURM_JOB_END_TIME";
}

// A request for the peers of a job implies the read cache.
void choose_read_cache(Loader& loader) {
    LoadedOptions& loaded = loader.loaded();
    if (!loaded.options.reads_from_job() || !loaded.is_default("read_cache")) return;
    loaded.options.read_cache = ReadCacheMode::kOn;
    loader.origin("read_cache") = "read_cache_servers=job";
}

}   // namespace

// A host named "job" has a port number after the colon.
bool Options::reads_from_job() const noexcept {
    constexpr std::string_view kJob = "job", kPath = "job:";
    const std::string_view value = read_cache_servers;
    return value == kJob ||
           (value.starts_with(kPath) && value.find_first_not_of("0123456789", kPath.size()) != std::string_view::npos &&
            value.find(',') == std::string_view::npos);
}

std::vector<StagingDevice> Options::devices() const {
    std::vector<StagingDevice> all{{nls, nls_bytes}};
    all.insert(all.end(), more_devices.begin(), more_devices.end());
    return all;
}

void Options::derive_from_size() noexcept {
    constexpr std::uint64_t kPage = 4096, kLeast = std::uint64_t{64} << 10;
    const Options most;
    const std::uint64_t part = size / 64 / kPage * kPage;
    segment = std::clamp(part, kLeast, most.segment);
    write_max = std::clamp(part, kLeast, most.write_max);
    reserve = std::min(size, most.reserve);
}

std::string_view LoadedOptions::origin_of(std::string_view name) const noexcept {
    for (const OptionOrigin& origin : origins)
        if (origin.name == name) return origin.source;
    return {};
}

bool LoadedOptions::is_default(std::string_view name) const noexcept { return origin_of(name).starts_with(kDefault); }

LoadedOptions load_options(std::string_view connector_string, const Getenv& getenv,
                           std::span<const std::string> names_in_environment, std::span<const DefaultValue> defaults) {
    Loader loader;
    for (const DefaultValue& one : defaults)
        loader.set(one.name, one.value, fmt::format("{}{}", kDefaultBy, one.source));
    if (const char* given = getenv(kGivenVariable); given != nullptr && *given != '\0') loader.note_given(given);
    if (const char* path = getenv("FOREBAY_CONFIG"); path != nullptr && *path != '\0') load_config(path, loader);
    load_environment(getenv, names_in_environment, loader);
    load_connector_string(connector_string, loader);
    loader.loaded().options.derive_from_size();
    choose_staging_area(getenv, loader);
    choose_deadline(getenv, loader);
    choose_read_cache(loader);
    return std::move(loader.loaded());
}

void shrink_default_size(LoadedOptions& loaded, std::uint64_t most_bytes, std::string_view why) {
    const OptionSpec& size = *find_option("size");
    const std::string_view origin = loaded.origin_of(size.name);
    if (loaded.options.size <= most_bytes || (origin != kDefault && !origin.starts_with(kDefaultBy))) return;
    constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
    loaded.options.size = std::max(most_bytes / kMiB * kMiB, size.minimum);
    origin_in(loaded, size.name) = fmt::format("{}, {}", kDefault, why);
    loaded.options.derive_from_size();
}

std::string quote_connector_value(std::string_view value) {
    const bool misread = value.find(';') != std::string_view::npos || value.starts_with('{') ||
                         trim(value).size() != value.size();
    return misread ? fmt::format("{{{}}}", value) : std::string(value);
}

std::string to_connector_string(const Options& options) {
    std::string result;
    for (const OptionSpec& spec : option_table()) {
        const std::string value = option_text(options, spec.name);
        result += fmt::format("{}={};", spec.name, quote_connector_value(value));
    }
    return result +
           fmt::format("under_vol={};under_info={{{}}}", quote_connector_value(options.under_vol), options.under_info);
}

}   // namespace forebay
